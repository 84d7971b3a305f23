"""Skills of a home: `skills/<name>/SKILL.md`, indexed by their descriptions when a session begins.

Only the front matter is read for the index; a body is read when it is loaded, once a session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from pointsman.errors import DocumentError, Place, Problem
from pointsman.kernel.canonical import content_id
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, escape, printable
from pointsman.kernel.nearest import nearest
from pointsman.kernel.number import ONE, ZERO, Billionths, clamp, ratio
from pointsman.kernel.schema import conform
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.providers.messages import Text, ToolUse
from pointsman.sessions.catalogue import Payload
from pointsman.sessions.events.session import SkillLoaded
from pointsman.sessions.tool import (
    ConfirmationRequest,
    PromptPart,
    ToolContext,
    ToolDefinition,
    ToolOutcome,
)
from pointsman.sessions.tools.failure import CallFailed
from pointsman.sessions.tools.files import input_summary
from pointsman.sessions.tools.listing import entries
from pointsman.sessions.tools.reading import ReadInput, read_file
from pointsman.sessions.tools.schema import Field, object_schema
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


FILE = "SKILL.md"
LARGEST_FILE = 256 * 1024
MOST_SKILLS = 200

_NAME: Final = r"^[a-z0-9]+(?:[-_][a-z0-9]+)*$"
_FENCE: Final = b"---"


class FrontMatter(Struct, frozen=True, forbid_unknown_fields=True):
    """The front matter of a skill. `always` puts its text into every session's prompt."""

    name: Annotated[str, Meta(pattern=_NAME, max_length=64)]
    description: Annotated[str, Meta(min_length=1, max_length=1024)]
    triggers: tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...] = ()
    extensions: tuple[Annotated[str, Meta(pattern=r"^\.[A-Za-z0-9_.+-]{1,20}$")], ...] = ()
    always: bool = False


class Skill(Struct, frozen=True):
    """One skill of the index; `version` is the content id of its file when it was indexed."""

    about: FrontMatter
    version: str
    folder: Path


class SkillText(Struct, frozen=True):
    """A skill's loaded text, with the content id of its file."""

    name: str
    body: str
    version: str


class SkillIndex:
    """The skills of one session; files that cannot be used are problems, not skills."""

    def __init__(self, skills: Iterable[Skill] = (), problems: Iterable[Problem] = ()) -> None:
        self.skills = {skill.about.name: skill for skill in skills}
        self.problems = tuple(problems)
        self._skill_words: tuple[SkillWords, ...] = tuple(
            skill_words(each.about.name, each.about.description, each.about.triggers)
            for each in self.skills.values()
        )

    def match(self, message: str) -> tuple[SkillMatch, ...]:
        """Return the skills that a message calls for, with their scores."""
        return matches(self._skill_words, message)

    def of_extensions(self, extensions: Iterable[str]) -> tuple[str, ...]:
        """Return the skills about files with one of these extensions."""
        wanted = frozenset(extensions)
        return tuple(
            name for name, skill in self.skills.items() if wanted & {*skill.about.extensions}
        )


def read_skills(folder: Path) -> SkillIndex:
    """Index the skills below a folder, in order of their names; none where there is no folder."""
    if not folder.is_dir():
        return SkillIndex()
    skills: list[Skill] = []
    problems: list[Problem] = []
    for each in _folders(folder):
        if len(skills) == MOST_SKILLS:
            message = f"there are more than {MOST_SKILLS} skills; the others are left out"
            problems.append(Problem(Place(str(folder), 1, 1), Code.TOO_MANY_VALUES, message))
            break
        try:
            skills.append(_skill(each))
        except DocumentError as error:
            problems += error.problems
    return SkillIndex(skills, problems)


def load(skill: Skill) -> SkillText:
    """Read a skill's text as it is now."""
    data = _content(skill.folder)
    _, body = _split_front_matter(data, str(skill.folder / FILE))
    return SkillText(skill.about.name, body.decode("utf-8", "replace").strip(), content_id(data))


def _folders(folder: Path) -> Iterator[Path]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found, _ = entries(descriptor, str(folder))
    finally:
        os.close(descriptor)
    for entry in found:
        if entry.is_folder and not entry.name.startswith("."):
            yield folder / entry.name


def _skill(folder: Path) -> Skill:
    source = str(folder / FILE)
    data = _content(folder)
    front, _ = _split_front_matter(data, source)
    document = parse_yaml(front, source)
    about = conform(
        document, FrontMatter, lambda front, text: _check_name(front, text, folder.name)
    )
    return Skill(about, content_id(data), folder)


def _check_name(about: FrontMatter, document: Document, folder: str) -> Iterator[Problem]:
    if about.name != folder:
        message = f"the skill `{escape(about.name)}` lies in the folder `{escape(folder)}`"
        hint = "give both the same name"
        yield document.problem(("name",), Code.INVALID_VALUE, message, hint)


def _content(folder: Path) -> bytes:
    """Read a skill's file without following a link out of its folder."""
    source = str(folder / FILE)
    try:
        with (
            WorkspaceFolder(folder).file(FILE) as descriptor,
            os.fdopen(os.dup(descriptor), "rb") as file,
        ):
            data = file.read(LARGEST_FILE + 1)
    except CallFailed as error:
        raise _document_error(source, 1, Code.UNREADABLE, error.message) from None
    if len(data) > LARGEST_FILE:
        message = f"the file is larger than {LARGEST_FILE} bytes"
        raise _document_error(source, 1, Code.TOO_LARGE, message)
    return data


def _split_front_matter(data: bytes, source: str) -> tuple[bytes, bytes]:
    """Split a file into front matter, its fence kept so that line numbers hold, and body."""
    lines = data.splitlines(keepends=True)
    if not lines or lines[0].rstrip() != _FENCE:
        hint = "begin the file with `---`, `name:`, `description:`, `---`"
        raise _document_error(source, 1, Code.SYNTAX, "a skill begins with front matter", hint)
    for index, line in enumerate(lines[1:], 1):
        if line.rstrip() == _FENCE:
            return b"".join(lines[:index]), b"".join(lines[index + 1 :])
    message = "the front matter is not closed"
    raise _document_error(source, len(lines), Code.SYNTAX, message, "end it with a line `---`")


def _document_error(
    source: str, line: int, code: Code, message: str, hint: str = ""
) -> DocumentError:
    return DocumentError((Problem(Place(source, line, 1), code, message, hint),))


THRESHOLD: Final = Billionths(300_000_000)

MOST_WEIGHED: Final = 10
"""Otherwise a skill that is described at length could never match a short message."""

MOST_WORDS: Final = 2_000
"""The most words of a message that are read."""

_STOP_WORDS: Final = (
    "a about all also an and any are as at be been but by can could do does for from had has have "
    "how i if in into is it its just me more my no not of on or our out please should so some such "
    "than that the their them then there these they this those to up use used uses using want was "
    "we were what when where which who will with would you your"
)

# DETERMINISM: fixed ranges, because what `\w` means changes with the Unicode tables of Python.
_WORD = re.compile(
    r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|[0-9A-Za-z\u00c0-\u1fff\u2c00-\u2dff\u3040-\u30ff\ua000-\uf8ff]+"
)


class SkillWords(NamedTuple):
    """The words and triggers that a skill is matched by."""

    name: str
    words: frozenset[str]
    triggers: tuple[tuple[str, ...], ...]


class SkillMatch(NamedTuple):
    """A skill that matches, and how well."""

    name: str
    score: Billionths


def skill_words(name: str, description: str, triggers: Iterable[str]) -> SkillWords:
    """Return the words and triggers of a skill."""
    stops = frozenset(words(_STOP_WORDS))
    weighed = frozenset(word for word in words(description) if word not in stops)
    phrases = (tuple(words(each)) for each in triggers)
    return SkillWords(name, weighed, tuple(phrase for phrase in phrases if phrase))


def words(text: str) -> Iterator[str]:
    """Yield the words of a text in the form they are compared."""
    for match in _WORD.finditer(text):
        word = match[0].casefold()
        is_plural = len(word) > 3 and word.endswith("s") and not word.endswith("ss")
        yield word[:-1] if is_plural else word


def matches(skills: Iterable[SkillWords], message: str) -> tuple[SkillMatch, ...]:
    """Return the skills that reach the threshold, the best first, equals by name."""
    said = [word for word, _ in zip(words(message), range(MOST_WORDS), strict=False)]
    distinct = frozenset(said)
    spoken = f" {' '.join(said)} "
    scored = (SkillMatch(each.name, _score(each, distinct, spoken)) for each in skills)
    found = [each for each in scored if each.score >= THRESHOLD]
    return tuple(sorted(found, key=lambda each: (-each.score, each.name)))


def _score(skill: SkillWords, distinct: frozenset[str], spoken: str) -> Billionths:
    if any(f" {' '.join(phrase)} " in spoken for phrase in skill.triggers):
        return ONE
    if not skill.words:
        return ZERO
    weighed = min(len(skill.words), MOST_WEIGHED)
    return clamp(ratio(len(skill.words & distinct), weighed))
