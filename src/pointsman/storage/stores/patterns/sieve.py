"""Which looks are worth comparing with one, by their signs: `turns.evidence.candidates`, fast."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pointsman.turns.learning.evidence_arrays import Floats, Whole
from pointsman.turns.learning.evidence_look import HEARD, LENGTH, LETTERS, LOUD, TOKENS

Words: TypeAlias = npt.NDArray[np.uint64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Counts: TypeAlias = Bytes | npt.NDArray[np.uint16]
Places: TypeAlias = npt.NDArray[np.intp]

_WORDS: Final = -(-LENGTH // 64)
_BITS: Final = 64 * _WORDS
# Letters come last here: where there are tokens, those after the first few are not needed.
# INVARIANT: so many fill whole words, as the tokens do.
_REST: Final = LENGTH - LETTERS
_FEW_WORDS: Final = (_REST + HEARD) // 64
_TOKEN_WORDS: Final = TOKENS // 64
_LOUD: Final = np.array((*LOUD[LETTERS:], *LOUD[:LETTERS]), np.float32)
# So many looks are sieved at once at most: they stay in a core's own cache.
_AT_ONCE: Final = 12_288
# Rows that lie a power of two apart would fall into the same lines of it.
_APART: Final = 8
_MOST_IN_A_BYTE: Final = 255
_GUESSED_FROM: Final = 512


class Sieve:
    """The signs of looks by place, a bit each: one row for every 64 numbers, a column a look."""

    def __init__(self, room: int) -> None:
        self._signs: Words = np.zeros((_WORDS, room), np.uint64)
        # Room to work in: the bits of one look, and where others differ from it.
        self._bits: npt.NDArray[np.bool_] = np.zeros((2, _BITS), np.bool_)
        self._differing: Words = np.empty((_WORDS, 0), np.uint64)
        self._counted: Bytes = np.empty((_WORDS, 0), np.uint8)

    def reserve(self, room: int, count: int) -> None:
        """Make room, and keep the first looks, so many."""
        signs = self._signs
        self._signs = np.zeros((_WORDS, room), np.uint64)
        self._signs[:, :count] = signs[:, :count]

    def set_signs(self, start: int, looks: Whole) -> None:
        """Put the signs of looks at their places, from one on."""
        bits = np.zeros((len(looks), _BITS), np.bool_)
        np.greater(looks[:, LETTERS:], 0, bits[:, :_REST])
        np.greater(looks[:, :LETTERS], 0, bits[:, _REST:LENGTH])
        self._signs[:, start : start + len(looks)] = np.packbits(bits, axis=1).view(np.uint64).T

    def move(self, start: int, end: int) -> None:
        """Put the signs of one place in another."""
        self._signs[:, end] = self._signs[:, start]

    def candidates(self, look: Floats, count: int, wanted: int) -> Places:
        """Return the places that disagree least, with all that tie for the last place."""
        counts, most = self._disagreements(look, count)
        bar = _guess(counts, wanted)
        found = counts <= bar
        # Looking again is quicker than sorting, or than counting how many disagree how much.
        while bar < most and np.count_nonzero(found) < wanted:
            bar += 1
            found = counts <= bar
        while bar > 0 and np.count_nonzero(fewer := counts < bar) >= wanted:
            bar, found = bar - 1, fewer
        return found.nonzero()[0]

    def _disagreements(self, look: Floats, count: int) -> tuple[Counts, int]:
        """Count how much each disagrees with a look; tell also how much one can at most."""
        own, loud, most = self._words(look)
        used = len(own)
        found = _nothing_counted(count, most)
        for start, end in self._parts(count):
            differing = self._differing[:used, : end - start]
            counted = self._counted[:used, : end - start]
            np.bitwise_xor(self._signs[:used, start:end], own, differing)
            np.bitwise_and(differing, loud, differing)
            np.bitwise_count(differing, counted)
            np.add.reduce(counted, axis=0, dtype=found.dtype, out=found[start:end])
        return found, most

    def _words(self, look: Floats) -> tuple[Words, Words, int]:
        """Return the signs of a look, where it is `loud`, and in how many places that is."""
        turned = np.concatenate((look[LETTERS:], look[:LETTERS]))
        signs, loud = self._bits
        np.greater(turned, 0, signs[:LENGTH])
        np.greater(np.abs(turned, turned), _LOUD, loud[:LENGTH])
        words = np.packbits(self._bits).view(np.uint64)
        heard = words[_WORDS:]
        used = _FEW_WORDS if np.count_nonzero(heard[:_TOKEN_WORDS]) else _WORDS
        return words[:used, None], heard[:used, None], int(np.count_nonzero(loud[: 64 * used]))

    def _parts(self, count: int) -> list[tuple[int, int]]:
        """Split looks into parts of the same size, as few as there is room for."""
        step = -(-count // -(-count // _AT_ONCE))
        if self._differing.shape[1] < step:
            self._differing = np.empty((_WORDS, step + _APART), np.uint64)
            self._counted = np.empty((_WORDS, step + _APART), np.uint8)
        return [(start, min(count, start + step)) for start in range(0, count, step)]


def _nothing_counted(count: int, most: int) -> Counts:
    """Return room for counts, in which a byte each is most often enough."""
    if most <= _MOST_IN_A_BYTE:
        return np.empty(count, np.uint8)
    return np.empty(count, np.uint16)


def _guess(counts: Counts, wanted: int) -> int:
    """Guess the bar below which so many are, from a few."""
    few = np.sort(counts[:: -(-len(counts) // _GUESSED_FROM)])
    return int(few[len(few) * wanted // len(counts)])
