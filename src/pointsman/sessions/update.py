"""The updates a conversation shows while it runs: never recorded, always after the events
they rest on are durable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from pointsman.calls.flow import RuleKind
from pointsman.providers.messages import ToolResult, ToolUse
from pointsman.sessions.catalogue import Payload
from pointsman.sessions.envelope import Envelope
from pointsman.sessions.events.calls import (
    ToolCalled,
    ToolCompleted,
    ToolConfirmationRequested,
    ToolFailed,
)
from pointsman.sessions.events.delegation import (
    DelegateCompleted,
    DelegateFailed,
    DelegateStarted,
)
from pointsman.sessions.events.session import TurnStop
from pointsman.sessions.message import MessageUsage
from pointsman.sessions.tool import PendingConfirmation
from pointsman.sessions.turn import EndStatus

ToolProgress = Literal["waiting", "running", "done", "failed", "cancelled"]


class RouteUpdate(Struct, frozen=True):
    """The model that takes the turn, and why; repeated when another takes over."""

    turn_id: str
    decision_id: str
    model: str
    policy: str
    reason: str
    rule_name: str | None = None
    kind: RuleKind = "turn"


class Notice(Struct, frozen=True):
    """Something the user must be shown."""

    code: str
    text: str


class TextDelta(Struct, frozen=True):
    """More of the answer."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """More of the reasoning."""

    text: str


class ToolUseBegun(Struct, frozen=True):
    """The model begins to ask for a tool."""

    tool_use_id: str
    name: str


class ToolUseEnded(Struct, frozen=True):
    """The model has asked for a tool, or was cut off while it did."""

    tool_use_id: str


class MessageComplete(Struct, frozen=True):
    """An answer is whole, or there will be no more of it."""

    stop_reason: str


class ToolState(Struct, frozen=True):
    """The state of a tool call."""

    tool_use_id: str
    name: str
    state: ToolProgress
    detail: str = ""
    latency_ms: int = 0
    worker_session_id: str = ""


class ToolAsked(Struct, frozen=True):
    """A tool's whole input."""

    use: ToolUse


class ToolAnswered(Struct, frozen=True):
    """A tool's result, or why there is none."""

    result: ToolResult


class WorkerState(Struct, frozen=True):
    """The state of a worker; `model` does the task, `detail` says why it failed."""

    tool_use_id: str
    worker_session_id: str
    state: Literal["started", "completed", "failed"]
    model: str = ""
    detail: str = ""
    cost_usd: str = "0"


class Confirm(Struct, frozen=True):
    """A tool wants to act: answer with `Conversation.answer`."""

    asked: PendingConfirmation


class ChooseRoute(Struct, frozen=True):
    """The pattern disagrees with a rule: answer with `Conversation.choose_route`."""

    chosen: str
    suggested: str
    text: str


class ConfirmEgress(Struct, frozen=True):
    """A policy wants a human's yes before this turn goes on: `Conversation.allow_egress`."""

    text: str


class UsageUpdate(Struct, frozen=True):
    """The usage of a call, and the session's cost so far, workers included."""

    model: str
    usage: MessageUsage
    session_cost_usd: str


class EventUpdate(Struct, frozen=True):
    """An event was recorded."""

    event: Envelope


class TurnOver(Struct, frozen=True):
    """The turn ended. Always the last; `error` says what to tell the user where it failed."""

    turn_id: str
    status: EndStatus
    stop_reason: TurnStop | None
    text: str
    model: str
    cost_usd: str
    error: str = ""


Update = (
    RouteUpdate
    | Notice
    | TextDelta
    | ThinkingDelta
    | ToolUseBegun
    | ToolUseEnded
    | MessageComplete
    | ToolState
    | ToolAsked
    | ToolAnswered
    | WorkerState
    | Confirm
    | ChooseRoute
    | ConfirmEgress
    | UsageUpdate
    | EventUpdate
    | TurnOver
)


def update_of_event(event: Envelope, names: Mapping[str, str]) -> Update | None:
    """Return the update of an event; `names` are the tools by their calls."""
    payload = event.payload
    worker = event.session_id if event.parent_session_id else ""
    return _tool_state(payload, names, worker) or _worker_state(payload)


def _tool_state(payload: Payload, names: Mapping[str, str], worker: str) -> ToolState | None:
    match payload:
        case ToolConfirmationRequested():
            summary = str(payload.input_summary)
            return ToolState(payload.tool_use_id, payload.tool_name, "waiting", summary, 0, worker)
        case ToolCalled():
            return ToolState(payload.tool_use_id, payload.tool_name, "running", "", 0, worker)
        case ToolCompleted():
            name = names.get(payload.tool_use_id, "")
            return ToolState(payload.tool_use_id, name, "done", "", payload.latency_ms, worker)
        case ToolFailed():
            name = names.get(payload.tool_use_id, "")
            state: ToolProgress = "cancelled" if payload.error_class == "cancelled" else "failed"
            detail = str(payload.error_message)
            latency_ms = payload.latency_ms
            return ToolState(payload.tool_use_id, name, state, detail, latency_ms, worker)
        case _:
            return None


def _worker_state(payload: Payload) -> WorkerState | None:
    match payload:
        case DelegateStarted():
            return WorkerState(
                payload.tool_use_id, payload.worker_session_id, "started", payload.resolved_model
            )
        case DelegateCompleted():
            cost = payload.worker_total_cost_usd
            names = (payload.tool_use_id, payload.worker_session_id)
            return WorkerState(*names, "completed", payload.model, "", cost)
        case DelegateFailed():
            names = (payload.tool_use_id, payload.worker_session_id or "")
            detail, cost = str(payload.error_message), payload.worker_total_cost_usd
            return WorkerState(*names, "failed", "", detail, cost)
        case _:
            return None
