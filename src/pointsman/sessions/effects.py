"""What a conversation asks of whoever drives it, and what it is answered.

Every effect is a value with one kind of answer; a cancel is an answer too, never an exception, so
that each place where it can arrive is told apart by what follows it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Literal, TypeAlias, TypeVar, cast

from msgspec import Struct

from pointsman.access.spent import Spent
from pointsman.calls.flow import CallResult, Record, RecordPlacement, TurnLock
from pointsman.kernel.instant import Instant
from pointsman.placement.facts import PlacementFacts
from pointsman.providers.messages import Block, Request, Response, Role, ToolUse
from pointsman.recording.ruling import PlacementRuling, Ruling
from pointsman.sessions.catalogue import Payload
from pointsman.sessions.delegate_call import DelegateResult, Delegation
from pointsman.sessions.events.session import CancelReason
from pointsman.sessions.message import Metadata, SessionMessage
from pointsman.sessions.tool import (
    Answered,
    Asked,
    ConfirmationRequest,
    ToolDefinition,
    ToolOutcome,
)

T = TypeVar("T")


class Tell(Struct, frozen=True):
    """Record an event; answered by its id. `to_parent` tells it in the planner's session."""

    payload: Payload
    parent: str = ""
    to_parent: bool = False


class Keep(Struct, frozen=True):
    """Keep a message; answered by the `SessionMessage` it became."""

    role: Role
    content: tuple[Block, ...]
    metadata: Metadata


class Ask(Struct, frozen=True):
    """Put a tool's request to a human; answered by an `Answered`, None when cancelled."""

    asked: Asked


class AskRoute(Struct, frozen=True):
    """Ask whether the pattern's choice is to be taken; answered by a `RouteAnswer`."""

    ruling: Ruling
    suggested: str
    text: str


RouteAnswer = Literal["override", "ignore", "none"]


class AskEgress(Struct, frozen=True):
    """Ask for the human's yes that a policy wants; answered by a bool."""

    placing: PlacementRuling


class Gather(Struct, frozen=True):
    """Look at everything the next call would send; answered by `PlacementFacts`."""

    request: Request
    lock: TurnLock


class CallModel(Struct, frozen=True):
    """Call a model and show what it says; answered by a `Replied`."""

    model: str
    number: int
    request: Request
    ruling: Ruling | None
    input_tokens: int = 0


class Replied(Struct, frozen=True):
    """How a call went. A cancelled or broken one brings what had come; `spent` what it cost."""

    called: CallResult
    response: Response
    latency_ms: int = 0
    attempts: int = 1
    error_message: str = ""
    spent: Spent | None = None
    is_cancelled: bool = False


class GoOn(Struct, frozen=True):
    """Ask whether the turn may go on; answered by a bool, False when it was cancelled."""


class CancelledBy(Struct, frozen=True):
    """Ask why the turn was cancelled; answered by a `CancelReason`."""


class NeedsAsking(Struct, frozen=True):
    """Ask whether a human must allow a call; answered by a `ConfirmationRequest` or None."""

    use: ToolUse


class RunTool(Struct, frozen=True):
    """Run a tool; answered by a `Ran`."""

    use: ToolUse
    definition: ToolDefinition


class RunTools(Struct, frozen=True):
    """Run tools that change nothing side by side; answered by a tuple of `Ran` in their order."""

    uses: tuple[ToolUse, ...]


class Ran(Struct, frozen=True):
    """How a tool went; a cancelled one has no outcome of its own."""

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
    | Tell
    | Keep
    | Ask
    | AskRoute
    | AskEgress
    | Gather
    | CallModel
    | GoOn
    | CancelledBy
    | NeedsAsking
    | RunTool
    | RunTools
    | Delegate
    | Now
    | NewId
)

Steps: TypeAlias = Generator[Effect, object, T]
"""A part of a conversation: yields effects, is sent their answers, returns what came of it."""


def told(payload: Payload, parent: str = "", *, to_parent: bool = False) -> Steps[str]:
    """Record an event and give its id."""
    return cast("str", (yield Tell(payload, parent, to_parent)))


def kept(role: Role, content: tuple[Block, ...], metadata: Metadata) -> Steps[SessionMessage]:
    """Keep a message."""
    return cast("SessionMessage", (yield Keep(role, content, metadata)))


def asked_of_human(asked: Asked) -> Steps[Answered | None]:
    """Put a tool's request to a human; None when the turn was cancelled meanwhile."""
    return cast("Answered | None", (yield Ask(asked)))


def recorded(effect: Record | RecordPlacement) -> Steps[str]:
    """Record a decision and give its id."""
    return cast("str", (yield effect))


def route_answered(effect: AskRoute) -> Steps[RouteAnswer]:
    """Ask which model the user wants."""
    return cast("RouteAnswer", (yield effect))


def egress_allowed(placing: PlacementRuling) -> Steps[bool]:
    """Ask for the human's yes that a policy wants."""
    return bool((yield AskEgress(placing)))


def gathered(request: Request, lock: TurnLock) -> Steps[PlacementFacts]:
    """Look at what the next call would send."""
    return cast("PlacementFacts", (yield Gather(request, lock)))


def replied(effect: CallModel) -> Steps[Replied]:
    """Call a model."""
    return cast("Replied", (yield effect))


def may_go_on() -> Steps[bool]:
    """Ask whether the turn may go on."""
    return bool((yield GoOn()))


def cancelled_by() -> Steps[CancelReason]:
    """Ask why the turn was cancelled."""
    return cast("CancelReason", (yield CancelledBy()))


def asking_needed(use: ToolUse) -> Steps[ConfirmationRequest | None]:
    """Ask whether a human must allow a call."""
    return cast("ConfirmationRequest | None", (yield NeedsAsking(use)))


def ran(use: ToolUse, definition: ToolDefinition) -> Steps[Ran]:
    """Run a tool."""
    return cast("Ran", (yield RunTool(use, definition)))


def ran_together(uses: tuple[ToolUse, ...]) -> Steps[tuple[Ran, ...]]:
    """Run tools that change nothing."""
    return cast("tuple[Ran, ...]", (yield RunTools(uses)))


def delegated(delegations: tuple[Delegation, ...]) -> Steps[tuple[DelegateResult, ...]]:
    """Run workers."""
    return cast("tuple[DelegateResult, ...]", (yield Delegate(delegations)))


def now() -> Steps[Instant]:
    """Ask for the time."""
    return cast("Instant", (yield Now()))


def new_id() -> Steps[str]:
    """Ask for an id."""
    return cast("str", (yield NewId()))
