"""The port every tool stands behind, and who is asked before one acts. Companion §2.1, §2.3.

A tool never decides whether it may run: it says what it would do, and the session asks.
"""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Raw, Struct

from pointsman.kernel.instant import Instant
from pointsman.providers.messages import Image, Text, ToolUse
from pointsman.sessions.catalogue import Payload
from pointsman.sessions.events.calls import SideEffects, ToolErrorClass

Decision = Literal["allow", "deny", "timeout"]
Scope = Literal["once", "session"]


class ToolDefinition(Struct, frozen=True):
    """What a model is told of a tool; `input_schema` is the JSON Schema subset of §2.1.

    What changes durable state (memory, skills, routing) is `is_planner_only`: no worker gets it.
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
    """What a tool gave back. A failure is a value: the model sees `content` either way.

    `error_class` is set exactly where the tool failed; `events` are what it did to durable state
    (`skill.*`, `memory.*`), told after its own `tool.completed`.
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
    """What a tool would do, for a human to allow.

    An answer for the session covers later requests with the same `scope_key`; an empty one is
    never covered.
    """

    input_summary: str
    scope_key: str = ""
    projected_modifications: tuple[str, ...] = ()
    command_summary: str = ""


class PendingConfirmation(Struct, frozen=True):
    """One request put to a human, under its own id."""

    id: str
    use: ToolUse
    side_effects: SideEffects
    request: ConfirmationRequest
    expires_at: Instant
    session_id: str
    is_worker: bool = False


class ConfirmationAnswer(Struct, frozen=True):
    """What the human said; no answer in time is `timeout`."""

    decision: Decision
    scope: Scope = "once"


class ToolSet(Protocol):
    """The tools of one session."""

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Give what may be offered to a model, in the order it is told."""
        ...

    def needs_confirmation(self, use: ToolUse, context: ToolContext) -> ConfirmationRequest | None:
        """Say what a call would do, where a human must allow it first."""
        ...

    async def run(self, use: ToolUse, context: ToolContext) -> ToolOutcome:
        """Carry a call out; its input is valid under the tool's schema. Never raises for a failure.

        When it is cancelled as a task it stops what it started before it lets go.
        """
        ...

    async def cancel(self, tool_use_id: str) -> None:
        """Stop a running call: politely, then by force after 5 s. Unknown ids are ignored."""
        ...


class Confirmer(Protocol):
    """Who is asked before a tool acts."""

    async def ask(self, asked: PendingConfirmation) -> ConfirmationAnswer:
        """Put a request to a human and wait for the answer."""
        ...


class PromptPart(Struct, frozen=True):
    """A part of the system prompt, and what was loaded to write it."""

    text: str = ""
    events: tuple[Payload, ...] = ()


class Skills(Protocol):
    """The skills of one session, indexed when it began from their descriptions (002 §5.3.1)."""

    def prompt(self) -> PromptPart:
        """Give what the model is told of the skills."""
        ...

    def matching(self, message: str, extensions: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Name the skills that a message and the files in context call for, in a fixed order."""
        ...


class SessionMemory(Protocol):
    """What is remembered between sessions: `MEMORY.md` and `USER.md`."""

    def prompt(self) -> PromptPart:
        """Give what is remembered, as the model is told."""
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
        """Say that there is no such tool."""
        message = f"there is no tool `{use.name}`"
        return ToolOutcome((Text(message),), "not_found", message)

    async def cancel(self, tool_use_id: str) -> None:
        """Have nothing to stop."""


class NoPrompt:
    """No skills, or no memory."""

    def prompt(self) -> PromptPart:
        """Say nothing."""
        return PromptPart()

    def matching(self, message: str, extensions: tuple[str, ...] = ()) -> tuple[str, ...]:  # noqa: ARG002 - the port's
        """Match nothing."""
        return ()


class DenyAll:
    """Nobody is there to be asked."""

    async def ask(self, asked: PendingConfirmation) -> ConfirmationAnswer:  # noqa: ARG002 - the port's
        """Deny."""
        return ConfirmationAnswer("deny")
