"""`load_skill`, and the prompt about a session's skills."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from pointsman.errors import DocumentError
from pointsman.kernel.document import printable
from pointsman.kernel.nearest import nearest
from pointsman.providers.messages import Text, ToolUse
from pointsman.sessions.catalogue import Payload
from pointsman.sessions.events.state import SkillLoaded
from pointsman.sessions.tool import (
    ConfirmationRequest,
    PromptPart,
    ToolContext,
    ToolDefinition,
    ToolOutcome,
)
from pointsman.sessions.tools.failure import CallFailed
from pointsman.sessions.tools.files import input_summary
from pointsman.sessions.tools.reading import ReadInput, read_file
from pointsman.sessions.tools.schema import Field, object_schema
from pointsman.sessions.tools.skills import Skill, SkillIndex, SkillText, load
from pointsman.sessions.tools.stop import Stop, in_thread
from pointsman.sessions.tools.workspace import WorkspaceFolder
from pointsman.signals.tokens import count_tokens

LoadReason = Literal["always", "on_demand", "auto_suggested"]

LOAD_SKILL = ToolDefinition(
    "load_skill",
    "Read the instructions of a skill, or a file that lies beside them in the skill's folder.",
    object_schema(
        Field("name", "string", "the skill's name", required=True),
        Field("file", "string", "a file of the skill's folder; its instructions unless given"),
    ),
    "read",
    requires_workspace=False,
)


class LoadInput(Struct, frozen=True):
    """The input of `load_skill`."""

    name: str
    file: str = ""


class SessionSkills:
    """The skills of one session: which a message calls for, which are loaded, and the tool."""

    definition = LOAD_SKILL

    def __init__(self, index: SkillIndex) -> None:
        self.index = index
        self._always: dict[str, str] = {}
        self._loaded: dict[tuple[str, str], str] = {}
        """The versions loaded by each session: a worker does not see its planner's."""
        self._suggested: frozenset[str] = frozenset()

    def matching(self, message: str, extensions: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the skills that a message calls for, the best first, then those of the files."""
        named = [each.name for each in self.index.match(message)]
        found = tuple(dict.fromkeys([*named, *self.index.of_extensions(extensions)]))
        self._suggested = frozenset(found)
        return found

    def prompt(self) -> PromptPart:
        """List the skills, with the text of those that are always there."""
        if not self.index.skills:
            return PromptPart()
        parts, events = [_skill_list(self.index)], []
        for name, skill in self.index.skills.items():
            if skill.about.always and (text := _text_or_none(skill)) is not None:
                self._always[name] = text.version
                parts.append(f"# Skill {name}\n\n{text.body}")
                events.append(_event(skill, text, "always", None))
        return PromptPart("\n\n".join(parts), tuple(events))

    def describe(self, use: ToolUse) -> ConfirmationRequest:
        """Return the input as the request."""
        return ConfirmationRequest(input_summary(use), self.definition.name)

    async def run(self, use: ToolUse, context: ToolContext, stop: Stop) -> ToolOutcome:
        """Return a skill's text at its first load; a file of its folder every time."""
        asked = msgspec.json.decode(use.input, type=LoadInput)
        skill = self._find_skill(asked.name)
        if asked.file:
            text = await in_thread(lambda each: _file(skill, asked.file, each), stop)
            return ToolOutcome((Text(text),))
        loaded = await in_thread(lambda _: _text(skill), stop)
        key = (context.session_id, asked.name)
        if loaded.version in (self._loaded.get(key), self._always.get(asked.name)):
            return ToolOutcome((Text(f"`{asked.name}` is loaded already: see above"),))
        self._loaded[key] = loaded.version
        reason: LoadReason = "auto_suggested" if asked.name in self._suggested else "on_demand"
        events: tuple[Payload, ...] = (_event(skill, loaded, reason, use.id),)
        return ToolOutcome((Text(loaded.body or "(the skill has no text)"),), events=events)

    def _find_skill(self, name: str) -> Skill:
        skill = self.index.skills.get(name)
        if skill is None:
            meant = nearest(name, self.index.skills)
            known = ", ".join(self.index.skills) or "none"
            hint = f"did you mean `{meant}`?" if meant else f"there are: {known}"
            raise CallFailed("not_found", f"there is no skill `{printable(name)[:100]}`: {hint}")
        return skill


def _skill_list(index: SkillIndex) -> str:
    lines = [
        f"- {name}: {printable(skill.about.description)}" for name, skill in index.skills.items()
    ]
    head = "# Skills\n\nCall load_skill with a name to read its instructions when they fit."
    return "\n".join([head, "", *lines])


def _event(skill: Skill, text: SkillText, reason: LoadReason, use: str | None) -> SkillLoaded:
    return SkillLoaded(
        skill_id=text.name,
        skill_version=text.version,
        load_reason=reason,
        load_size_tokens=count_tokens(text.body),
        source=f"home/skills/{skill.folder.name}",
        triggered_by_tool_use_id=use,
    )


def _text(skill: Skill) -> SkillText:
    try:
        return load(skill)
    except DocumentError as error:
        # The place would name a folder outside the workspace.
        raise CallFailed(
            "execution_error", f"the skill cannot be read: {error.problems[0].message}"
        ) from None


def _text_or_none(skill: Skill) -> SkillText | None:
    try:
        return _text(skill)
    except CallFailed:
        return None


def _file(skill: Skill, path: str, stop: Stop) -> str:
    return read_file(WorkspaceFolder(skill.folder), ReadInput(path), stop)
