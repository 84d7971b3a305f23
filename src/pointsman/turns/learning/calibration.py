"""Turning a target into a threshold: what a dollar must buy so that a policy's wish comes true.

Every recorded look is estimated as if it were new, from all others (leave one out); the threshold
is the one under which those estimates come to the wanted share of strong calls, or wanted spend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct

from pointsman.kernel.canonical import MAX_INT, Form
from pointsman.kernel.number import SCALE, ZERO, Billionths, MicroUsd, divide, ratio
from pointsman.turns.learning.evidence import Estimate, rank_models
from pointsman.turns.learning.pattern import BEST, Target
from pointsman.turns.learning.pattern_row import Count, Price, Share

MOST_TRIED: Final = 1_000
"""How many looks are left out one by one: those whose names come first."""

LEAST_TRIED: Final = 20
"""With fewer looks a threshold would be an accident."""

GROWTH: Final = 4
"""A calibration holds until there is a quarter more, or a quarter less, than it was made from."""

Whole = Annotated[int, Meta(ge=-MAX_INT, le=MAX_INT)]


class Threshold(Struct, frozen=True, forbid_unknown_fields=True):
    """What a dollar must buy for one target, and what that came to on the recorded looks.

    `frontier` are the models it chooses among: no other is as good for as little money.
    `optimism` is how much less success than expected the chosen models had: a model that is
    chosen among many was partly lucky.
    """

    target: Target
    k: Count
    success_per_usd: Whole
    strong_share: Share
    spend_microusd_per_1k: Price
    tried: Count
    frontier: tuple[str, ...] = ()
    optimism: Share = ZERO


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


class TriedLook(Struct, frozen=True):
    """A look left out: the estimates of all models, and the mean success of those judged on it."""

    estimates: Sequence[Estimate]
    observed: Mapping[str, int] = {}


Tried = Sequence[TriedLook]


def frontier_models(tried: Tried) -> tuple[str, ...]:
    """Name the models that no other beats in both mean cost and mean success, cheapest first."""
    success: Counter[str] = Counter()
    cost: Counter[str] = Counter()
    for look in tried:
        for each in look.estimates:
            success[each.model] += each.success
            cost[each.model] += each.cost_microusd
    kept: list[str] = []
    for model in sorted(success, key=lambda name: (cost[name], -success[name], name)):
        if not kept or success[model] > success[kept[-1]]:
            kept.append(model)
    return tuple(kept)


def threshold(tried: Tried, target: Target, k: int) -> Threshold | None:
    """Find what a dollar must buy for a target; None where there is too little to go by.

    A dollar never has to buy less than nothing: past the choice with the most success, more money
    buys worse answers.
    """
    if len(tried) < LEAST_TRIED or len(tried[0].estimates) < 2:
        return None
    frontier = frontier_models(tried)
    trial = _Trial(tried, frontier)
    per_usd = _per_usd(trial, target)
    chosen = trial.choices(per_usd)
    return Threshold(
        target=target,
        k=k,
        success_per_usd=per_usd,
        strong_share=ratio(trial.calls(per_usd, frontier[-1]), len(tried)),
        spend_microusd_per_1k=MicroUsd(
            divide(1_000 * sum(each.cost_microusd for each in chosen), len(tried))
        ),
        tried=len(tried),
        frontier=frontier,
        optimism=trial.optimism(per_usd),
    )


def _per_usd(trial: _Trial, target: Target) -> int:
    if target.quality_of is not UNSET:
        wanted = trial.frontier[-1] if target.quality_of == BEST else target.quality_of
        return trial.most_while(lambda value: trial.is_as_good_as(value, wanted))
    if target.share_of is not UNSET:
        most = divide((target.most or 0) * trial.count, SCALE)
        model = target.share_of
        return trial.least_until(lambda value: trial.calls(value, model), most)
    if target.strong_share is not None:
        strong = trial.frontier[-1]
        return max(0, trial.for_share(divide(target.strong_share * trial.count, SCALE), strong))
    budget = (target.spend_microusd_per_1k or 0) * trial.count
    # One more than the largest that spends too much is the smallest that does not.
    return 1 + _largest(lambda value: 1_000 * trial.spend(value) > budget, -1)


GRID: Final = (0, *(1 << step for step in range(MAX_INT.bit_length() - 1)), MAX_INT)
"""The success a dollar must buy, as it is tried where a wish does not rise or fall steadily."""


class _Trial:
    """The choices on all looks left out, by what a dollar must buy."""

    def __init__(self, tried: Tried, frontier: tuple[str, ...]) -> None:
        self.frontier = frontier
        self.count = len(tried)
        self._tried = tried
        self._estimates = [
            [each for each in look.estimates if each.model in frontier] for look in tried
        ]

    def choices(self, per_usd: int) -> list[Estimate]:
        """Return the first choice on every look."""
        return [rank_models(each, per_usd)[0][1] for each in self._estimates]

    def calls(self, per_usd: int, model: str) -> int:
        """Count the looks on which a model is chosen."""
        return sum(each.model == model for each in self.choices(per_usd))

    def spend(self, per_usd: int) -> int:
        """Add up what the choices cost."""
        return sum(each.cost_microusd for each in self.choices(per_usd))

    def optimism(self, per_usd: int) -> Billionths:
        """Return how much less success than expected the choices had, where they were judged."""
        off, judged = self._overestimate(self.choices(per_usd))
        return Billionths(max(0, divide(off, judged))) if judged >= LEAST_TRIED else ZERO

    def is_as_good_as(self, per_usd: int, model: str) -> bool:
        """Tell whether the choices have as much success as one model, corrected for their luck.

        Without enough judged choices, nothing is known to be as good.
        """
        chosen = self.choices(per_usd)
        off, judged = self._overestimate(chosen)
        own = [each for look in self._tried for each in look.estimates if each.model == model]
        if not own or judged < LEAST_TRIED:
            return False
        expected = divide(sum(each.success for each in chosen), self.count)
        alone, times = self._overestimate(own)
        wanted = divide(sum(each.success for each in own), len(own))
        wanted -= max(0, divide(alone, times)) if times else 0
        return expected - max(0, divide(off, judged)) >= wanted

    def _overestimate(self, chosen: Sequence[Estimate]) -> tuple[int, int]:
        """Add up by how much the chosen models were overestimated, and count the judged ones."""
        pairs = [
            (each.success, look.observed[each.model])
            for each, look in zip(chosen, self._tried, strict=True)
            if each.model in look.observed
        ]
        return sum(expected - seen for expected, seen in pairs), len(pairs)

    def most_while(self, holds: Callable[[int], bool]) -> int:
        """Return the largest number up to which a condition holds on the grid; 0 at least."""
        held = [*takewhile(holds, GRID)]
        if not held or len(held) == len(GRID):
            return held[-1] if held else 0
        return _largest(lambda value: value < GRID[len(held)] and holds(value), held[-1])

    def least_until(self, count: Callable[[int], int], most: int) -> int:
        """Return the smallest number that keeps a count below a limit, else that of the least."""
        counts = [(count(value), value) for value in GRID]
        place = next((at for at, (calls, _) in enumerate(counts) if calls <= most), None)
        if place is None:
            return min(counts)[1]
        if place == 0:
            return 0
        # Between two steps of the grid the count falls once.
        return 1 + _largest(
            lambda value: value < counts[place][1] and count(value) > most, counts[place - 1][1]
        )

    def for_share(self, wanted: int, strong: str) -> int:
        """Return the middle of all thresholds under which as many calls as wanted are strong."""

        def most(calls: int) -> int:
            return _largest(lambda value: self.calls(value, strong) >= calls, -MAX_INT)

        high = most(wanted)
        # At its end a new turn that gains a hair less than the recorded ones would fall to the
        # other.
        low = most(self.calls(high, strong) + 1)
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
