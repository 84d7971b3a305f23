"""`evidence_look` for many turns at once; equal to it, number for number.

Not imported by `decide`: numpy takes longer to load than most commands take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pointsman.turns.evidence_look import (
    CENTRE_UNIT,
    LENGTH,
    LETTERS,
    STRUCTURE,
    STRUCTURE_REACH,
    TEXT_REACH,
    TOKENS,
    UNIT,
    normal,
    structure_counts,
)
from pointsman.turns.fingerprint import DIMENSIONS, Fingerprint

Whole: TypeAlias = npt.NDArray[np.int64]

# DETERMINISM: a double gives these numbers to within 1e-9. Where that leaves open which way one
# rounds, its row is computed in whole numbers.
_UNSURE = 1e-6
_TEXT = LETTERS + TOKENS
_STARTS = np.array([0, LETTERS, _TEXT])
_SIZES = np.array([LETTERS, TOKENS, STRUCTURE])
_UNITS = np.full(LENGTH, float(UNIT))
_REACHES = np.full(LENGTH, float(TEXT_REACH))


def raw_looks(
    fingerprints: Sequence[Fingerprint], letters: Sequence[bytes], tokens: Sequence[bytes]
) -> Whole:
    """Give the raw looks of turns, a row each."""
    looks = np.zeros((len(fingerprints), LENGTH), np.int64)
    looks[:, :LETTERS] = normal_rows(_folded(_signed_rows(letters, DIMENSIONS)), UNIT)
    looks[:, LETTERS:_TEXT] = normal_rows(_signed_rows(tokens, TOKENS), UNIT)
    counts = np.array([structure_counts(each) for each in fingerprints], np.int64)
    looks[:, _TEXT:] = normal_rows(counts.reshape(-1, STRUCTURE), UNIT)
    return looks


def centre_of_rows(looks: Whole) -> Whole:
    """Give the mean of raw looks, in sixteenths, rounded half to even."""
    count = max(1, len(looks))
    total = CENTRE_UNIT * looks.sum(axis=0)
    quotient: Whole = total // count
    twice = 2 * (total - quotient * count)
    quotient += (twice > count) | ((twice == count) & (quotient & 1 == 1))
    return quotient


def centred_rows(looks: Whole, centre: Whole) -> Whole:
    """Take the centre off raw looks, and give each part its reach; an empty part stays empty."""
    found = np.zeros_like(looks)
    for start, end in ((0, LETTERS), (LETTERS, _TEXT), (_TEXT, LENGTH)):
        part = looks[:, start:end]
        is_there = part.any(axis=1, keepdims=True)
        off = np.where(is_there, CENTRE_UNIT * part - centre[start:end], 0)
        found[:, start:end] = normal_rows(off, TEXT_REACH) if end <= _TEXT else _reached(off)
    return found


def look_of(fingerprint: Fingerprint, letters: bytes, tokens: bytes, centre: Whole) -> Whole:
    """Give the centred look of one turn: `centred_rows` of its `raw_looks`, in fewer steps."""
    parts = np.zeros(LENGTH, np.int64)
    if len(letters) == DIMENSIONS:
        parts[:LETTERS] = _folded(np.frombuffer(letters, np.int8).astype(np.int64)[None, :])[0]
    if len(tokens) == TOKENS:
        parts[LETTERS:_TEXT] = np.frombuffer(tokens, np.int8)
    parts[_TEXT:] = structure_counts(fingerprint)
    raw = _normal_parts(parts, _UNITS)
    is_there = np.maximum.reduceat(np.abs(raw), _STARTS) > 0
    off = np.where(is_there.repeat(_SIZES), CENTRE_UNIT * raw - centre, 0)
    found = _normal_parts(off, _REACHES)
    found[_TEXT:] = _reached(off[_TEXT:])
    return found


def _normal_parts(whole: Whole, reaches: npt.NDArray[np.float64]) -> Whole:
    """Give each part of a look its reach; the same numbers as `normal`, part by part."""
    squares = np.add.reduceat(whole * whole, _STARTS)
    exact = whole * reaches / np.sqrt(np.maximum(squares, 1)).repeat(_SIZES)
    found: Whole = np.rint(exact).astype(np.int64)
    if (np.abs(np.abs(exact - np.trunc(exact)) - 0.5) < _UNSURE).any():
        for start, size, reach in zip(_STARTS, _SIZES, reaches[_STARTS], strict=True):
            part = whole[start : start + size].tolist()
            found[start : start + size] = normal(part, int(reach))
    return found


def normal_rows(rows: Whole, reach: int) -> Whole:
    """Give each row this length, each number rounded half to even; zero rows stay zero."""
    squares = np.einsum("ij,ij->i", rows, rows)
    exact = rows * float(reach) / np.sqrt(np.maximum(squares, 1))[:, None]
    found: Whole = np.rint(exact).astype(np.int64)
    unsure = np.abs(np.abs(exact - np.trunc(exact)) - 0.5) < _UNSURE
    if unsure.any():
        for place in np.flatnonzero(unsure.any(axis=1)).tolist():
            found[place] = normal(rows[place].tolist(), reach)
    return found


def _reached(off: Whole) -> Whole:
    # The divisor is a power of two: the quotient is exact, and rint rounds half to even.
    found: Whole = np.rint(off * STRUCTURE_REACH / (CENTRE_UNIT * UNIT)).astype(np.int64)
    return found


def _folded(whole: Whole) -> Whole:
    found = whole[:, :LETTERS].copy()
    for start in range(LETTERS, DIMENSIONS, LETTERS):
        part = whole[:, start : start + LETTERS]
        found[:, : part.shape[1]] += part
    return found


def _signed_rows(vectors: Sequence[bytes], length: int) -> Whole:
    whole = b"".join(each if len(each) == length else bytes(length) for each in vectors)
    return np.frombuffer(whole, np.int8).reshape(len(vectors), length).astype(np.int64)
