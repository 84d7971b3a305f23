"""Exact numbers: billionths for everything that is scored, micro-dollars for money.

Both are whole numbers, so no decision depends on how a machine or a Python version rounds. Not a
general decimal type: `branches` works on `Decimal`, the HTTP surface shows ordinary JSON numbers.
"""

from __future__ import annotations

import re
from typing import NewType

from pointsman.errors import NumberError

Billionths = NewType("Billionths", int)
"""A fraction in units of 1e-9, the resolution `NUMERIC_EPSILON` of document 000."""

MicroUsd = NewType("MicroUsd", int)
"""Money in millionths of a US dollar."""

SCALE = 1_000_000_000
ONE = Billionths(SCALE)
ZERO = Billionths(0)

MAX_DIGITS = 64
MAX_EXPONENT = 64

_DECIMAL = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,3}))?", re.ASCII)


def billionths(text: str) -> Billionths:
    """Read decimal text exactly; what lies beyond the ninth decimal is rounded half to even."""
    return Billionths(_scale(text, 9))


def microusd(text: str) -> MicroUsd:
    """Read a dollar amount exactly; what lies beyond the sixth decimal is rounded half to even."""
    return MicroUsd(_scale(text, 6))


def divide(numerator: int, denominator: int) -> int:
    """Divide by a positive whole number, rounding half to even."""
    if denominator <= 0:
        raise NumberError(f"`{denominator}` cannot be divided by")
    quotient, remainder = divmod(numerator, denominator)
    twice = 2 * remainder
    if twice > denominator or (twice == denominator and quotient % 2):
        return quotient + 1
    return quotient


def times(left: Billionths, right: Billionths) -> Billionths:
    """Multiply two fractions, rounding half to even."""
    return Billionths(divide(left * right, SCALE))


def ratio(numerator: int, denominator: int) -> Billionths:
    """Return numerator / denominator as a fraction, rounding half to even."""
    return Billionths(divide(numerator * SCALE, denominator))


def floor_of(fraction: Billionths, count: int) -> int:
    """Return the whole part of fraction times count, exactly: 0.29 of 100 is 29."""
    return fraction * count // SCALE


def clamp(value: Billionths, low: Billionths = ZERO, high: Billionths = ONE) -> Billionths:
    """Bring a fraction into [low, high]."""
    return max(low, min(high, value))


def billionths_text(value: Billionths) -> str:
    """Write a fraction as its shortest exact decimal text: no trailing zeros, no `-0`."""
    return _text(value, 9)


def microusd_text(value: MicroUsd) -> str:
    """Write an amount as its shortest exact decimal text."""
    return _text(value, 6)


def _scale(text: str, digits: int) -> int:
    match = _DECIMAL.fullmatch(text) if len(text) <= MAX_DIGITS else None
    if match is None:
        raise NumberError(f"`{text[:MAX_DIGITS]}` is not a decimal number")
    sign, whole, fraction, exponent = match.groups(default="")
    power = int(exponent or "0")
    if abs(power) > MAX_EXPONENT:
        raise NumberError(f"`{text}` has an exponent past {MAX_EXPONENT}")
    shift = digits - len(fraction) + power
    magnitude = int(whole + fraction)
    scaled = magnitude * 10**shift if shift >= 0 else divide(magnitude, 10**-shift)
    return -scaled if sign == "-" else scaled


def _text(value: int, digits: int) -> str:
    whole, part = divmod(abs(value), 10**digits)
    fraction = f"{part:0{digits}d}".rstrip("0")
    sign = "-" if value < 0 else ""
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"
