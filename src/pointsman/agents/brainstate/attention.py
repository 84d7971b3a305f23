"""Reward, attention and exploration: exact, rounded once a value (004 §4.3, §4.4, §11)."""

from __future__ import annotations

from pointsman.agents.brainstate.constants import Constants
from pointsman.agents.brainstate.state import Attention
from pointsman.agents.brainstate.trace import Reward
from pointsman.kernel.number import ONE, SCALE, Billionths, clamp, divided


def rewarded(limits: Constants, *, council: bool | None, user: bool | None) -> Reward:
    """Weigh the council's vote and the user's word.

    Without a council the reward is 0. A user who says the opposite of the council is not counted.
    """
    is_counted = council is not None and user is council
    value = limits.council_weight if council else 0
    if is_counted and user:
        value += limits.user_weight
    return Reward(council, user, is_counted, clamp(Billionths(value)))


def attended(before: Attention, reward: Billionths, limits: Constants) -> Attention:
    """Let both modulators decay, then move by the reward and by what it lacks."""
    gain = _moved(before.attention_gain, limits.a_decay, reward, limits.a_gain)
    missed = Billionths(ONE - reward)
    explore = _moved(before.explore_bias, limits.e_decay, missed, limits.e_gain)
    return Attention(gain, explore, reward)


def _moved(old: Billionths, decay: Billionths, signal: Billionths, gain: Billionths) -> Billionths:
    return clamp(Billionths(divided(old * (ONE - decay) + signal * gain, SCALE)))
