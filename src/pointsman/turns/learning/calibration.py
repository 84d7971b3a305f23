"""Turning a target into a threshold: what a dollar must buy so that a policy's wish comes true.

Every recorded look is estimated as if it were new, from all others (leave one out); the threshold
is the one under which those estimates come to the wanted share of strong calls, or wanted spend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct

from pointsman.kernel.canonical import MAX_INT, Form
from pointsman.kernel.number import Billionths, MicroUsd, divide, ratio
from pointsman.turns.learning.evidence import Estimate, rank_models
from pointsman.turns.learning.pattern import Target
from pointsman.turns.learning.pattern_row import Count, Price, Share

MOST_TRIED: Final = 1_000
"""How many looks are left out one by one: those whose names come first."""

LEAST_TRIED: Final = 20
"""With fewer looks a threshold would be an accident."""

GROWTH: Final = 4
"""A calibration holds until there is a quarter more, or a quarter less, than it was made from."""

Whole = Annotated[int, Meta(ge=-MAX_INT, le=MAX_INT)]


class Threshold(Struct, frozen=True, forbid_unknown_fields=True):
    """What a dollar must buy for one target, and what that came to on the recorded looks."""

    target: Target
    k: Count
    success_per_usd: Whole
    strong_share: Share
    spend_microusd_per_1k: Price
    tried: Count


class Calibration(Struct, frozen=True, forbid_unknown_fields=True):
    """The centre of the looks there were, and the thresholds found from it."""

    looks: Count
    judged: Count
    centre: tuple[Whole, ...]
    thresholds: tuple[Threshold, ...] = ()

    def is_stale(self, looks: int, judged: int) -> bool:
        """Tell whether so much was learned or forgotten that it must be made anew."""
        pairs = ((self.looks, looks), (self.judged, judged))
        return any(GROWTH * abs(now - then) > then for then, now in pairs)

    def threshold(self, target: Target, k: int) -> Threshold | None:
        """Return the threshold found for a target, if it was asked for."""
        found = (each for each in self.thresholds if (each.target, each.k) == (target, k))
        return next(found, None)


CALIBRATION_FORM = Form(Calibration)

Tried = Sequence[Sequence[Estimate]]
"""For every look left out, the estimates of all models."""


def strong_model(tried: Tried) -> str:
    """Name the strong model: the one that costs most over all looks; of equals the last by name."""
    costs: dict[str, int] = {}
    for estimates in tried:
        for each in estimates:
            costs[each.model] = costs.get(each.model, 0) + each.cost_microusd
    return max(costs, key=lambda model: (costs[model], model))


def threshold(tried: Tried, target: Target, k: int) -> Threshold | None:
    """Find what a dollar must buy for a target; None where there is too little to go by."""
    if len(tried) < LEAST_TRIED or len(tried[0]) < 2:
        return None
    strong = strong_model(tried)
    if target.strong_share is not None:
        per_usd = _for_share(tried, divide(target.strong_share * len(tried), 10**9), strong)
    else:
        budget = (target.spend_microusd_per_1k or 0) * len(tried)
        # One more than the largest that spends too much is the smallest that does not.
        per_usd = 1 + _largest(lambda value: 1_000 * _spend(tried, value) > budget, -1)
    return Threshold(
        target=target,
        k=k,
        success_per_usd=per_usd,
        strong_share=ratio(_strong_calls(tried, per_usd, strong), len(tried)),
        spend_microusd_per_1k=MicroUsd(divide(1_000 * _spend(tried, per_usd), len(tried))),
        tried=len(tried),
    )


def _for_share(tried: Tried, wanted: int, strong: str) -> int:
    """Return the middle of all thresholds under which as many calls as wanted are strong."""

    def most(calls: int) -> int:
        return _largest(lambda value: _strong_calls(tried, value, strong) >= calls, -MAX_INT)

    high = most(wanted)
    # At its end a new turn that gains a hair less than the recorded ones would fall to the other.
    low = most(_strong_calls(tried, high, strong) + 1)
    if high == MAX_INT:
        return high
    return min(high, 0) if low == -MAX_INT else low + (high - low + 1) // 2


def _largest(holds: Callable[[int], bool], low: int) -> int:
    """Return the largest number for which a condition holds that stops holding at some point."""
    high = MAX_INT
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _strong_calls(tried: Tried, per_usd: int, strong: str) -> int:
    return sum(rank_models(each, per_usd)[0][1].model == strong for each in tried)


def _spend(tried: Tried, per_usd: int) -> int:
    return sum(rank_models(each, per_usd)[0][1].cost_microusd for each in tried)


class Reliability(Struct, frozen=True):
    """Of the estimates in one tenth of the scale: how many, their mean, and the mean outcome."""

    tenth: int
    count: int
    expected: Billionths
    observed: Billionths


def reliability(pairs: Sequence[tuple[int, int]]) -> list[Reliability]:
    """Compare expected and observed success, a tenth of the scale at a time."""
    bins: dict[int, list[tuple[int, int]]] = {}
    for expected, observed in pairs:
        bins.setdefault(min(9, expected // 10**8), []).append((expected, observed))
    return [
        Reliability(
            tenth,
            len(found),
            Billionths(divide(sum(each for each, _ in found), len(found))),
            Billionths(divide(sum(each for _, each in found), len(found))),
        )
        for tenth, found in sorted(bins.items())
    ]
