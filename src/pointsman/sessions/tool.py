"""The port of every tool, and of the human asked before one acts. Companion §2.1, §2.3.

A tool never decides whether it may run: it describes the call, and the session asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal, Protocol

import jsonschema_rs
import msgspec
from msgspec import Raw, Struct

from pointsman.errors import DocumentError
from pointsman.kernel.document import DocumentLimits, escape
from pointsman.kernel.instant import Instant
from pointsman.kernel.json_text import read_json
from pointsman.kernel.nearest import nearest
from pointsman.kernel.schema_problems import problems
from pointsman.kernel.schema_tree import Schema
from pointsman.providers.messages import Image, Text, ToolUse
from pointsman.sessions.catalogue import Payload
from pointsman.sessions.events.calls import SideEffects, ToolErrorClass

MOST_TOLD = 8
_LIMITS = DocumentLimits(bytes=8 * 1024 * 1024, depth=64, nodes=200_000)


def unknown_tool(name: str, known: Iterable[str]) -> str:
    """Return the message that a tool is unknown, with the nearest name."""
    listed = [*known]
    meant = nearest(name, listed)
    hint = f"did you mean `{meant}`?" if meant else f"there are: {', '.join(listed) or 'none'}"
    return f"there is no tool `{escape(name)}`: {hint}"


def input_problems(use: ToolUse, definition: ToolDefinition) -> tuple[str, ...]:
    """Return the problems of an input, one line each; empty when it is valid."""
    try:
        document = read_json(bytes(use.input) or b"{}", "input", _LIMITS)
    except DocumentError as error:
        return tuple(each.message for each in error.problems[:MOST_TOLD])
    if not isinstance(document.value, dict):
        return ("the input must be a JSON object",)
    schema, validator = _form(bytes(definition.input_schema))
    found = [
        f"{each.message} ({each.hint})" if each.hint else each.message
        for error in validator.iter_errors(document.value)
        for each in problems(document, schema, error)
    ]
    if len(found) > MOST_TOLD:
        return (*found[:MOST_TOLD], f"and {len(found) - MOST_TOLD} more")
    return tuple(found)


def schema_refusal(schema: bytes) -> str:
    """Return why a tool's schema cannot be used; empty when it can."""
    try:
        form = _form(schema)
    except jsonschema_rs.ValidationError as error:
        if error.kind.name == "$ref":
            return "it refers to something outside itself, which is not looked up"
        return escape(error.message, 200)
    except msgspec.MsgspecError as error:
        return escape(str(error), 200)
    return "" if form[0].get("type") == "object" else "it does not describe an object"


@lru_cache(maxsize=512)
def _form(schema: bytes) -> tuple[Schema, jsonschema_rs.Validator]:
    read = msgspec.json.decode(schema, type=dict[str, Any])
    # INVARIANT: no schema makes us read a file or ask the network.
    return read, jsonschema_rs.Draft202012Validator(read, retriever=_nothing)


def _nothing(uri: str) -> Any:
    raise ValueError(f"the schema refers to `{escape(uri)}`, which is not looked up")


Decision = Literal["allow", "deny", "timeout"]
Scope = Literal["once", "session"]


class ToolDefinition(Struct, frozen=True):
    """A tool as a model sees it; `input_schema` is the JSON Schema subset of §2.1.

    Tools that change durable state (memory, skills, routing) are `is_planner_only`.
    """

    name: str
    description: str
    input_schema: Raw
    side_effects: SideEffects = "none"
    requires_workspace: bool = True
    is_planner_only: bool = False


class ToolContext(Struct, frozen=True):
    """For whom a tool runs. `workspace` is an absolute path, fixed when the session began."""

    session_id: str
    turn_id: str
    workspace: str | None = None
    is_worker: bool = False
    parent_session_id: str = ""


class ToolOutcome(Struct, frozen=True):
    """The result of a tool. A failure is a value: the model sees `content` either way.

    `error_class` is set exactly where the tool failed; `events` are its changes of durable state
    (`skill.*`, `memory.*`), recorded after its own `tool.completed`.
    """

    content: tuple[Text | Image, ...]
    error_class: ToolErrorClass | None = None
    error_message: str = ""
    files_modified: tuple[str, ...] = ()
    command_executed: str = ""
    events: tuple[Payload, ...] = ()

    @property
    def is_error(self) -> bool:
        """Whether the tool failed."""
        return self.error_class is not None


class ConfirmationRequest(Struct, frozen=True):
    """The effect of a tool call, for a human to allow.

    An answer for the session covers later requests with the same `scope_key`; an empty one is
    never covered.
    """

    input_summary: str
    scope_key: str = ""
    projected_modifications: tuple[str, ...] = ()
    command_summary: str = ""


class PendingConfirmation(Struct, frozen=True):
    """One request that waits for a human, under its own id."""

    id: str
    use: ToolUse
    side_effects: SideEffects
    request: ConfirmationRequest
    expires_at: Instant
    session_id: str
    is_worker: bool = False


class ConfirmationAnswer(Struct, frozen=True):
    """The human's answer; no answer in time is `timeout`."""

    decision: Decision
    scope: Scope = "once"


class ToolSet(Protocol):
    """The tools of one session."""

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that may be offered to a model, in order."""
        ...

    def needs_confirmation(self, use: ToolUse, context: ToolContext) -> ConfirmationRequest | None:
        """Return the request to show, where a human must allow the call first."""
        ...

    async def run(self, use: ToolUse, context: ToolContext) -> ToolOutcome:
        """Carry a call out; its input is valid under the tool's schema. Never raises for a failure.

        When its task is cancelled, it stops its own processes first.
        """
        ...

    async def cancel(self, tool_use_id: str) -> None:
        """Stop a running call: politely, then by force after 5 s. Unknown ids are ignored."""
        ...


class Confirmer(Protocol):
    """Asks a human before a tool acts."""

    async def ask(self, asked: PendingConfirmation) -> ConfirmationAnswer:
        """Put a request to a human and wait for the answer."""
        ...


class PromptPart(Struct, frozen=True):
    """A part of the system prompt, and the events of loading it."""

    text: str = ""
    events: tuple[Payload, ...] = ()


class Skills(Protocol):
    """The skills of one session, indexed when it began from their descriptions (002 §5.3.1)."""

    def prompt(self) -> PromptPart:
        """Return the prompt about the skills."""
        ...

    def matching(self, message: str, extensions: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the skills that a message and the files in context call for, in a fixed order."""
        ...


class SessionMemory(Protocol):
    """The memory between sessions: `MEMORY.md` and `USER.md`."""

    def prompt(self) -> PromptPart:
        """Return the prompt of the memory."""
        ...


class NoTools:
    """A session without tools."""

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Offer nothing."""
        return ()

    def needs_confirmation(self, use: ToolUse, context: ToolContext) -> ConfirmationRequest | None:  # noqa: ARG002 - the port's
        """Ask nothing."""
        return None

    async def run(self, use: ToolUse, context: ToolContext) -> ToolOutcome:  # noqa: ARG002 - the port's
        """Return the failure that there is no such tool."""
        message = f"there is no tool `{use.name}`"
        return ToolOutcome((Text(message),), "not_found", message)

    async def cancel(self, tool_use_id: str) -> None:
        """Have nothing to stop."""


class NoPrompt:
    """No skills, or no memory."""

    def prompt(self) -> PromptPart:
        """Return an empty prompt."""
        return PromptPart()

    def matching(self, message: str, extensions: tuple[str, ...] = ()) -> tuple[str, ...]:  # noqa: ARG002 - the port's
        """Match nothing."""
        return ()


class DenyAll:
    """Denies every request: no human is there to ask."""

    async def ask(self, asked: PendingConfirmation) -> ConfirmationAnswer:  # noqa: ARG002 - the port's
        """Deny."""
        return ConfirmationAnswer("deny")
