"""Sorts turns that were decided again into those a forecast keeps, estimates and leaves out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pointsman.audit.backtest.forecast import ForecastSums, MovedTurns
from pointsman.audit.backtest.model_runs import ModelRun
from pointsman.audit.backtest.run_sums import (
    NO_TURNS,
    CalledTurnSums,
    Likeness,
    RunAdder,
    likeness_of,
)
from pointsman.turns.facts import TurnFacts
from pointsman.turns.registry.models import Model
from pointsman.turns.registry.prices import cost


class ForecastTally:
    """Adds up turns one by one; `models` are those of the other policy."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = models
        self._kept = NO_TURNS
        self._kept_microusd = self._unpriced = self._refused = self._uncalled = 0
        self._moved: dict[tuple[str, Likeness], MovedTurns] = {}
        self._runs: defaultdict[tuple[str, Likeness], RunAdder] = defaultdict(RunAdder)

    def add(
        self,
        facts: TurnFacts,
        way: str,
        models: tuple[str, str],
        runs: tuple[ModelRun, ...],
        before: Mapping[str, Model],
    ) -> None:
        """Add a turn, its models before and after, and its runs; `before` are the models then."""
        alike = likeness_of(facts, way)
        for run in runs:
            self._runs[run.model, alike].add(facts.tokens_for(run.model), run)
        then, now = models
        own = [run for run in runs if not run.is_shadow]
        if not own:
            self._uncalled += 1
        elif then == now:
            self._keep(own, before)
        elif not now:
            self._refused += 1
        else:
            went = _turn_sums(own)
            moved = self._moved.get((now, alike), MovedTurns())
            priced = 0 if went.unpriced else facts.tokens_for(now)
            self._moved[now, alike] = MovedTurns(moved.before + went, moved.estimated + priced)

    def _keep(self, own: list[ModelRun], before: Mapping[str, Model]) -> None:
        went = _turn_sums(own)
        self._kept += went
        if went.unpriced:
            return
        costs = [self._cost_now(run, before) for run in own]
        if None in costs:
            self._unpriced += 1
            # Its cost is compared with nothing.
            self._kept += CalledTurnSums(microusd=-went.microusd)
        else:
            self._kept_microusd += sum(each for each in costs if each is not None)

    def _cost_now(self, run: ModelRun, before: Mapping[str, Model]) -> int | None:
        """Return what a run costs at the other policy's prices; as charged where they are equal."""
        now, then = self._models.get(run.model), before.get(run.model)
        if now is None or (then is not None and then.price == now.price):
            return run.cost_microusd
        if now.price is None:
            return None
        into, cached, written, out = run.tokens
        return cost(now.price, into, out, cached, written)

    def sums(self) -> ForecastSums:
        """Return the sums so far."""
        return ForecastSums(
            self._kept,
            self._kept_microusd,
            self._unpriced,
            self._refused,
            self._uncalled,
            tuple((model, alike, each) for (model, alike), each in self._moved.items()),
            tuple((model, alike, each.sums()) for (model, alike), each in self._runs.items()),
        )


def _turn_sums(own: list[ModelRun]) -> CalledTurnSums:
    """Add up the runs of one turn."""
    costs = [run.cost_microusd for run in own]
    known = [each for each in costs if each is not None]
    is_priced = len(known) == len(costs)
    scores = [run.score for run in own if run.score is not None]
    return CalledTurnSums(
        turns=1,
        unpriced=0 if is_priced else 1,
        microusd=sum(known) if is_priced else 0,
        tokens=(
            sum(run.tokens[0] for run in own),
            sum(run.tokens[1] for run in own),
            sum(run.tokens[2] for run in own),
            sum(run.tokens[3] for run in own),
        ),
        ms=sum(run.elapsed_ms for run in own),
        failed=0 if own[0].is_answered else 1,
        scored=len(scores),
        score=sum(scores),
    )
