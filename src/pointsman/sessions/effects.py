"""The effects that a conversation asks its driver for, and their answers.

Every effect is a value with one kind of answer; a cancel is an answer too, never an exception, so
that each place where it can arrive handles it in its own way.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Literal, TypeAlias, TypeVar, cast

from msgspec import Struct

from pointsman.access.book import Spent
from pointsman.calls.flow import CallResult, Record, RecordPlacement, TurnLock
from pointsman.kernel.instant import Instant
from pointsman.placement.facts import PlacementFacts
from pointsman.providers.messages import Block, ModelRequest, Response, Role, ToolUse
from pointsman.recording.ruling import Ruling
from pointsman.sessions.catalogue import Payload
from pointsman.sessions.delegate_call import DelegateResult, Delegation
from pointsman.sessions.events.session import CancelReason
from pointsman.sessions.message import Metadata, SessionMessage
from pointsman.sessions.tool import (
    ConfirmationAnswer,
    ConfirmationRequest,
    PendingConfirmation,
    ToolDefinition,
    ToolOutcome,
)

T = TypeVar("T")


class TellEvent(Struct, frozen=True):
    """Record an event; answered by its id. `to_parent` tells it in the planner's session."""

    payload: Payload
    parent: str = ""
    to_parent: bool = False


class KeepMessage(Struct, frozen=True):
    """Store a message; answered by its `SessionMessage`."""

    role: Role
    content: tuple[Block, ...]
    metadata: Metadata


class AskHuman(Struct, frozen=True):
    """Put a tool's request to a human; answered by an `ConfirmationAnswer`, None when cancelled."""

    asked: PendingConfirmation


class AskRoute(Struct, frozen=True):
    """Ask whether the pattern's choice is to be taken; answered by a `RouteAnswer`."""

    ruling: Ruling
    suggested: str
    text: str


RouteAnswer = Literal["override", "ignore", "none"]


class AskEgress(Struct, frozen=True):
    """Ask a human for the consent that a policy wants; answered by a bool."""

    ruling: Ruling
    number: int


class GatherPlacement(Struct, frozen=True):
    """Gather placement facts from the next request; answered by `PlacementFacts`."""

    request: ModelRequest
    lock: TurnLock


class CallModel(Struct, frozen=True):
    """Call a model and show its answer; answered by a `ModelReply`."""

    model: str
    number: int
    request: ModelRequest
    ruling: Ruling | None
    input_tokens: int = 0
    is_held: bool = False
    """Whether the answer is held back for a second opinion: `ShowAnswer` shows it later."""


class AskJudge(Struct, frozen=True):
    """Ask a judge about an answer that is held back; answered by a `ModelReply`.

    `opinion` of what the reply says was called holds the verdict.
    """

    model: str
    number: int
    ruling: Ruling
    answer: Response


class ShowAnswer(Struct, frozen=True):
    """Show the answer of a model that was held back."""

    model: str


class ModelReply(Struct, frozen=True):
    """How a call ended. A cancelled or broken one has the text so far; `spent` is its cost."""

    called: CallResult
    response: Response
    latency_ms: int = 0
    attempts: int = 1
    error_message: str = ""
    spent: Spent | None = None
    is_cancelled: bool = False


class CanContinue(Struct, frozen=True):
    """Ask whether the turn may continue; answered by a bool, False when it was cancelled."""


class CancelledBy(Struct, frozen=True):
    """Ask why the turn was cancelled; answered by a `CancelReason`."""


class NeedsConfirmation(Struct, frozen=True):
    """Ask whether a human must allow a call; answered by a `ConfirmationRequest` or None."""

    use: ToolUse


class RunTool(Struct, frozen=True):
    """Run a tool; answered by a `ToolRun`."""

    use: ToolUse
    definition: ToolDefinition


class RunTools(Struct, frozen=True):
    """Run tools that change nothing side by side; answered by their `ToolRun`s in order."""

    uses: tuple[ToolUse, ...]


class ToolRun(Struct, frozen=True):
    """How a tool call ended; a cancelled one has no outcome of its own."""

    outcome: ToolOutcome
    latency_ms: int = 0
    is_cancelled: bool = False


class Delegate(Struct, frozen=True):
    """Run workers side by side; answered by a tuple of `DelegateResult` in the same order."""

    delegations: tuple[Delegation, ...]


class Now(Struct, frozen=True):
    """Ask for the time; answered by an `Instant`."""


class NewId(Struct, frozen=True):
    """Ask for an id; answered by a text."""


Effect: TypeAlias = (
    Record
    | RecordPlacement
    | TellEvent
    | KeepMessage
    | AskHuman
    | AskRoute
    | AskEgress
    | GatherPlacement
    | CallModel
    | AskJudge
    | ShowAnswer
    | CanContinue
    | CancelledBy
    | NeedsConfirmation
    | RunTool
    | RunTools
    | Delegate
    | Now
    | NewId
)

Steps: TypeAlias = Generator[Effect, object, T]
"""A part of a conversation: yields effects, is sent their answers, returns its result."""


def tell(payload: Payload, parent: str = "", *, to_parent: bool = False) -> Steps[str]:
    """Record an event and return its id."""
    return cast("str", (yield TellEvent(payload, parent, to_parent)))


def keep(role: Role, content: tuple[Block, ...], metadata: Metadata) -> Steps[SessionMessage]:
    """Store a message."""
    return cast("SessionMessage", (yield KeepMessage(role, content, metadata)))


def ask_human(asked: PendingConfirmation) -> Steps[ConfirmationAnswer | None]:
    """Put a tool's request to a human; None when the turn was cancelled meanwhile."""
    return cast("ConfirmationAnswer | None", (yield AskHuman(asked)))


def record(effect: Record | RecordPlacement) -> Steps[str]:
    """Record a decision and return its id."""
    return cast("str", (yield effect))


def ask_route(effect: AskRoute) -> Steps[RouteAnswer]:
    """Ask which model the user wants."""
    return cast("RouteAnswer", (yield effect))


def ask_egress(ruling: Ruling, number: int) -> Steps[bool]:
    """Ask a human for the consent that a policy wants before the call with this number."""
    return bool((yield AskEgress(ruling, number)))


def gather_placement(request: ModelRequest, lock: TurnLock) -> Steps[PlacementFacts]:
    """Gather placement facts from the next request."""
    return cast("PlacementFacts", (yield GatherPlacement(request, lock)))


def call_model(effect: CallModel) -> Steps[ModelReply]:
    """Call a model."""
    return cast("ModelReply", (yield effect))


def ask_judge(effect: AskJudge) -> Steps[ModelReply]:
    """Ask a judge about an answer."""
    return cast("ModelReply", (yield effect))


def show_answer(model: str) -> Steps[None]:
    """Show an answer that was held back."""
    yield ShowAnswer(model)


def can_continue() -> Steps[bool]:
    """Ask whether the turn may continue."""
    return bool((yield CanContinue()))


def cancel_reason() -> Steps[CancelReason]:
    """Ask why the turn was cancelled."""
    return cast("CancelReason", (yield CancelledBy()))


def confirmation_needed(use: ToolUse) -> Steps[ConfirmationRequest | None]:
    """Ask whether a human must allow a call."""
    return cast("ConfirmationRequest | None", (yield NeedsConfirmation(use)))


def run_tool(use: ToolUse, definition: ToolDefinition) -> Steps[ToolRun]:
    """Run a tool."""
    return cast("ToolRun", (yield RunTool(use, definition)))


def run_tools(uses: tuple[ToolUse, ...]) -> Steps[tuple[ToolRun, ...]]:
    """Run tools that change nothing."""
    return cast("tuple[ToolRun, ...]", (yield RunTools(uses)))


def delegate(delegations: tuple[Delegation, ...]) -> Steps[tuple[DelegateResult, ...]]:
    """Run workers."""
    return cast("tuple[DelegateResult, ...]", (yield Delegate(delegations)))


def now() -> Steps[Instant]:
    """Ask for the time."""
    return cast("Instant", (yield Now()))


def new_id() -> Steps[str]:
    """Ask for an id."""
    return cast("str", (yield NewId()))
