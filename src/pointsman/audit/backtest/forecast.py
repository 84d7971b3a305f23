"""A forecast of recorded turns under another policy: cost, time and quality, with intervals.

A turn that keeps its model is as it was, at the other policy's prices. One that moves is estimated
from recorded runs of its new model that are alike; where too few are, it is left out and counted.
It is a report: nothing is decided by it, so it may calculate with floats.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from pointsman.audit.backtest.run_sums import (
    NO_TURNS,
    CalledTurnSums,
    Likeness,
    RunSums,
    add_run_sums,
    second,
)
from pointsman.turns.registry.models import Model
from pointsman.turns.registry.prices import PER_TOKENS, Price

LEAST_RUNS: Final = 10
"""So many recorded runs must be alike. Fewer make no interval that holds."""

NORMAL_95: Final = 1.959964
_FEW: Final = (0.0, 12.706, 4.303, 3.182, 2.776)
"""Student's quantile for so many degrees of freedom: there the expansion is not good enough."""

MICRO: Final = 1_000_000

MeasureName = Literal["cost_usd", "output_tokens", "latency_ms", "score", "failed_share"]


class MovedTurns(Struct, frozen=True):
    """Turns that move to one model and are alike: as they were, and their estimated input.

    `estimated` is that of the turns whose price is known.
    """

    before: CalledTurnSums = NO_TURNS
    estimated: int = 0


class ForecastMeasure(Struct, frozen=True):
    """One measure of the same turns before and after, with the 95 % interval of the estimate.

    Costs and tokens are sums, the others means of a turn. `turns` are those that are compared, and
    `estimated` those of them whose value is an estimate.
    """

    name: MeasureName
    turns: int
    estimated: int
    before: float
    after: float
    low: float
    high: float


class Support(Struct, frozen=True):
    """The basis of a forecast: turns as they were, and those estimated from recorded runs.

    `unsupported` says why turns were left out, and how many; `refused` get no model any more.
    """

    kept: int
    estimated: int
    unsupported: dict[str, int]
    refused: int
    uncalled: int


class Forecast(Struct, frozen=True):
    """The measures of the turns under another policy, and the support of each estimate."""

    measures: tuple[ForecastMeasure, ...]
    support: Support


class ForecastSums(Struct, frozen=True):
    """All that a forecast is made of; parts of a ledger add up."""

    kept: CalledTurnSums = NO_TURNS
    kept_microusd: int = 0
    """The kept turns at the other policy's prices; those it has no price for are in `unpriced`."""
    unpriced_kept: int = 0
    refused: int = 0
    uncalled: int = 0
    moved: tuple[tuple[str, Likeness, MovedTurns], ...] = ()
    runs: tuple[tuple[str, Likeness, RunSums], ...] = ()


class SupportedTurns:
    """Turns that are alike, and the recorded runs they are estimated from."""

    def __init__(self, model: str, alike: Likeness, runs: RunSums) -> None:
        self.model, self.alike, self.runs = model, alike, runs
        self.before, self.estimated = NO_TURNS, 0

    def add(self, moved: MovedTurns) -> None:
        """Add turns."""
        self.before += moved.before
        self.estimated += moved.estimated


class _Sample(Struct, frozen=True):
    """A sum over turns that is estimated: its value, its variance, and the runs behind it."""

    value: float
    variance: float
    freedom: int


def make_forecast(parts: Sequence[ForecastSums], models: Mapping[str, Model]) -> Forecast:
    """Add up the parts and estimate; `models` are those of the other policy."""
    groups, unsupported = find_support(parts)
    kept = sum((each.kept for each in parts), NO_TURNS)
    table = _Table(kept, groups, models)
    kept_cost = (sum(each.kept_microusd for each in parts), sum(e.unpriced_kept for e in parts))
    unpriced = sum(
        each.before.turns for each in groups if not _is_priced(models, each.model)
    ) + sum(each.before.unpriced for each in groups if _is_priced(models, each.model))
    found = [
        table.cost(*kept_cost),
        table.tokens(),
        table.latency(),
        table.score(),
        table.failures(),
    ]
    unpriced += kept_cost[1] + kept.unpriced
    if unpriced:
        unsupported["a price is unknown: left out of the cost alone"] = unpriced
    support = Support(
        kept.turns,
        sum(each.before.turns for each in groups),
        dict(unsupported.most_common()),
        sum(each.refused for each in parts),
        sum(each.uncalled for each in parts),
    )
    return Forecast(tuple(each for each in found if each is not None), support)


def _is_priced(models: Mapping[str, Model], name: str) -> bool:
    price = models[name].price if name in models else None
    return price is not None and None not in {price.input, price.output}


def find_support(
    parts: Sequence[ForecastSums],
) -> tuple[list[SupportedTurns], Counter[str]]:
    """Find the recorded runs that are like the turns which move, or say why there are none."""
    runs: defaultdict[tuple[str, Likeness], list[RunSums]] = defaultdict(list)
    moved: defaultdict[tuple[str, Likeness], list[MovedTurns]] = defaultdict(list)
    for part in parts:
        for model, alike, sums in part.runs:
            runs[model, alike].append(sums)
        for model, alike, turns in part.moved:
            moved[model, alike].append(turns)
    known = {model for model, _ in runs}
    groups: list[SupportedTurns] = []
    unsupported: Counter[str] = Counter()
    for (model, alike), moves in sorted(moved.items()):
        sums = add_run_sums(runs.get((model, alike), [RunSums()]))
        if sums.runs < LEAST_RUNS:
            reason = f"too few recorded turns of {model} are alike"
            if model not in known:
                reason = f"no turn of {model} is recorded"
            unsupported[reason] += sum(each.before.turns for each in moves)
            continue
        group = SupportedTurns(model, alike, sums)
        for each in moves:
            group.add(each)
        groups.append(group)
    return groups, unsupported


class _Table:
    """The measures of kept and estimated turns together."""

    def __init__(
        self, kept: CalledTurnSums, groups: Sequence[SupportedTurns], models: Mapping[str, Model]
    ) -> None:
        self._kept, self._groups, self._models = kept, groups, models

    def cost(self, kept_after: int, unpriced_kept: int) -> ForecastMeasure | None:
        """Compare the cost of the turns whose price is known before and after."""
        groups = [each for each in self._groups if _is_priced(self._models, each.model)]
        priced = [(each, each.before.turns - each.before.unpriced) for each in groups]
        estimated = sum(turns for _, turns in priced)
        kept = self._kept.turns - self._kept.unpriced - unpriced_kept
        before = self._kept.microusd + sum(each.before.microusd for each in groups)
        samples = [
            _cost_sample(each, turns, self._models[each.model].price or Price())
            for each, turns in priced
            if turns
        ]
        counts = (kept + estimated, estimated)
        return _measure("cost_usd", counts, (before, kept_after), samples, MICRO)

    def tokens(self) -> ForecastMeasure | None:
        """Compare the length of answers."""
        samples = [
            _mean_sample(
                each.before.turns, each.runs.runs, each.runs.firsts[4], second(each.runs, 4, 4)
            )
            for each in self._groups
        ]
        counts = self._counts(lambda sums: sums.turns)
        before = self._sum(lambda sums: sums.tokens[3])
        return _measure("output_tokens", counts, (before, self._kept.tokens[3]), samples)

    def latency(self) -> ForecastMeasure | None:
        """Compare how long a turn takes."""
        samples = [
            _mean_sample(each.before.turns, each.runs.runs, *each.runs.times)
            for each in self._groups
        ]
        counts = self._counts(lambda sums: sums.turns)
        before = self._sum(lambda sums: sums.ms)
        return _measure("latency_ms", counts, (before, self._kept.ms), samples, counts[0])

    def score(self) -> ForecastMeasure | None:
        """Compare how good the turns were that were judged; where runs alike were judged, too."""
        groups = [
            each
            for each in self._groups
            if each.runs.scores[0] >= LEAST_RUNS and each.before.scored
        ]
        samples = [_score_sample(each.before.scored, each.runs.scores) for each in groups]
        estimated = sum(each.before.scored for each in groups)
        total = self._kept.scored + estimated
        before = self._kept.score + sum(each.before.score for each in groups)
        found = _measure(
            "score",
            (total, estimated),
            (before / 1000, self._kept.score / 1000),
            samples,
            total,
        )
        return None if found is None else _within(found, 0.0, 1.0)

    def failures(self) -> ForecastMeasure | None:
        """Compare how many turns failed on the model that was chosen first."""
        samples = [
            _share_sample(each.before.turns, each.runs.failed, each.runs.runs + each.runs.failed)
            for each in self._groups
        ]
        counts = self._counts(lambda sums: sums.turns)
        before = self._sum(lambda sums: sums.failed)
        found = _measure("failed_share", counts, (before, self._kept.failed), samples, counts[0])
        return None if found is None else _within(found, 0.0, 1.0)

    def _counts(self, count: Callable[[CalledTurnSums], int]) -> tuple[int, int]:
        estimated = sum(count(each.before) for each in self._groups)
        return count(self._kept) + estimated, estimated

    def _sum(self, value: Callable[[CalledTurnSums], int]) -> int:
        return value(self._kept) + sum(value(each.before) for each in self._groups)


def _mean_sample(turns: int, runs: int, total: float, squares: float) -> _Sample:
    """Estimate the sum over some turns by the mean of recorded runs.

    The interval is for the turns themselves, so it holds their own spread beside the mean's.
    """
    mean = total / runs
    spread = max(0.0, squares / runs - mean * mean) * runs / max(1, runs - 1)
    return _Sample(turns * mean, spread * (turns * turns / runs + turns), runs - 1)


def _score_sample(turns: int, scores: tuple[int, int, int]) -> _Sample:
    """Estimate the scores of some turns; a bad and a good one more keep the spread honest."""
    count, total, squares = scores
    mean = total / 1000 / count
    middle = (total / 1000 + 1) / (count + 2)
    spread = max(0.0, (squares / MICRO + 1) / (count + 2) - middle * middle)
    return _Sample(turns * mean, spread * (turns * turns / count + turns), count - 1)


def _share_sample(turns: int, hits: int, tries: int) -> _Sample:
    share, middle = hits / tries, (hits + 1) / (tries + 2)
    spread = middle * (1 - middle)
    return _Sample(turns * share, spread * (turns * turns / tries + turns), max(1, tries - 1))


def _cost_sample(group: SupportedTurns, turns: int, price: Price) -> _Sample:
    """Estimate cost: the input by its own estimate, the answer by the mean of recorded runs."""
    runs, first = group.runs.runs, group.runs.firsts
    plain, written = price.input or 0, price.cache_write
    rates = (
        0,
        plain,
        plain if price.cached_input is None else price.cached_input,
        plain if written is None else written,
        price.output or 0,
    )
    into = sum(rate * sums for rate, sums in zip(rates[:4], first[:4], strict=True))
    ratio = into / first[0] if first[0] else 0.0
    base = 0.0 if first[0] else into / runs
    # What a run costs beyond what its estimated input tells: a weight for each kind of tokens.
    weights = (-ratio, *rates[1:])
    mean = sum(w * s for w, s in zip(weights, first, strict=True)) / runs
    squares = sum(
        weights[row] * weights[column] * second(group.runs, row, column)
        for row in range(5)
        for column in range(5)
    )
    spread = max(0.0, squares / runs - mean * mean) * runs / max(1, runs - 1)
    answer = rates[4] * first[4] / runs
    value = ratio * group.estimated + turns * (base + answer)
    variance = spread * (turns * turns / runs + turns)
    return _Sample(value / PER_TOKENS, variance / PER_TOKENS**2, runs - 1)


def _measure(
    name: MeasureName,
    counts: tuple[int, int],
    kept: tuple[float, float],
    samples: Sequence[_Sample],
    divisor: float = 1.0,
) -> ForecastMeasure | None:
    """Add the kept and the estimated turns; None where there is no turn to compare.

    `kept` is the value of all turns before, and that of the kept ones after.
    """
    total, estimated = counts
    if not total:
        return None
    after = kept[1] + sum(each.value for each in samples)
    half = interval_half([(each.variance, each.freedom) for each in samples])
    figures = (kept[0], after, max(0.0, after - half), after + half)
    return ForecastMeasure(name, total, estimated, *(each / divisor for each in figures))


def interval_half(parts: Iterable[tuple[float, int]]) -> float:
    """Return half of the 95 % interval of a sum, from the variance and freedom of its parts."""
    found = [(variance, max(1, freedom)) for variance, freedom in parts if variance > 0]
    if not found:
        return 0.0
    total = sum(variance for variance, _ in found)
    # Welch and Satterthwaite: the freedom of a sum of estimates from samples of many sizes.
    freedom = total * total / sum(variance * variance / free for variance, free in found)
    return student_95(freedom) * math.sqrt(total)


def student_95(freedom: float) -> float:
    """Return the quantile of Student's distribution that leaves out 2.5 % on each side."""
    if freedom < len(_FEW):
        return _FEW[max(1, int(freedom))]
    z = NORMAL_95
    # Abramowitz and Stegun 26.7.5.
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom ** (power + 1) for power, term in enumerate(terms))


def _within(found: ForecastMeasure, least: float, most: float) -> ForecastMeasure:
    low, high = max(least, found.low), min(most, found.high)
    return ForecastMeasure(
        found.name, found.turns, found.estimated, found.before, found.after, low, high
    )
