"""All fingerprints in memory, compared with one at once; equal to `likeness`, number for number.

Vectors are compared as float32: with 1,024 numbers up to 127 every partial sum stays below 2^24, so
it is exact in whatever order it is added up.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pointsman.kernel.number import SCALE, Billionths
from pointsman.storage.stores.patterns.look import Look
from pointsman.turns.learning.fingerprint import (
    ALPHA,
    BUCKET_WEIGHT,
    DIMENSIONS,
    IMAGES_WEIGHT,
    SET_WEIGHTS,
    WORKLOAD,
    Fingerprint,
    cosine_of,
)

Whole: TypeAlias = npt.NDArray[np.int64]

_FIRST_CAPACITY = 256
_WORN = 1_024
# From 460,800 numbers on OpenBLAS shares a product among threads: on busy cores each then waits for
# the other, up to a hundred times longer than one alone takes.
_MOST_CELLS = 400_000
# DETERMINISM: a double gives a cosine in billionths to within 1e-6. Where that leaves open which
# way it rounds, it is computed in whole numbers.
_UNSURE = 1e-5
_PREFIX = len("sha256:")


class PatternIndex:
    """Fingerprints by place: rows are appended, and the last one fills the gap of one removed."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._places: dict[str, int] = {}
        self._removed = 0
        self._sets = _Sets()
        self._workload_codes: dict[str, int] = {}
        self._make(_FIRST_CAPACITY)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def is_worn(self) -> bool:
        """Whether so much was removed that it is worth building anew."""
        return self._removed > max(_WORN, len(self._ids))

    def add(self, looks: Iterable[Look]) -> None:
        """Add fingerprints, but for those that are there."""
        fresh = {look.id: look for look in looks if look.id not in self._places}
        start = len(self._ids)
        self._reserve(start + len(fresh))
        for place, (name, look) in enumerate(fresh.items(), start):
            self._ids.append(name)
            self._places[name] = place
            self._set_look(place, look)
        if fresh:
            self._put_vectors(start, [look.vector for look in fresh.values()])

    def remove(self, name: str) -> None:
        """Remove a fingerprint, if it is there."""
        place = self._places.pop(name, None)
        if place is None:
            return
        last = len(self._ids) - 1
        for column in self._columns():
            column[..., place] = column[..., last]
        moved = self._ids.pop()
        if place != last:
            self._ids[place] = moved
            self._places[moved] = place
        self._removed += 1

    def nearest(
        self, fingerprint: Fingerprint, vector: bytes, k: int
    ) -> list[tuple[str, Billionths]]:
        """Return the k fingerprints most like this one, the most similar first, then by id."""
        if k < 1 or not self._ids:
            return []
        alike = self.similarities(fingerprint, vector)
        found = [(-int(alike[place]), self._ids[place]) for place in self._best(alike, k)]
        return [(name, Billionths(-negative)) for negative, name in sorted(found)[:k]]

    def similarities(self, fingerprint: Fingerprint, vector: bytes) -> Whole:
        """Return the likeness of every fingerprint to this one, in billionths, by place."""
        structural = self._structural(fingerprint)
        if len(vector) != DIMENSIONS:
            return structural
        count = len(self._ids)
        hybrid = _blend(ALPHA, self._cosines(np.frombuffer(vector, np.int8)), structural)
        return np.where(self._has_vector[:count], hybrid, structural)

    def names(self) -> list[str]:
        """Return the ids by place."""
        return list(self._ids)

    def _best(self, alike: Whole, k: int) -> list[int]:
        """Return places that surely hold the k best; of those that tie for the last, few more."""
        if k >= len(alike):
            return list(range(len(alike)))
        bar = np.partition(alike, len(alike) - k)[len(alike) - k]
        above, level = np.flatnonzero(alike > bar), np.flatnonzero(alike == bar)
        open_places = k - len(above)
        if len(level) > open_places:
            keys = self._keys[level]
            level = level[keys <= np.partition(keys, open_places - 1)[open_places - 1]]
        return [*above.tolist(), *level.tolist()]

    def _structural(self, fingerprint: Fingerprint) -> Whole:
        count = len(self._ids)
        bucket = self._buckets[:count] == fingerprint.estimated_input_tokens_bucket
        images = self._images[:count] == fingerprint.has_images
        total: Whole = bucket * BUCKET_WEIGHT + images * IMAGES_WEIGHT
        total += self._sets.shares(fingerprint).take(self._set_codes[:, :count]).sum(axis=0)
        if fingerprint.workload_id is None:
            return total
        workloads = self._workloads[:count]
        code = self._workload_codes.get(fingerprint.workload_id, -1)
        same = (workloads == code).astype(np.int64) * SCALE
        return np.where(workloads == 0, total, _blend(WORKLOAD, same, total))

    def _cosines(self, vector: npt.NDArray[np.int8]) -> Whole:
        """Return the cosine with every vector, 0 where it is negative."""
        count = len(self._ids)
        dots = np.maximum(self._dots(vector), 0.0)
        own = int(np.square(vector, dtype=np.int32).sum())
        squares = np.maximum(self._squares[:count] * float(own), 1.0)
        exact = dots * SCALE / np.sqrt(squares)
        rounded = np.rint(exact).astype(np.int64)
        for place in np.flatnonzero(np.abs(exact - np.floor(exact) - 0.5) < _UNSURE).tolist():
            rounded[place] = cosine_of(int(dots[place]), own, int(self._squares[place]))
        return rounded

    def _dots(self, vector: npt.NDArray[np.int8]) -> npt.NDArray[np.float64]:
        # Most numbers of a short text's vector are 0: only the rows of the others are read, in
        # blocks that stay in the cache as float32.
        count = len(self._ids)
        used = np.flatnonzero(vector)
        weights = vector[used].astype(np.float32)
        dots = np.empty(count, np.float64)
        step = min(count, _MOST_CELLS // max(1, len(used)))
        block = np.empty((len(used), step), np.float32)
        for start in range(0, count, step):
            part = block[:, : min(step, count - start)]
            part[...] = self._vectors[used, start : start + part.shape[1]]
            dots[start : start + step] = weights @ part
        return dots

    def _workload_code(self, workload: str | None) -> int:
        if workload is None:
            return 0
        return self._workload_codes.setdefault(workload, len(self._workload_codes) + 1)

    def _set_look(self, place: int, look: Look) -> None:
        fingerprint = look.fingerprint
        self._keys[place] = int(look.id[_PREFIX : _PREFIX + 16], 16)
        self._buckets[place] = fingerprint.estimated_input_tokens_bucket
        self._images[place] = fingerprint.has_images
        self._workloads[place] = self._workload_code(fingerprint.workload_id)
        self._set_codes[:, place] = self._sets.codes(fingerprint)

    def _put_vectors(self, start: int, vectors: Sequence[bytes]) -> None:
        end = start + len(vectors)
        whole = b"".join(vector or bytes(DIMENSIONS) for vector in vectors)
        rows = np.frombuffer(whole, np.int8).reshape(len(vectors), DIMENSIONS)
        self._vectors[:, start:end] = rows.T
        self._squares[start:end] = np.square(rows, dtype=np.int32).sum(axis=1)
        self._has_vector[start:end] = [bool(vector) for vector in vectors]

    def _reserve(self, wanted: int) -> None:
        """Make room, at least twice as much as there was."""
        if wanted <= len(self._keys):
            return
        count, old = len(self._ids), self._columns()
        self._make(max(wanted, 2 * len(self._keys)))
        for column, kept in zip(self._columns(), old, strict=True):
            column[..., :count] = kept[..., :count]

    def _make(self, capacity: int) -> None:
        self._keys = np.zeros(capacity, np.uint64)
        self._vectors = np.zeros((DIMENSIONS, capacity), np.int8)
        self._squares = np.zeros(capacity, np.float64)
        self._has_vector = np.zeros(capacity, np.bool_)
        self._buckets = np.zeros(capacity, np.int8)
        self._images = np.zeros(capacity, np.bool_)
        self._workloads = np.zeros(capacity, np.int32)
        self._set_codes = np.zeros((len(SET_WEIGHTS), capacity), np.int32)

    def _columns(self) -> list[npt.NDArray[np.generic]]:
        return [
            self._keys,
            self._vectors,
            self._squares,
            self._has_vector,
            self._buckets,
            self._images,
            self._workloads,
            self._set_codes,
        ]


class _Sets:
    """The different sets the fields have had, each under a number, with their members in a row."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, tuple[str, ...]], int] = {}
        self._words: dict[tuple[str, str], int] = {}
        self._starts = array("q")
        self._sizes = array("q")
        self._fields = array("q")
        # Each set begins with the word 0, which no set has: none is empty when they are summed up.
        self._members = array("q")

    def codes(self, fingerprint: Fingerprint) -> list[int]:
        """Return the numbers of a fingerprint's sets."""
        return [
            self._code(field, name, getattr(fingerprint, name))
            for field, name in enumerate(SET_WEIGHTS)
        ]

    def shares(self, fingerprint: Fingerprint) -> Whole:
        """Return the share of every set with the same field of this fingerprint, by number."""
        given = [(name, getattr(fingerprint, name)) for name in SET_WEIGHTS]
        words = [self._words.get((name, word), 0) for name, members in given for word in members]
        is_shared = np.zeros(len(self._words) + 1, np.int64)
        is_shared[words] = 1
        is_shared[0] = 0
        shared = np.add.reduceat(is_shared.take(np.array(self._members)), np.array(self._starts))
        fields = np.array(self._fields)
        sizes = np.array([len(members) for _, members in given])
        either = sizes.take(fields) + np.array(self._sizes) - shared
        weights = np.array([*SET_WEIGHTS.values()]).take(fields)
        return np.where(
            either == 0, weights, _divide_rounding(shared * weights, np.maximum(either, 1))
        )

    def _code(self, field: int, name: str, members: tuple[str, ...]) -> int:
        found = self._codes.setdefault((name, members), len(self._codes))
        if found == len(self._starts):
            self._starts.append(len(self._members))
            self._sizes.append(len(members))
            self._fields.append(field)
            words = [self._words.setdefault((name, word), len(self._words) + 1) for word in members]
            self._members.extend([0, *words])
        return found


def _blend(part: Billionths, first: Whole, second: Whole) -> Whole:
    return _divide_rounding(first * part + second * (SCALE - part), SCALE)


def _divide_rounding(numerator: Whole, denominator: Whole | int) -> Whole:
    """Divide numbers that are not negative, rounding half to even."""
    quotient: Whole = numerator // denominator
    twice = 2 * (numerator - quotient * denominator)
    is_up = (twice > denominator) | ((twice == denominator) & (quotient & 1 == 1))
    quotient += is_up
    return quotient
