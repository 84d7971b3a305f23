"""The hints of a state for routing: how deep, and which agents to prefer (004 §5)."""

from __future__ import annotations

from msgspec import Struct

from pointsman.brainstate.state import BrainState
from pointsman.kernel.canonical import Form
from pointsman.kernel.codes import Meaning
from pointsman.kernel.number import floor_of


class Shallow(Meaning):
    """Why a job is answered quickly, even where its attention would allow more."""

    LOW_ATTENTION = "low_attention", "attention is below the threshold for more than a quick answer"
    LOW_TOKEN_BUDGET = "low_token_budget", "the token budget is below the threshold"


class CandidateBias(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The candidates the state prefers."""

    prefer_high_apt: bool
    allow_explore: bool


class RoutingHints(Struct, frozen=True, forbid_unknown_fields=True):
    """The hints; `forced_by` lists the reasons for a forced depth of 0."""

    max_depth_allowed: int
    candidate_bias: CandidateBias
    forced_by: tuple[Shallow, ...]


HINTS_FORM = Form(RoutingHints)


def routing_hints(state: BrainState) -> RoutingHints:
    """Return a state's hints; the depth never exceeds the snapshot's limit."""
    limits, mind, budget = state.constants, state.attention, state.resource_budget
    forced: list[Shallow] = []
    if mind.attention_gain < limits.quick_answer_below:
        forced.append(Shallow.LOW_ATTENTION)
    if budget.token_budget < limits.min_token_threshold:
        forced.append(Shallow.LOW_TOKEN_BUDGET)
    depth = 0 if forced else floor_of(mind.attention_gain, budget.max_depth_allowed)
    bias = CandidateBias(
        mind.attention_gain >= limits.prefer_high_apt_at,
        mind.explore_bias >= limits.allow_explore_at,
    )
    return RoutingHints(depth, bias, tuple(forced))
