"""The result of a backtest: turns as they were and as they would be, added up over its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

import msgspec
from msgspec import Struct

from pointsman.audit.backtest.forecast import Forecast, ForecastSums, make_forecast
from pointsman.audit.backtest.forecast_tally import ForecastTally
from pointsman.audit.backtest.model_runs import ModelRun
from pointsman.kernel.document import printable
from pointsman.kernel.instant import Instant, instant_text
from pointsman.kernel.number import MicroUsd, divide, microusd_text
from pointsman.turns.facts import TurnFacts
from pointsman.turns.policy import TurnPolicy
from pointsman.turns.registry.models import Model
from pointsman.turns.registry.prices import PER_TOKENS
from pointsman.turns.trace import TurnOutcome, TurnTrace

MOST_MODELS = 12

_WIDTH = 760
_LABELS = 250
_BARS = 420
_TOP = 64
_ROW = 46
_BAR = 16
_INK = "#1f2933"
_BEFORE = "#9aa5b1"
_AFTER = "#2f6f9f"


def picture(found: Backtest) -> str:
    """Draw a backtest; the same backtest gives the same bytes."""
    rows = _rows(found)
    height = _TOP + _ROW * max(1, len(rows)) + 12
    head = f"{found.turns} turns, {found.changed_count} change model"
    frame = f'viewBox="0 0 {_WIDTH} {height}" role="img" font-family="sans-serif" font-size="13"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {frame} fill="{_INK}">',
        f"<title>{head}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="26" font-size="16" font-weight="bold">{head}</text>',
        *_legend(),
        *(line for index, row in enumerate(rows) for line in _bars(index, row, rows)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


_Row = tuple[str, int, int]
"""A model, and how many turns it takes before and after."""


def _rows(found: Backtest) -> list[_Row]:
    names = dict.fromkeys([*found.models_before, *found.models_after])
    rows = [
        (name or "no model", found.models_before.get(name, 0), found.models_after.get(name, 0))
        for name in names
    ]
    rows.sort(key=lambda row: (-max(row[1:]), row[0]))
    shown, others = rows[:MOST_MODELS], rows[MOST_MODELS:]
    if not others:
        return shown
    label = f"{len(others)} other models"
    return [*shown, (label, sum(row[1] for row in others), sum(row[2] for row in others))]


def _legend() -> Iterator[str]:
    for index, (name, colour) in enumerate((("before", _BEFORE), ("after", _AFTER))):
        x = _LABELS + index * 90
        yield f'<rect x="{x}" y="38" width="12" height="12" fill="{colour}"/>'
        yield f'<text x="{x + 18}" y="49">{name}</text>'


def _bars(index: int, row: _Row, rows: list[_Row]) -> Iterator[str]:
    name, before, after = row
    most = max(1, *(count for each in rows for count in each[1:]))
    top = _TOP + index * _ROW
    yield (f'<text x="{_LABELS - 10}" y="{top + _BAR + 5}" text-anchor="end">{_label(name)}</text>')
    for step, (count, colour) in enumerate(((before, _BEFORE), (after, _AFTER))):
        y, width = top + step * (_BAR + 2), _BARS * count // most
        yield f'<rect x="{_LABELS}" y="{y}" width="{width}" height="{_BAR}" fill="{colour}"/>'
        yield f'<text x="{_LABELS + width + 6}" y="{y + 13}">{count}</text>'


def _label(name: str) -> str:
    return escape(printable(name if len(name) <= 34 else name[:33] + "…"))


MOST_LISTED = 10_000
ESTIMATE = "an estimate of input cost alone: recorded token counts, list prices, no output"


class TurnChange(Struct, frozen=True):
    """A turn that another model would take; an empty model is none, an empty policy likewise."""

    turn_id: str
    at: Instant
    before_model: str
    after_model: str
    before_policy: str
    after_policy: str
    rule: str | None


class Unable(Struct, frozen=True):
    """A turn that could not be decided again, and why."""

    turn_id: str
    code: str
    reason: str


class InputCost(Struct, frozen=True):
    """The cost of reading the input of the comparable turns, by the estimates that were recorded.

    A turn is comparable when both models exist and have a known price; others are counted apart.
    """

    turns: int
    before_microusd: MicroUsd
    after_microusd: MicroUsd
    price_unknown: int
    no_model: int

    @property
    def difference_microusd(self) -> MicroUsd:
        """How much more the other policy costs; below zero when it costs less."""
        return MicroUsd(self.after_microusd - self.before_microusd)


class PlaceShift(Struct, frozen=True):
    """How many turns would leave this machine that stayed, and would stay that left."""

    leave: int = 0
    stay: int = 0


class Backtest(Struct, frozen=True):
    """The turns under the other policy; lists are cut after `MOST_LISTED`, counts never are.

    `by_rule` says how many turns each rule of the other policy takes, those that take none too.
    """

    turns: int
    unable_count: int
    unable: tuple[Unable, ...]
    changed_count: int
    changed: tuple[TurnChange, ...]
    shifts: dict[tuple[str, str], int]
    by_rule: dict[str, int]
    models_before: dict[str, int]
    models_after: dict[str, int]
    cost: InputCost
    places: PlaceShift
    forecast: Forecast


class RedecidedTurn(Struct, frozen=True):
    """One turn as it was decided and as it is decided now."""

    turn_id: str
    at: Instant
    before: tuple[TurnOutcome, TurnTrace]
    after: tuple[TurnOutcome, TurnTrace]
    before_models: Mapping[str, Model]
    after_models: Mapping[str, Model]
    facts: TurnFacts
    runs: tuple[ModelRun, ...] = ()

    @property
    def names(self) -> tuple[str, str]:
        """The models before and after."""
        return self.before[0].chosen_model, self.after[0].chosen_model

    @property
    def models(self) -> tuple[Model | None, Model | None]:
        """What each policy says of its model."""
        then, now = self.names
        return self.before_models.get(then), self.after_models.get(now)


class CostSums(Struct, frozen=True):
    """Costs added up exactly: tokens times micro-dollars a million of them, not yet divided."""

    turns: int = 0
    before: int = 0
    after: int = 0
    price_unknown: int = 0
    no_model: int = 0


class BacktestPart(Struct, frozen=True):
    """The counts of some turns, in their order; lists are cut, counts never are."""

    unable_count: int
    unable: tuple[Unable, ...]
    changed: tuple[TurnChange, ...]
    shifts: tuple[tuple[str, str, int], ...]
    by_rule: dict[str, int]
    before: dict[str, int]
    after: dict[str, int]
    cost: CostSums
    places: PlaceShift
    forecast: ForecastSums


class BacktestTally:
    """Counts decisions as they come, and lists at most so many."""

    def __init__(self, models: Mapping[str, Model], most_listed: int = MOST_LISTED) -> None:
        self._most = most_listed
        self._forecast = ForecastTally(models)
        self._leave = self._stay = 0
        self._rules: Counter[str] = Counter()
        self._shifts: Counter[tuple[str, str]] = Counter()
        self._before: Counter[str] = Counter()
        self._after: Counter[str] = Counter()
        self._changed: list[TurnChange] = []
        self._unable: list[Unable] = []
        self._unable_count = 0
        self._costs = _Costs()

    def miss(self, unable: Unable) -> None:
        """Count a turn that could not be decided again."""
        self._unable_count += 1
        if len(self._unable) < self._most:
            self._unable.append(unable)

    def add(self, decision: RedecidedTurn) -> None:
        """Count a turn that was decided again."""
        then, now = decision.names
        self._before[then] += 1
        self._after[now] += 1
        self._costs.add(decision)
        slot, rule = _winner(*decision.after)
        way = f"{slot} {rule or ''}"
        self._forecast.add(decision.facts, way, (then, now), decision.runs, decision.before_models)
        self._count_place(*decision.models)
        if rule is not None:
            self._rules[rule] += 1
        if then != now:
            self._shifts[then, now] += 1
            if len(self._changed) < self._most:
                self._changed.append(_change(decision))

    def _count_place(self, then: Model | None, now: Model | None) -> None:
        if then is None or now is None or then.location == now.location:
            return
        if now.location == "local":
            self._stay += 1
        else:
            self._leave += 1

    def part(self) -> BacktestPart:
        """Return the counts so far."""
        return BacktestPart(
            self._unable_count,
            tuple(self._unable),
            tuple(self._changed),
            tuple((then, now, count) for (then, now), count in self._shifts.items()),
            dict(self._rules),
            dict(self._before),
            dict(self._after),
            self._costs.sums(),
            PlaceShift(self._leave, self._stay),
            self._forecast.sums(),
        )


def sum_parts(policy: TurnPolicy, parts: Sequence[BacktestPart]) -> Backtest:
    """Add up the counts of the parts, in their order."""
    shifts: Counter[tuple[str, str]] = Counter()
    for each in parts:
        for then, now, count in each.shifts:
            shifts[then, now] += count
    changed = [change for each in parts for change in each.changed][:MOST_LISTED]
    before = _add_up([each.before for each in parts])
    return Backtest(
        turns=before.total(),
        unable_count=sum(each.unable_count for each in parts),
        unable=tuple(unable for each in parts for unable in each.unable)[:MOST_LISTED],
        changed_count=shifts.total(),
        changed=tuple(sorted(changed, key=lambda each: (each.at, each.turn_id))),
        shifts=dict(sorted(shifts.items(), key=lambda each: (-each[1], each[0]))),
        by_rule=dict(_add_up([_no_hits(policy), *(each.by_rule for each in parts)])),
        models_before=_most_first(before),
        models_after=_most_first(_add_up([each.after for each in parts])),
        cost=_input_cost([each.cost for each in parts]),
        places=PlaceShift(
            sum(each.places.leave for each in parts), sum(each.places.stay for each in parts)
        ),
        forecast=make_forecast([each.forecast for each in parts], policy.models),
    )


def backtest_value(found: Backtest) -> dict[str, object]:
    """Return a backtest as JSON shows it."""
    cost = found.cost
    return {
        "turns": found.turns,
        "changed_count": found.changed_count,
        "changed": [
            {**msgspec.structs.asdict(each), "at": instant_text(each.at)} for each in found.changed
        ],
        "shifts": [
            {"before": then, "after": now, "count": count}
            for (then, now), count in found.shifts.items()
        ],
        "by_rule": found.by_rule,
        "models_before": found.models_before,
        "models_after": found.models_after,
        "input_cost": {
            "turns": cost.turns,
            "before_usd": microusd_text(cost.before_microusd),
            "after_usd": microusd_text(cost.after_microusd),
            "difference_usd": microusd_text(cost.difference_microusd),
            "price_unknown": cost.price_unknown,
            "no_model": cost.no_model,
            "note": ESTIMATE,
        },
        "places": found.places,
        "forecast": found.forecast,
        "unable_count": found.unable_count,
        "unable": found.unable,
    }


def _no_hits(policy: TurnPolicy) -> dict[str, int]:
    rules = (*policy.rules, *(rule for each in policy.workspaces for rule in each.rules))
    return {rule.name: 0 for rule in rules}


def _add_up(counts: Sequence[dict[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total


def _input_cost(sums: Sequence[CostSums]) -> InputCost:
    """Round once, when everything is added up."""
    return InputCost(
        turns=sum(each.turns for each in sums),
        before_microusd=MicroUsd(divide(sum(each.before for each in sums), PER_TOKENS)),
        after_microusd=MicroUsd(divide(sum(each.after for each in sums), PER_TOKENS)),
        price_unknown=sum(each.price_unknown for each in sums),
        no_model=sum(each.no_model for each in sums),
    )


class _Costs:
    def __init__(self) -> None:
        self._turns = self._unknown = self._no_model = 0
        self._before = self._after = 0

    def add(self, decision: RedecidedTurn) -> None:
        before, after = decision.models
        if before is None or after is None:
            self._no_model += 1
            return
        then, now = _rate(before), _rate(after)
        if then is None or now is None:
            self._unknown += 1
            return
        self._turns += 1
        before_name, after_name = decision.names
        self._before += then * decision.facts.tokens_for(before_name)
        self._after += now * decision.facts.tokens_for(after_name)

    def sums(self) -> CostSums:
        return CostSums(self._turns, self._before, self._after, self._unknown, self._no_model)


def _rate(model: Model) -> MicroUsd | None:
    return None if model.price is None else model.price.input


def _change(decision: RedecidedTurn) -> TurnChange:
    before_policy, _ = _winner(*decision.before)
    after_policy, rule = _winner(*decision.after)
    return TurnChange(
        turn_id=decision.turn_id,
        at=decision.at,
        before_model=decision.before[0].chosen_model,
        after_model=decision.after[0].chosen_model,
        before_policy=before_policy,
        after_policy=after_policy,
        rule=rule,
    )


def _winner(outcome: TurnOutcome, trace: TurnTrace) -> tuple[str, str | None]:
    if outcome.winner_index < 0:
        return "", None
    winner = trace.chain[outcome.winner_index]
    return winner.policy, winner.rule_name


def _most_first(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
