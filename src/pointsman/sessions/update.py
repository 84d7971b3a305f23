"""What a conversation shows while it runs: never recorded, always after what it rests on is."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from pointsman.calls.flow import RuleKind
from pointsman.providers.messages import ToolResult, ToolUse
from pointsman.sessions.envelope import Envelope
from pointsman.sessions.events.session import TurnStop
from pointsman.sessions.message import MessageUsage
from pointsman.sessions.tool import Asked
from pointsman.sessions.turn import EndStatus

ToolProgress = Literal["waiting", "running", "done", "failed", "cancelled"]


class Routed(Struct, frozen=True):
    """Which model takes the turn, and why; told again when another takes over."""

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
    """How a tool call stands."""

    tool_use_id: str
    name: str
    state: ToolProgress
    detail: str = ""
    latency_ms: int = 0
    worker_session_id: str = ""


class ToolAsked(Struct, frozen=True):
    """What a tool was asked for, whole."""

    use: ToolUse


class ToolAnswered(Struct, frozen=True):
    """What a tool gave back, or why it gave nothing; told as it comes."""

    result: ToolResult


class WorkerState(Struct, frozen=True):
    """How a worker stands; `model` is who does it, `detail` why it failed."""

    tool_use_id: str
    worker_session_id: str
    state: Literal["started", "completed", "failed"]
    model: str = ""
    detail: str = ""
    cost_usd: str = "0"


class Confirm(Struct, frozen=True):
    """A tool wants to act: answer with `Conversation.answer`."""

    asked: Asked


class ChooseRoute(Struct, frozen=True):
    """The pattern disagrees with a rule: answer with `Conversation.choose_route`."""

    chosen: str
    suggested: str
    text: str


class ConfirmEgress(Struct, frozen=True):
    """A policy wants a human's yes before this turn goes on: `Conversation.allow_egress`."""

    text: str


class Used(Struct, frozen=True):
    """What a call used, and what the session has cost so far, workers included."""

    model: str
    usage: MessageUsage
    session_cost_usd: str


class Told(Struct, frozen=True):
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
    Routed
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
    | Used
    | Told
    | TurnOver
)
