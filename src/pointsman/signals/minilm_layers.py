"""The forward pass of all-MiniLM-L6-v2 in whole numbers: the same bits on every machine.

DETERMINISM: what is multiplied as matrices are whole numbers, and every partial sum of them is
exact, in whatever order a library adds them up. All other sums are of whole numbers, too. The rest
is + - * / sqrt, rounding and comparing, number by number, which IEEE 754 leaves no choice about;
curves (exp, erf) are read from tables that are made of these.
"""

from __future__ import annotations

from functools import cache
from math import sqrt
from typing import Final

import numpy as np
import numpy.typing as npt

from pointsman.signals.minilm_file import WIDTH, Dense, Encoder, Floats, Layer, Norm, Reals

HEADS: Final = 12
HEAD: Final = WIDTH // HEADS

STEPS: Final = 344
"""An input is up to so many steps: 384 x 127 x 344 is below 2^24, what float32 counts up to."""

FINE_STEPS: Final = 16_384
"""The same for queries, keys and values, whose products are doubles: these count up to 2^53."""

FINE: Final = 65_536.0
"""Sums are made of so many parts of one, as whole numbers."""

MOST: Final = 1_024.0
"""No number is larger when it is added up: 384 squares of its parts stay below 2^63."""

_TINY = np.float32(1e-30)
_EPSILON = 1e-12
_EXP_GRID, _EXP_PLACES = 512.0, 8_192
_EXP_PARTS = 1 << 20
_CURVE_GRID, _CURVE_PLACES = np.float32(1_024), 8_192
_SERIES = 90

Whole = npt.NDArray[np.int64]


def encoded(encoder: Encoder, pieces: list[int]) -> Whole:
    """Give the sum of what the model makes of each piece, in parts of `FINE`."""
    hidden = encoder.words.take(pieces) + encoder.places.take(range(len(pieces)))
    hidden = _normal(hidden, encoder.first_norm)
    for layer in encoder.layers:
        hidden = _passed(hidden, layer)
    found: Whole = _whole(hidden).sum(axis=0)
    return found


def _passed(hidden: Floats, layer: Layer) -> Floats:
    looked = _attended(_product(hidden, layer.attention))
    hidden = _normal(hidden + _product(looked, layer.joined), layer.joined_norm)
    inner = _gelu(_product(hidden, layer.inner))
    return _normal(hidden + _product(inner, layer.outer), layer.outer_norm)


def _product(rows: Floats, dense: Dense) -> Floats:
    """Multiply rows with weights, a block of inputs after the other, each row in its own steps."""
    found, *more = (
        _block(rows[:, WIDTH * number : WIDTH * (number + 1)], dense, number)
        for number in range(len(dense.weights))
    )
    for each in more:
        found += each
    found += dense.bias
    return found


def _block(rows: Floats, dense: Dense, number: int) -> Floats:
    whole, steps = _in_steps(rows, np.float32(STEPS))
    found: Floats = whole @ dense.weights[number]
    found *= dense.scales[number]
    found *= steps
    return found


def _in_steps(rows: Floats, most: np.float32) -> tuple[Floats, Floats]:
    """Give rows as whole numbers up to `most`, and what a step of each stands for."""
    steps = np.maximum(np.abs(rows).max(axis=-1, keepdims=True), _TINY) / most
    whole = rows / steps
    np.rint(whole, out=whole)
    return whole, steps


def _attended(found: Floats) -> Floats:
    """Let every piece look at all pieces, in each head."""
    count = len(found)
    parts = found.reshape(count, 3, HEADS, HEAD).transpose(1, 2, 0, 3)
    queries, query_steps = _in_steps(parts[0], np.float32(FINE_STEPS))
    keys, key_steps = _in_steps(parts[1], np.float32(FINE_STEPS))
    # Values are added up over all pieces: one step for each column.
    values, value_steps = _in_steps(parts[2].transpose(0, 2, 1), np.float32(FINE_STEPS))
    products = queries.astype(np.float64) @ keys.transpose(0, 2, 1).astype(np.float64)
    products *= key_steps.transpose(0, 2, 1)
    products *= query_steps.astype(np.float64) * (_EXP_GRID / sqrt(HEAD))
    shares = _shares(products)
    looked = shares @ values.transpose(0, 2, 1).astype(np.float64)
    looked /= shares.sum(axis=2, keepdims=True)
    looked *= value_steps.transpose(0, 2, 1)
    return np.ascontiguousarray(looked.transpose(1, 0, 2), np.float32).reshape(count, WIDTH)


def _shares(products: Reals) -> Reals:
    """Give how much each piece weighs for each, as whole numbers: the largest is `_EXP_PARTS`."""
    below: Reals = products.max(axis=2, keepdims=True) - products
    np.rint(below, out=below)
    np.minimum(below, _EXP_PLACES - 1, out=below)
    return _falling().take(below.astype(np.int64))


def _gelu(rows: Floats) -> Floats:
    """Give x times the chance that a normal number is below x."""
    off = np.abs(rows)
    off *= _CURVE_GRID
    np.rint(off, out=off)
    np.minimum(off, np.float32(_CURVE_PLACES - 1), out=off)
    found: Floats = np.maximum(rows, np.float32(0))
    found -= _curve().take(off.astype(np.int64))
    return found


def _normal(rows: Floats, norm: Norm) -> Floats:
    """Take the mean off each row, and give it the length that the model was trained with."""
    whole = _whole(rows)
    mean = np.rint(whole.sum(axis=1, keepdims=True) / float(WIDTH)).astype(np.int64)
    whole -= mean
    squares = (whole * whole).sum(axis=1, keepdims=True)
    length = np.sqrt(squares / (WIDTH * FINE * FINE) + _EPSILON) * FINE
    found: Floats = (whole / length).astype(np.float32)
    found *= norm.weight
    found += norm.bias
    return found


def _whole(rows: Floats) -> Whole:
    fine = rows.astype(np.float64)
    fine *= FINE
    np.clip(fine, -MOST * FINE, MOST * FINE, out=fine)
    return np.rint(fine, out=fine).astype(np.int64)


@cache
def _falling() -> Reals:
    """Give exp(-x) in parts of `_EXP_PARTS`, as whole numbers, for x by the grid from 0 to 16."""
    x = np.arange(_EXP_PLACES) / (_EXP_GRID * 64)
    term, total = np.ones_like(x), np.ones_like(x)
    for number in range(1, 16):
        term = term * x / -number
        total = total + term
    for _ in range(6):
        total = total * total
    return np.rint(total * _EXP_PARTS)


@cache
def _curve() -> Floats:
    """Give x times the chance that a normal number is above x, by the grid from 0 to 8."""
    x = np.arange(_CURVE_PLACES) / float(_CURVE_GRID)
    # Further out the series is worth less than its rounding, and the chance less than 1e-9.
    near = np.minimum(x, 6.0)
    term, total = near.copy(), near.copy()
    for number in range(1, _SERIES):
        term = term * near * near / (-2.0 * number)
        total = total + term / (2.0 * number + 1.0)
    above = 0.5 - total * 0.3989422804014327
    return np.where(x < 6.0, x * above, 0.0).astype(np.float32)
