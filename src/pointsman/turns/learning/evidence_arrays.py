"""`evidence_look` for many turns at once; equal to it, number for number.

Not imported by `decide`: numpy takes longer to load than most commands take.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pointsman.turns.learning.evidence_look import (
    CENTRE_UNIT,
    LENGTH,
    LETTERS,
    STRUCTURE,
    STRUCTURE_REACH,
    TEXT_REACH,
    TOKENS,
    UNIT,
    normal,
    scale_to_length,
    structure_counts,
)
from pointsman.turns.learning.fingerprint import DIMENSIONS, Fingerprint

Whole: TypeAlias = npt.NDArray[np.int64]
Reals: TypeAlias = npt.NDArray[np.float64]
Floats: TypeAlias = npt.NDArray[np.float32]

UNSURE: Final = 1e-6
"""DETERMINISM: a double gives these numbers to within 1e-9. Where it comes so near to a half that
this leaves open which way it rounds, the number is computed in whole numbers."""

_TEXT = LETTERS + TOKENS
_REST = DIMENSIONS - 2 * LETTERS


def raw_looks(
    fingerprints: Sequence[Fingerprint], letters: Sequence[bytes], tokens: Sequence[bytes]
) -> Whole:
    """Return the raw looks of turns, a row each."""
    looks = np.zeros((len(fingerprints), LENGTH), np.int64)
    looks[:, :LETTERS] = normal_rows(_fold(_signed_rows(letters, DIMENSIONS)), UNIT)
    looks[:, LETTERS:_TEXT] = normal_rows(_signed_rows(tokens, TOKENS), UNIT)
    counts = np.array([structure_counts(each) for each in fingerprints], np.int64)
    looks[:, _TEXT:] = normal_rows(counts.reshape(-1, STRUCTURE), UNIT)
    return looks


def centre_of_rows(looks: Whole) -> Whole:
    """Return the mean of raw looks, in sixteenths, rounded half to even."""
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
        found[:, start:end] = (
            normal_rows(off, TEXT_REACH) if end <= _TEXT else _scale_structure(off)
        )
    return found


def join_look(text: Reals, structure: Reals) -> Floats:
    """Put the parts of a look side by side."""
    found = np.empty(LENGTH, np.float32)
    found[:_TEXT] = text
    found[_TEXT:] = structure
    return found


def text_part(letters: bytes, tokens: bytes, centre: Reals | Whole) -> Reals:
    """Return letters and tokens of a centred look."""
    raw, has_letters, has_tokens = _normal_halves(_text_row(letters, tokens), UNIT)
    raw *= CENTRE_UNIT
    raw -= centre[:_TEXT]
    if not has_letters:
        raw[:LETTERS] = 0
    if not has_tokens:
        raw[LETTERS:] = 0
    return _normal_halves(raw, TEXT_REACH)[0]


def structure_part(fingerprint: Fingerprint, centre: Reals | Whole) -> Reals:
    """Return the structure of a centred look."""
    structure = _structure_row(fingerprint)
    if not structure.any():
        return structure
    return _scale_structure(CENTRE_UNIT * structure - centre[_TEXT:])


def _text_row(letters: bytes, tokens: bytes) -> Reals:
    """Put letters, folded, and tokens side by side; a vector of another length counts as none."""
    found = np.zeros(_TEXT)
    if len(letters) == DIMENSIONS:
        whole = np.frombuffer(letters, np.int8).astype(np.float64)
        np.add(whole[:LETTERS], whole[LETTERS : 2 * LETTERS], found[:LETTERS])
        found[:_REST] += whole[2 * LETTERS :]
    if len(tokens) == TOKENS:
        found[LETTERS:] = np.frombuffer(tokens, np.int8)
    return found


def _normal_halves(row: Reals, reach: int) -> tuple[Reals, bool, bool]:
    """Return letters and tokens this length; tell whether each is more than zeros."""
    letters, tokens = row[:LETTERS], row[LETTERS:]
    squares = float(letters @ letters), float(tokens @ tokens)
    has_letters, has_tokens = squares[0] > 0, squares[1] > 0
    exact = np.empty(_TEXT)
    np.multiply(letters, reach / sqrt(squares[0]) if has_letters else 0.0, exact[:LETTERS])
    np.multiply(tokens, reach / sqrt(squares[1]) if has_tokens else 0.0, exact[LETTERS:])
    found: Reals = np.rint(exact)
    for place in _unsure(exact, found):
        found[place] = scale_to_length(int(row[place]), reach, int(squares[place >= LETTERS]))
    return found, has_letters, has_tokens


def _structure_row(fingerprint: Fingerprint) -> Reals:
    """Return the raw structure of a turn."""
    return normal_row(np.array(structure_counts(fingerprint), np.float64), UNIT)


def normal_row(row: Reals, reach: int) -> Reals:
    """Return a row of whole numbers this length, each rounded half to even; a zero row as it is."""
    square = float(row @ row)
    if not square:
        return row
    exact = row * (reach / sqrt(square))
    found: Reals = np.rint(exact)
    for place in _unsure(exact, found):
        found[place] = scale_to_length(int(row[place]), reach, int(square))
    return found


def _unsure(exact: Reals, found: Reals) -> list[int]:
    """Return the places where a double leaves open which way it rounds; `exact` is used up."""
    exact -= found
    np.abs(exact, exact)
    if np.maximum.reduce(exact) <= 0.5 - UNSURE:
        return []
    return np.flatnonzero(exact > 0.5 - UNSURE).tolist()


def normal_rows(rows: Whole, reach: int) -> Whole:
    """Return each row this length, each number rounded half to even; zero rows stay zero."""
    squares = np.einsum("ij,ij->i", rows, rows)
    exact = rows * float(reach) / np.sqrt(np.maximum(squares, 1))[:, None]
    found: Whole = np.rint(exact).astype(np.int64)
    unsure = np.abs(np.abs(exact - np.trunc(exact)) - 0.5) < UNSURE
    if unsure.any():
        for place in np.flatnonzero(unsure.any(axis=1)).tolist():
            found[place] = normal(rows[place].tolist(), reach)
    return found


def _scale_structure(off: Reals | Whole) -> Reals:
    # The divisor is a power of two: the quotient is exact, and rint rounds half to even.
    found: Reals = np.rint(off * STRUCTURE_REACH / (CENTRE_UNIT * UNIT))
    return found


def _fold(whole: Whole) -> Whole:
    found = whole[:, :LETTERS].copy()
    for start in range(LETTERS, DIMENSIONS, LETTERS):
        part = whole[:, start : start + LETTERS]
        found[:, : part.shape[1]] += part
    return found


def _signed_rows(vectors: Sequence[bytes], length: int) -> Whole:
    whole = b"".join(each if len(each) == length else bytes(length) for each in vectors)
    return np.frombuffer(whole, np.int8).reshape(len(vectors), length).astype(np.int64)
