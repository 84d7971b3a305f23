"""Reward, attention and exploration: exact, rounded once a value (004 §4.3, §4.4, §11)."""

from __future__ import annotations

from pointsman.brainstate.constants import Constants
from pointsman.brainstate.state import Attention
from pointsman.brainstate.trace import Reward
from pointsman.kernel.number import ONE, SCALE, ZERO, Billionths, clamp


def rewarded(limits: Constants, *, council: bool | None, user: bool | None) -> Reward:
    """Weigh the council's vote and the user's word.

    Without a council the reward is 0. A user who says the opposite of the council is not counted.
    """
    is_counted = council is not None and user is council
    value = limits.council_weight if council else ZERO
    if is_counted and user:
        value = Billionths(value + limits.user_weight)
    return Reward(council, user, is_counted, clamp(value) if value else ZERO)


def attended(before: Attention, reward: Billionths, limits: Constants) -> Attention:
    """Let both modulators decay, then move by the reward and by what it lacks."""
    gain = _moved(before.attention_gain, limits.a_decay, reward, limits.a_gain)
    explore = _moved(before.explore_bias, limits.e_decay, SCALE - reward, limits.e_gain)
    return Attention(gain, explore, reward)


def _moved(old: Billionths, decay: Billionths, signal: int, gain: Billionths) -> Billionths:
    """Give a modulator after a tick, rounded once, half to even, within [0, 1]."""
    moved, rest = divmod(old * (SCALE - decay) + signal * gain, SCALE)
    twice = rest + rest
    if twice > SCALE or (twice == SCALE and moved & 1):
        moved += 1
    return Billionths(moved) if 0 < moved < SCALE else (ONE if moved > 0 else ZERO)
