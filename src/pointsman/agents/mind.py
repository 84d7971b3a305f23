"""What routing reads of a BrainState snapshot: its hints worked out anew from it (D-000-4)."""

from __future__ import annotations

from pointsman.agents.facts import GoalView, MindView
from pointsman.brainstate.hints import hinted
from pointsman.brainstate.state import BrainState


def mind_view(state: BrainState) -> MindView:
    """Give a state as the router sees it; the depth is the budget's own, not the hint (D-000-5)."""
    bias = hinted(state).candidate_bias
    return MindView(
        attention_gain=state.attention.attention_gain,
        explore_bias=state.attention.explore_bias,
        token_budget=state.resource_budget.token_budget,
        max_depth_allowed=state.resource_budget.max_depth_allowed,
        goals=tuple(
            GoalView(each.goal_id, each.priority, each.type, each.status) for each in state.goals
        ),
        prefer_high_apt=bias.prefer_high_apt,
        allow_explore=bias.allow_explore,
        quick_answer_below=state.constants.quick_answer_below,
        min_token_threshold=state.constants.min_token_threshold,
    )
