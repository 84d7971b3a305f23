"""Both methods, run on a ledger: every estimate comes from the code that decides about turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from quality_sets import Known, Places, Reals, Split

from pointsman.kernel.number import SCALE, Billionths, MicroUsd
from pointsman.storage.stores.patterns.evidence import EvidenceIndex
from pointsman.storage.stores.patterns.index import PatternIndex
from pointsman.storage.stores.patterns.look import Look
from pointsman.turns.learning.evidence import COMPARED, Outcomes, estimate
from pointsman.turns.learning.pattern import PatternSettings, recommend
from pointsman.turns.learning.pattern_row import PatternRow, nearest_first

# Costs of single questions are fractions of a micro-dollar: counted a thousandfold, no choice
# changes, for all of them grow alike.
COST_SCALE = 10**9
LITERAL = PatternSettings(min_confidence=Billionths(0), min_sample_size=0)


class Estimates(Struct, frozen=True):
    """What a method expects of every model on every test prompt; missing models are nan."""

    success: Reals
    cost: Reals


def evidence_index(
    known: Known, split: Split, served: Places | None, compared: int = COMPARED
) -> EvidenceIndex:
    """Learn a ledger; `served` says which outcome of each prompt is known, None that all are.

    Of more looks than `compared`, only those are that agree most in their signs.
    """
    index = EvidenceIndex(compared)
    index.add(known.looks[place] for place in split.ledger)
    index.recentre()
    index.replace(
        (known.looks[place].id, known.models[model], _outcome(known, place, model))
        for place in split.ledger
        for model in _known_models(known, place, served)
    )
    return index


def evidence_estimates(
    known: Known, split: Split, indexes: Sequence[EvidenceIndex]
) -> list[Estimates]:
    """Estimate every test prompt by the method `evidence`, from several logs of one ledger.

    Which looks are near does not depend on the log, so it is found out once.
    """
    shape = (len(split.test), len(known.models))
    found = [Estimates(np.zeros(shape), np.zeros(shape)) for _ in indexes]
    codes = {model: code for code, model in enumerate(known.models)}
    for row, place in enumerate(split.test):
        look = known.looks[place]
        first = indexes[0]
        near = first.near(first.look(look.fingerprint, look.letters, look.tokens))
        for index, estimates in zip(indexes, found, strict=True):
            for each in map(estimate, index.weigh(*near).models):
                estimates.success[row, codes[each.model]] = each.success / SCALE
                estimates.cost[row, codes[each.model]] = each.cost_microusd / COST_SCALE
    return found


def nearest_rows(
    known: Known, split: Split, logs: Sequence[Places | None], k: int = 10
) -> list[list[tuple[PatternRow, ...]]]:
    """Return the ten nearest rows of every test prompt, as 002 §5.5 asks for them, log by log."""
    index = PatternIndex()
    places = {known.looks[place].id: int(place) for place in split.ledger}
    for place in places.values():
        look = known.looks[place]
        index.add([Look(look.id, look.fingerprint, look.letters)])
    found: list[list[tuple[PatternRow, ...]]] = [[] for _ in logs]
    for place in split.test:
        look = known.looks[place]
        near = index.nearest(look.fingerprint, look.letters, k)
        for served, rows in zip(logs, found, strict=True):
            outcomes = [
                _row(known, places[name], model, name, alike)
                for name, alike in near
                for model in _known_models(known, places[name], served)
            ]
            rows.append(nearest_first(outcomes)[:k])
    return found


def nearest_estimates(known: Known, rows: Sequence[tuple[PatternRow, ...]]) -> Estimates:
    """Return the mean success and cost of each model among the nearest rows; absent ones are 0."""
    found = Estimates(*(np.zeros((len(rows), len(known.models))) for _ in range(2)))
    codes = {model: code for code, model in enumerate(known.models)}
    for place, near in enumerate(rows):
        for each in recommend(near, LITERAL).options:
            found.success[place, codes[each.model]] = (each.success or 0) / SCALE
            found.cost[place, codes[each.model]] = each.cost_microusd / COST_SCALE
    return found


def nearest_choices(
    known: Known, rows: Sequence[tuple[PatternRow, ...]], cost_weight: Billionths
) -> Places:
    """Return the model the formula ranks first, under one cost weight."""
    settings = replace(LITERAL, cost_weight=cost_weight)
    codes = {model: code for code, model in enumerate(known.models)}
    return np.array([codes[recommend(near, settings).options[0].model] for near in rows])


def _known_models(known: Known, place: int, served: Places | None) -> Sequence[int]:
    return range(len(known.models)) if served is None else (int(served[place]),)


def _outcome(known: Known, place: int, model: int) -> Outcomes:
    success = round(known.outcomes[place, model] * SCALE)
    return Outcomes.of(1, _cost(known, place, model), 1, success)


def _row(known: Known, place: int, model: int, name: str, alike: Billionths) -> PatternRow:
    return PatternRow(
        name,
        known.models[model],
        Billionths(round(known.outcomes[place, model] * SCALE)),
        MicroUsd(_cost(known, place, model)),
        1,
        alike,
    )


def _cost(known: Known, place: int, model: int) -> int:
    # Without costs, models are told apart by their place: the weak one first, then the strong.
    return model if known.costs is None else round(known.costs[place, model] * COST_SCALE)
