"""What a turn adds up to: calls, tokens, money, time."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.sessions.effects import ModelReply
from pointsman.sessions.events.session import TurnCompleted, TurnStop


class TurnTally(Struct, frozen=True):
    """What a turn added up to."""

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
    """Tell of a turn that ended by itself."""
    return TurnCompleted(
        stop_reason=stop,
        llm_call_count=tally.llm_calls,
        tool_call_count=tally.tool_calls,
        total_input_tokens=tally.input_tokens,
        total_output_tokens=tally.output_tokens,
        total_cost_usd=tally.cost_usd,
        wall_time_seconds=tally.wall_seconds,
    )
