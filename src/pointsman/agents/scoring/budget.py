"""How deep a job may go and how many tokens it gets: whole numbers, worked out exactly.

Document 000 "Depth & token budgeting", 004 §5, companion D-000-5 to D-000-7.
"""

from __future__ import annotations

from pointsman.agents.codes import DepthReason
from pointsman.agents.facts import MindView
from pointsman.agents.file.config import RouterConfig
from pointsman.agents.trace import DepthTrace, TokenTrace
from pointsman.kernel.number import SCALE, Billionths, floor_of, times


def depth_of(config: RouterConfig, mind: MindView) -> DepthTrace:
    """Give the depth of a job that an agent takes; never more than the mind allows."""
    base, attention = mind.max_depth_allowed, mind.attention_gain
    multiplied = floor_of(attention, base)
    depth, reason = min(base, max(0, multiplied)), DepthReason.ATTENTION
    if attention < max(config.quick_attention, mind.quick_answer_below):
        depth, reason = 0, DepthReason.QUICK_MODE
    elif mind.token_budget < max(config.min_token_threshold, mind.min_token_threshold):
        depth, reason = 0, DepthReason.LOW_TOKEN_BUDGET
    return DepthTrace(base, attention, multiplied, depth, reason)


def shallow(depth: DepthTrace, reason: DepthReason) -> DepthTrace:
    """Give the depth where it is none, whatever attention says."""
    return DepthTrace(depth.base_depth, depth.attention_gain, depth.depth_multiplier, 0, reason)


def tokens_of(config: RouterConfig, mind: MindView) -> TokenTrace:
    """Give the tokens of a job that an agent takes: 1000 at attention 0.36 are 680."""
    budget, attention = mind.token_budget, mind.attention_gain
    # DETERMINISM: one floor over the exact product; the share is rounded for reading only.
    exact = config.token_share_least * SCALE + config.token_share_gain * attention
    computed = budget * exact // (SCALE * SCALE)
    share = Billionths(config.token_share_least + times(config.token_share_gain, attention))
    floor = config.min_token_floor
    allocated = min(budget, max(floor, computed))
    return TokenTrace(budget, share, computed, floor, allocated, budget < floor)


def without_tokens(tokens: TokenTrace) -> TokenTrace:
    """Give the budget where nobody takes the job."""
    return TokenTrace(
        tokens.token_budget,
        tokens.share,
        tokens.computed,
        tokens.min_token_floor,
        0,
        tokens.is_budget_below_floor,
    )
