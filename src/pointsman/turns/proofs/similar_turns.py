"""What similar turns speak for, as variables; and recorded rows that make them speak for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from pointsman.kernel.number import ONE, ZERO, MicroUsd
from pointsman.turns.learning.evidence import evidence_of_rows
from pointsman.turns.learning.evidence_choice import weigh
from pointsman.turns.learning.pattern import PatternSettings, recommend
from pointsman.turns.learning.pattern_row import PatternRow
from pointsman.turns.proofs.solver import Model
from pointsman.turns.proofs.turn_variables import TurnVariables

Rows = tuple[PatternRow, ...]


class SimilarTurns:
    """The model that similar turns speak for, a variable for each way of weighing them."""

    def __init__(
        self, turn: TurnVariables, models: Sequence[str], known: str | None = None
    ) -> None:
        self._turn = turn
        self._models = models
        self._known = known
        self._said: dict[PatternSettings, dict[str, int]] = {}

    def literals(self, settings: PatternSettings) -> Mapping[str, int]:
        """Return the literals of the models that similar turns may speak for."""
        method = _method(settings)
        if method not in self._said:
            possible = [name for name in self._models if rows_for({method: name}) is not None]
            solver = self._turn.solver
            said = {each: solver.choice(prefers=each == self._known) for each in possible}
            solver.add_at_most_one([*said.values()])
            self._said[method] = said
        return self._said[method]

    def changes(self) -> dict[str, int]:
        """Return where similar turns speak for something else than in the known turn."""
        return {
            f"similar turns {number} {name}": -literal if name == self._known else literal
            for number, said in enumerate(self._said.values())
            for name, literal in said.items()
        }

    def choice(self, model: Model, settings: PatternSettings) -> str | None:
        """Return the model that similar turns speak for in a turn that was found."""
        literals = self._said.get(_method(settings), {})
        return next((name for name, literal in literals.items() if model[literal] > 0), None)


def rows_for(wanted: Mapping[PatternSettings, str | None]) -> Rows | None:
    """Return rows that speak for these models under these settings; None where none are found."""
    wanted = {_method(each): name for each, name in wanted.items()}
    if not any(wanted.values()):
        return ()
    for rows in _families(wanted):
        if all(recommends(rows, each) == name for each, name in wanted.items()):
            return rows
    return None


def recommends(rows: Rows, settings: PatternSettings) -> str | None:
    """Return the model that rows speak for."""
    if settings.method is UNSET:
        return recommend(rows, settings).model
    return weigh(evidence_of_rows(rows, settings.k), settings).model if rows else None


def _method(settings: PatternSettings) -> PatternSettings:
    """Return the settings that the weighing goes by."""
    return replace(settings, mode="apply", explore=UNSET, shadow=UNSET)


def _families(wanted: Mapping[PatternSettings, str | None]) -> Iterator[Rows]:
    """Yield rows of one model alone, then beside a worse one, in the sizes that settings ask for.

    One row of each, the worse one dear and never a success: the formula gives the better the whole
    score, whatever cost weighs, so where no such rows do it none do.
    """
    sizes = sorted({1, *(each.min_sample_size for each in wanted)})
    names = dict.fromkeys(name for name in wanted.values() if name is not None)
    for name in names:
        for size in sizes:
            for many in dict.fromkeys((1, size)):
                yield tuple(
                    _row(name, number, size // many, is_good=True) for number in range(many)
                )
            good = _row(name, 0, size, is_good=True)
            yield (good, replace(_row("other:model", 1, size, is_good=False)))
            for rival in names:
                if rival != name:
                    yield (good, _row(rival, 1, size, is_good=False))


def _row(name: str, number: int, size: int, *, is_good: bool) -> PatternRow:
    success, cost = (ONE, MicroUsd(0)) if is_good else (ZERO, MicroUsd(1_000_000))
    return PatternRow(f"example-{number}", name, success, cost, max(1, size), ONE)
