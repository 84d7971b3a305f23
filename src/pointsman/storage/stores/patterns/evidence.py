"""All recorded looks in memory, for `pattern.method: evidence`; equal to `turns.evidence.gathered`.

Vectors are compared as float32: the product of two looks' lengths stays below 2^24, so each partial
sum is exact, in whatever order it is added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from pointsman.storage.stores.patterns.sieve import Places, Sieve
from pointsman.turns.learning.calibration import LEAST_TRIED
from pointsman.turns.learning.evidence import (
    CANDIDATES,
    COMPARED,
    SHOWN,
    STEP,
    WEIGHTS,
    Evidence,
    ModelEvidence,
    Outcomes,
    OwnMean,
    Prior,
    all_compared,
    looks_for,
    model_evidence,
    own_means,
    shown_row,
)
from pointsman.turns.learning.evidence_arrays import (
    Floats,
    Reals,
    Whole,
    centre_of_rows,
    centred_rows,
    join_look,
    raw_looks,
    structure_part,
    text_part,
)
from pointsman.turns.learning.evidence_look import LENGTH, shown_likeness
from pointsman.turns.learning.fingerprint import Fingerprint
from pointsman.turns.learning.pattern_row import PatternRow

Short: TypeAlias = npt.NDArray[np.int16]

_WEIGHTS: Final = np.array(WEIGHTS, np.int64)
# From 460,800 numbers on OpenBLAS shares a product among threads: on busy cores each then waits for
# the other, up to a hundred times longer than one alone takes. A block of looks has fewer.
_BLOCK: Final = 512
# So many looks are kept as they are compared. More of them are kept in half the room: fetching the
# few that are compared takes longer than turning them into floats.
_KEPT_READY: Final = 2_048
# So many rows, as they are kept and as they are compared, stay near a core meanwhile.
_FETCHED: Final = 256
_KNOWN_STRUCTURES: Final = 4_096
_JUDGED, _SUCCESS, _SAMPLES, _COST = range(4)


class EvidenceLook(Struct, frozen=True):
    """A turn as this index compares it: its fingerprint, its letters, its tokens."""

    id: str
    fingerprint: Fingerprint
    letters: bytes
    tokens: bytes


LEAST_CENTRED = 64
"""From so many looks on, their common part is taken off before they are compared."""


class EvidenceIndex:
    """Looks by place, compared from a centre that stays the same between two calibrations."""

    def __init__(self, compared: int = COMPARED) -> None:
        self._compared = compared
        self._ids: list[str] = []
        self._places: dict[str, int] = {}
        self._models: list[str] = []
        self._order: list[int] = []
        self._centre: Whole = np.zeros(LENGTH, np.int64)
        self._centre_reals: Reals = np.zeros(LENGTH)
        self._has_tokens: list[bool] = []
        # Most turns of a home share their structure with many others.
        self._structures: dict[Fingerprint, Reals] = {}
        self._raw: Short = np.zeros((_BLOCK, LENGTH), np.int16)
        self._looks: Floats | Short = np.zeros((_BLOCK, LENGTH), np.float32)
        self._sieve = Sieve(_BLOCK)
        self._sums: Whole = np.zeros((_BLOCK, 4, 0), np.int64)
        self._priors: list[Prior] | None = None
        self._means: tuple[OwnMean, ...] = ()
        # Room for the rows that are compared next.
        self._taken: Floats = np.empty((_FETCHED, LENGTH), np.float32)
        self._short: Short = np.empty((_FETCHED, LENGTH), np.int16)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def centre(self) -> tuple[int, ...]:
        """The mean that is taken off every look before it is compared."""
        return tuple(self._centre.tolist())

    @property
    def ids(self) -> Sequence[str]:
        """The names of the looks, by place."""
        return self._ids

    def priors(self) -> list[Prior]:
        """Return the sums of each model over all looks, by name."""
        if self._priors is None:
            count = len(self._ids)
            totals = self._sums[:count].sum(axis=0)
            self._priors = [
                Prior(self._models[code], *(int(each) for each in totals[:, code]))
                for code in self._order
            ]
            self._means = own_means(self._priors)
        return self._priors

    @property
    def can_be_tried(self) -> bool:
        """Whether there is enough to find a threshold from."""
        return len(self._ids) >= LEAST_TRIED and len(self._models) > 1

    def judged_count(self) -> int:
        """Return how many judged samples there are."""
        return int(self._sums[: len(self._ids), _JUDGED].sum())

    def recentre(self, centre: Sequence[int] | None = None) -> None:
        """Compare from another centre: the one given, or the mean of the looks there are.

        The mean of a few is those few: the only turn would be like nothing, not even like itself.
        """
        raw = self._raw[: len(self._ids)].astype(np.int64)
        if centre is not None:
            self._centre = np.array(centre, np.int64)
        elif len(raw) < LEAST_CENTRED:
            self._centre = np.zeros(LENGTH, np.int64)
        else:
            self._centre = centre_of_rows(raw)
        self._centre_reals = self._centre.astype(np.float64)
        self._structures.clear()
        self._compare(0, raw)

    def add(self, looks: Iterable[EvidenceLook]) -> None:
        """Add looks; of a known one, only the counts of its tokens can be new."""
        given = {each.id: each for each in looks}
        self._retell([each for each in given.values() if self.has_tokens(each.id) is not None])
        fresh = [each for each in given.values() if each.id not in self._places]
        if not fresh:
            return
        start, end = len(self._ids), len(self._ids) + len(fresh)
        self._reserve(end)
        raw = _raw(fresh)
        self._raw[start:end] = raw
        self._compare(start, raw)
        self._sums[start:end] = 0
        self._places |= {each.id: place for place, each in enumerate(fresh, start)}
        self._ids += [each.id for each in fresh]
        self._has_tokens += [bool(each.tokens) for each in fresh]

    def has_tokens(self, name: str) -> bool | None:
        """Tell whether a look has tokens; None where it is not known."""
        place = self._places.get(name)
        return None if place is None else self._has_tokens[place]

    def _retell(self, looks: Sequence[EvidenceLook]) -> None:
        """Compare looks anew whose tokens came, or went."""
        for each in looks:
            place, has_tokens = self._places[each.id], bool(each.tokens)
            if has_tokens is not self._has_tokens[place]:
                raw = _raw([each])
                self._raw[place] = raw[0]
                self._compare(place, raw)
                self._has_tokens[place] = has_tokens

    def keep(self, names: set[str]) -> None:
        """Remove every look but these."""
        kept = [place for place, name in enumerate(self._ids) if name in names]
        if len(kept) == len(self._ids):
            return
        count = len(kept)
        self._raw[:count] = self._raw[kept]
        self._compare(0, self._raw[:count].astype(np.int64))
        self._sums[:count] = self._sums[kept]
        self._ids = [self._ids[place] for place in kept]
        self._has_tokens = [self._has_tokens[place] for place in kept]
        self._places = {name: place for place, name in enumerate(self._ids)}
        self._priors = None

    def remove(self, names: Iterable[str]) -> None:
        """Remove looks: the last one takes the place of each, so that the others stay in theirs."""
        for name in names:
            place = self._places.pop(name, None)
            if place is None:
                continue
            last = len(self._ids) - 1
            moved, has_tokens = self._ids.pop(), self._has_tokens.pop()
            if place < last:
                self._ids[place], self._has_tokens[place] = moved, has_tokens
                self._places[moved] = place
                for rows in (self._raw, self._looks, self._sums):
                    rows[place] = rows[last]
                self._sieve.move(last, place)
            self._priors = None

    def replace(self, rows: Iterable[tuple[str, str, Outcomes]]) -> None:
        """Replace the outcomes of models on looks."""
        for name, model, found in rows:
            place, code = self._places[name], self._code(model)
            self._sums[place, :, code] = (found.judged, found.success, found.samples, found.cost)
        self._priors = None

    def clear(self) -> None:
        """Reset the sums of the models' results; keep the looks."""
        self._sums[...] = 0
        self._priors = None

    def look(self, fingerprint: Fingerprint, letters: bytes, tokens: bytes) -> Floats:
        """Return a turn's look, ready to be compared."""
        structure = self._structures.get(fingerprint)
        if structure is None:
            if len(self._structures) >= _KNOWN_STRUCTURES:
                self._structures.clear()
            structure = structure_part(fingerprint, self._centre_reals)
            self._structures[fingerprint] = structure
        return join_look(text_part(letters, tokens, self._centre_reals), structure)

    def look_at(self, place: int) -> Floats:
        """Return the look at a place."""
        found: Floats = self._looks[place].astype(np.float32)
        return found

    def evidence(self, look: Floats, k: int = 0, without: int = -1) -> Evidence:
        """Weigh the k most similar looks, `without` the one at a place; as `gathered` does it."""
        if len(self._ids) - (without >= 0) < 1:
            return Evidence((), 0, ())
        return self.weigh(*self.near(look, k, without), without)

    def near(self, look: Floats, k: int = 0, without: int = -1) -> tuple[Places, Whole]:
        """Return the places of the k most similar looks, and how alike they are."""
        wanted = min(k or looks_for(len(self._models)), len(self._ids) - (without >= 0))
        places = self._candidates(look, wanted + (without >= 0))
        products = self._products(look, places)
        if without >= 0:
            products[places == without] = -np.inf
        bar = np.partition(products, len(products) - wanted)[len(products) - wanted]
        found = (products >= bar).nonzero()[0]
        return places.take(found), products.take(found).astype(np.int64)

    def weigh(self, near: Places, alike: Whole, without: int = -1) -> Evidence:
        """Weigh looks by how alike they are."""
        steps = (alike.max() - alike) // STEP
        weights = _WEIGHTS.take(steps, mode="clip")
        return Evidence(
            models=self._model_evidence(near, weights, without),
            looks=len(near),
            nearest=tuple(self._nearest(near, alike)),
        )

    def _candidates(self, look: Floats, k: int) -> Places:
        """Return the places worth comparing, as `turns.evidence.candidates` does."""
        count = len(self._ids)
        if count <= all_compared(k, self._compared):
            return np.arange(count)
        return self._sieve.candidates(look, count, CANDIDATES * k)

    def _products(self, look: Floats, places: Places) -> Floats:
        found = np.empty(len(places), np.float32)
        is_all = len(places) == len(self._ids)
        is_ready = is_all and self._looks.dtype == np.float32
        step = _BLOCK if is_ready else _FETCHED
        for start in range(0, len(places), step):
            end = min(len(places), start + step)
            rows = self._looks[start:end] if is_all else self._fetch(places[start:end])
            np.dot(self._ready(rows), look, out=found[start:end])
        return found

    def _fetch(self, places: Places) -> Floats | Short:
        room = self._taken if self._looks.dtype == np.float32 else self._short
        # `clip` only says that no place is checked: all of them are there.
        found: Floats | Short = self._looks.take(places, 0, room[: len(places)], "clip")
        return found

    def _ready(self, rows: Floats | Short) -> Floats:
        if rows.dtype == np.float32:
            return rows  # type: ignore[return-value] # as its kind of number says
        found = self._taken[: len(rows)]
        found[...] = rows
        return found

    def _compare(self, start: int, raw: Whole) -> None:
        """Put looks where they are compared, from a place on."""
        for low in range(0, len(raw), _BLOCK):
            rows = centred_rows(raw[low : low + _BLOCK], self._centre)
            first, last = start + low, start + low + len(rows)
            self._looks[first:last] = rows
            self._sieve.set_signs(first, rows)

    def _model_evidence(
        self, near: Places, weights: Whole, without: int
    ) -> tuple[ModelEvidence, ...]:
        found = self._sums.take(near, axis=0)
        judged = found[:, _JUDGED]
        sums = (weights @ found.reshape(len(near), -1)).reshape(found.shape[1:])
        weight, success, samples, cost = (column.tolist() for column in sums)
        squares = ((weights * weights) @ judged).tolist()
        # Float32 counts exactly up to 2^24: more than there ever are.
        rows = ((weights > 0).astype(np.float32) @ (judged > 0).astype(np.float32)).tolist()
        return tuple(
            model_evidence(
                own,
                rows=int(rows[code]),
                weight=weight[code],
                square=squares[code],
                success=success[code],
                cost_weight=samples[code],
                cost=cost[code],
            )
            for code, own in zip(self._order, self._means_without(without), strict=True)
        )

    def _means_without(self, place: int) -> tuple[OwnMean, ...]:
        if place >= 0:
            return own_means(self._priors_without(place))
        self.priors()
        return self._means

    def _priors_without(self, place: int) -> list[Prior]:
        own = self._sums[place].tolist()
        return [
            Prior(
                each.model,
                each.judged - own[_JUDGED][code],
                each.success - own[_SUCCESS][code],
                each.samples - own[_SAMPLES][code],
                each.cost - own[_COST][code],
            )
            for code, each in zip(self._order, self.priors(), strict=True)
        ]

    def _nearest(self, near: Places, alike: Whole) -> list[PatternRow]:
        """Return the first rows, the most alike first, then by name and model."""
        if len(near) > SHOWN:
            bar = np.partition(alike, len(alike) - SHOWN)[len(alike) - SHOWN]
            shown = (alike >= bar).nonzero()[0]
            near, alike = near.take(shown), alike.take(shown)
        places = near.tolist()
        names = [self._ids[place] for place in places]
        found = sorted(zip((-alike).tolist(), names, places, strict=True))
        rows: list[PatternRow] = []
        for negative, name, place in found[:SHOWN]:
            if len(rows) >= SHOWN:
                break
            likeness = shown_likeness(-negative)
            columns = self._sums[place].T.tolist()
            for code in self._order:
                each = Outcomes(*columns[code])
                if each.samples or each.judged:
                    rows.append(shown_row(name, self._models[code], each, likeness))
        return rows[:SHOWN]

    def outcomes(self, place: int) -> Mapping[str, Outcomes]:
        """Return what each model did on the look at a place."""
        columns = self._sums[place].T.tolist()
        return {
            self._models[code]: Outcomes(*numbers)
            for code, numbers in enumerate(columns)
            if numbers[_SAMPLES] or numbers[_JUDGED]
        }

    def _code(self, model: str) -> int:
        if model not in self._models:
            self._models.append(model)
            more = np.zeros((len(self._sums), 4, 1), np.int64)
            self._sums = np.concatenate([self._sums, more], axis=2)
            self._order = sorted(range(len(self._models)), key=self._models.__getitem__)
            self._priors = None
        return self._models.index(model)

    def _reserve(self, wanted: int) -> None:
        """Make room, at least twice as much as there was."""
        held, count = len(self._raw), len(self._ids)
        if wanted <= held:
            return
        room = max(wanted, 2 * held)
        raw, looks, sums = self._raw, self._looks, self._sums
        self._raw = np.zeros((room, LENGTH), np.int16)
        self._looks = _room(room)
        self._sums = np.zeros((room, 4, len(self._models)), np.int64)
        self._raw[:count] = raw[:count]
        self._looks[:count] = looks[:count]
        self._sieve.reserve(room, count)
        self._sums[:count] = sums[:count]


def _raw(looks: Sequence[EvidenceLook]) -> Whole:
    return raw_looks(
        [each.fingerprint for each in looks],
        [each.letters for each in looks],
        [each.tokens for each in looks],
    )


def _room(rows: int) -> Floats | Short:
    if rows <= _KEPT_READY:
        return np.zeros((rows, LENGTH), np.float32)
    return np.zeros((rows, LENGTH), np.int16)
