"""The view of a state for people and the HTTP API: names of document 004, ordinary numbers."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from pointsman.brainstate.bodies import Anything, Depth, Name, Reason, ResourceBudgetBody
from pointsman.brainstate.constants import (
    FRACTIONS,
    Constants,
    DefaultUsed,
    Fraction,
    GivenConstants,
    Ticks,
    Tokens,
)
from pointsman.brainstate.hints import RoutingHints, Shallow
from pointsman.brainstate.journal import MAX_SEQUENCE
from pointsman.brainstate.state import (
    BrainState,
    Cause,
    CwmItem,
    Goal,
    GoalStatus,
    GoalType,
    ItemType,
    Origin,
    WmItem,
)
from pointsman.kernel.canonical import MAX_INT, untag
from pointsman.kernel.instant import Instant, instant_text
from pointsman.kernel.number import Billionths, billionths_text

Count = Annotated[int, Meta(ge=0, le=MAX_INT)]
Sequence_ = Annotated[int, Meta(ge=0, le=MAX_SEQUENCE)]


class ShownGoal(Struct, frozen=True, forbid_unknown_fields=True):
    """A goal."""

    goal_id: Name
    priority: Fraction
    type: GoalType
    status: GoalStatus
    created_at: str
    created_at_tick: Count
    deadline_ts: str | None
    origin: Origin
    metadata: dict[str, Anything]
    attempts: Count
    repair_loops: Count
    deliverable: Annotated[str, Meta(max_length=200)]
    is_delivered: bool
    final_confidence: Fraction | None
    wm_ttl_ticks: Ticks | None
    paused_because: Cause


class ShownWmItem(Struct, frozen=True, forbid_unknown_fields=True):
    """An item of working memory."""

    wm_id: Name
    type: ItemType
    value: Anything
    ttl_ticks: Ticks
    created_at: str
    created_at_tick: Count
    references: Annotated[int, Meta(ge=1, le=MAX_INT)]
    reference_ticks: tuple[Count, ...]
    token_estimate: Tokens


class ShownCwmItem(Struct, frozen=True, forbid_unknown_fields=True):
    """An item of consolidated memory."""

    wm_id: Name
    type: ItemType
    value: Anything
    references: Annotated[int, Meta(ge=1, le=MAX_INT)]
    last_reference_tick: Count
    promoted_at_tick: Count
    ttl_ticks: Ticks
    token_estimate: Tokens


class ShownCwm(Struct, frozen=True, forbid_unknown_fields=True):
    """Consolidated memory."""

    topic: Annotated[str, Meta(max_length=200)]
    tokens_used: Count
    items: tuple[ShownCwmItem, ...]


class ShownAttention(Struct, frozen=True, forbid_unknown_fields=True):
    """The modulators."""

    attention_gain: Fraction
    explore_bias: Fraction
    reward_signal: Fraction


class ShownFailure(Struct, frozen=True, forbid_unknown_fields=True):
    """A node that failed."""

    node_id: Name
    ts: str
    reason: Reason


class ShownState(
    Struct, frozen=True, forbid_unknown_fields=True, rename={"wm": "WM", "cwm": "CWM"}
):
    """A state under the names of document 004 §2 and those its rules add."""

    brainstate_id: Name
    job_seed: Name
    timestamp: str
    tick: Count
    sequence: Sequence_
    goals: tuple[ShownGoal, ...]
    wm: tuple[ShownWmItem, ...]
    cwm: ShownCwm
    attention: ShownAttention
    resource_budget: ResourceBudgetBody
    tokens_consumed: Count
    recent_failures: tuple[ShownFailure, ...]
    constants: GivenConstants
    warnings: tuple[DefaultUsed, ...]
    last_updated: str


class ShownBias(Struct, frozen=True, rename={"prefer_high_apt": "prefer_high_APT"}):
    """The preference, nested as 004 §5 writes it."""

    prefer_high_apt: bool
    allow_explore: bool


class ShownHints(Struct, frozen=True, rename={"prefer_high_apt": "prefer_high_APT"}):
    """The answer of `POST /brainstate/query`: nested and flat, as 004 §5 and §9 write it."""

    max_depth_allowed: Depth
    prefer_high_apt: bool
    allow_explore: bool
    candidate_bias: ShownBias
    forced_by: tuple[Shallow, ...]


JSON: Final = msgspec.json.Encoder(decimal_format="number")
"""Writes these views as JSON."""


def state_view(state: BrainState) -> ShownState:
    """Return the view of a state."""
    mind, budget = state.attention, state.resource_budget
    return ShownState(
        brainstate_id=state.brainstate_id,
        job_seed=state.job_seed,
        timestamp=instant_text(state.timestamp),
        tick=state.tick,
        sequence=state.sequence,
        goals=tuple(_goal(each) for each in state.goals),
        wm=tuple(_wm_item(each) for each in state.wm),
        cwm=ShownCwm(
            state.cwm.topic, state.cwm.tokens_used, tuple(_cwm_item(x) for x in state.cwm.items)
        ),
        attention=ShownAttention(
            decimal(mind.attention_gain), decimal(mind.explore_bias), decimal(mind.reward_signal)
        ),
        resource_budget=ResourceBudgetBody(budget.token_budget, budget.max_depth_allowed),
        tokens_consumed=state.tokens_consumed,
        recent_failures=tuple(
            ShownFailure(each.node_id, instant_text(each.ts), each.reason)
            for each in state.recent_failures
        ),
        constants=constants_view(state.constants),
        warnings=state.warnings,
        last_updated=instant_text(state.last_updated),
    )


def hints_view(hints: RoutingHints) -> ShownHints:
    """Return the view of hints."""
    bias = hints.candidate_bias
    return ShownHints(
        hints.max_depth_allowed,
        bias.prefer_high_apt,
        bias.allow_explore,
        ShownBias(bias.prefer_high_apt, bias.allow_explore),
        hints.forced_by,
    )


def constants_view(constants: Constants) -> GivenConstants:
    """Return all constants under their written names."""
    values = {name: getattr(constants, name) for name in Constants.__struct_fields__}
    shares = {name: decimal(values[name]) for name in values if name in FRACTIONS}
    return GivenConstants(**{**values, **shares})


def decimal(value: Billionths) -> Decimal:
    """Return a fraction as a decimal."""
    return Decimal(billionths_text(value))


def read_text(text: str) -> object:
    """Return the value of a canonical text."""
    return untag(msgspec.json.decode(text))


def _goal(goal: Goal) -> ShownGoal:
    metadata = read_text(goal.metadata)
    confidence = goal.final_confidence
    return ShownGoal(
        goal_id=goal.goal_id,
        priority=decimal(goal.priority),
        type=goal.type,
        status=goal.status,
        created_at=instant_text(goal.created_at),
        created_at_tick=goal.created_at_tick,
        deadline_ts=_instant(goal.deadline_ts),
        origin=goal.origin,
        metadata=metadata if isinstance(metadata, dict) else {},
        attempts=goal.attempts,
        repair_loops=goal.repair_loops,
        deliverable=goal.deliverable,
        is_delivered=goal.is_delivered,
        final_confidence=None if confidence is None else decimal(confidence),
        wm_ttl_ticks=goal.wm_ttl_ticks,
        paused_because=goal.paused_because,
    )


def _wm_item(item: WmItem) -> ShownWmItem:
    return ShownWmItem(
        item.wm_id,
        item.type,
        read_text(item.value),
        item.ttl_ticks,
        instant_text(item.created_at),
        item.created_at_tick,
        item.references,
        item.reference_ticks,
        item.token_estimate,
    )


def _cwm_item(item: CwmItem) -> ShownCwmItem:
    return ShownCwmItem(
        item.wm_id,
        item.type,
        read_text(item.value),
        item.references,
        item.last_reference_tick,
        item.promoted_at_tick,
        item.ttl_ticks,
        item.token_estimate,
    )


def _instant(instant: Instant | None) -> str | None:
    return None if instant is None else instant_text(instant)
