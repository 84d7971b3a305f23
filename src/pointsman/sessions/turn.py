"""The plan of one turn of a conversation, its tally, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from pointsman.calls.flow import Claim, Fallback
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.placement.facts import PlacementFacts
from pointsman.providers.messages import Image, OutputFormat, Text
from pointsman.recording.ruling import Policies, Ruling
from pointsman.sessions.effects import ModelReply
from pointsman.sessions.events.delegation import InsufficientContextRequest
from pointsman.sessions.events.session import CancelReason, TurnCompleted, TurnStop
from pointsman.sessions.history import History
from pointsman.sessions.message import SessionMessage
from pointsman.sessions.tool import ToolDefinition
from pointsman.sessions.tool_cycle import CONFIRM_S
from pointsman.turns.facts import TurnFacts

MOST_CALLS: Final = 50
EndStatus = Literal["completed", "cancelled", "failed", "no_model", "refused"]


class TurnLimits(Struct, frozen=True):
    """How far one turn may go: calls of a model, words in all, seconds for a human to answer."""

    most_calls: int = MOST_CALLS
    most_output_tokens: int | None = None
    confirm_s: int = CONFIRM_S


class TurnPlan(Struct, frozen=True):
    """Everything one turn needs, gathered before it begins."""

    session_id: str
    turn_id: str
    content: tuple[Text | Image, ...]
    history: History
    tools: tuple[ToolDefinition, ...]
    system: Callable[[str], str]
    """Returns the system prompt for a model's name."""
    policies: Policies
    asked: PlacementFacts
    facts: TurnFacts
    fallback: Fallback
    is_worker: bool = False
    parent_tool_use_id: str | None = None
    output: OutputFormat | None = None
    granted: frozenset[str] = frozenset()
    limits: TurnLimits = TurnLimits()
    claim: Claim | None = None
    """Asked before a model that is half open is called."""


class TurnEnd(Struct, frozen=True):
    """How a turn ended. `text` is the model's last answer; `messages` are the turn's own."""

    status: EndStatus
    stop_reason: TurnStop | None
    ruling: Ruling | None
    text: str
    tally: TurnTally
    messages: tuple[SessionMessage, ...]
    granted: frozenset[str]
    error: str = ""
    cancelled_by: CancelReason | None = None
    context_request: InsufficientContextRequest | None = None

    @property
    def model(self) -> str:
        """The model that took the turn."""
        return "" if self.ruling is None else self.ruling.model


class TurnTally(Struct, frozen=True):
    """The totals of a turn."""

    llm_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: MicroUsd = MicroUsd(0)
    pricing_version: str = ""
    latency_ms: int = 0
    wall_us: int = 0

    @property
    def cost_usd(self) -> str:
        """The cost as an exact text."""
        return microusd_text(self.cost_microusd)

    @property
    def wall_seconds(self) -> str:
        """How long it took, as an exact text."""
        return microusd_text(MicroUsd(self.wall_us))


def after_call(tally: TurnTally, reply: ModelReply) -> TurnTally:
    """Count a call of a model."""
    spent = reply.spent
    tally = replace(
        tally, llm_calls=tally.llm_calls + 1, latency_ms=tally.latency_ms + reply.latency_ms
    )
    if spent is None:
        return tally
    used = spent.input_tokens + spent.cached_input_tokens + spent.cache_creation_input_tokens
    return replace(
        tally,
        input_tokens=tally.input_tokens + used,
        output_tokens=tally.output_tokens + spent.output_tokens,
        cost_microusd=MicroUsd(tally.cost_microusd + (spent.cost_microusd or 0)),
        pricing_version=spent.price_version,
    )


def turn_completed(tally: TurnTally, stop: TurnStop) -> TurnCompleted:
    """Return the event of a turn that ended by itself."""
    return TurnCompleted(
        stop_reason=stop,
        llm_call_count=tally.llm_calls,
        tool_call_count=tally.tool_calls,
        total_input_tokens=tally.input_tokens,
        total_output_tokens=tally.output_tokens,
        total_cost_usd=tally.cost_usd,
        wall_time_seconds=tally.wall_seconds,
    )
