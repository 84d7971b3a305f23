"""The weighted choice `wb1`: whole numbers only, the same in every language.

Specified in docs/reference/wb1.md, with test vectors beside it. The name is part of every record:
a change to anything here is a new method with a new name.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Final

from pointsman.errors import NumberError
from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.document import Json

METHOD: Final = "wb1"
MAX_TOTAL: Final = 2**31 - 1


def unit_bytes(value: Json) -> bytes | None:
    """Return the bytes that stand for a unit; None for a value that cannot be one.

    The kind is part of the bytes: 1, "1" and true are three units. Fractions, null, lists and
    mappings are refused.
    """
    if isinstance(value, str):
        try:
            return b"s:" + value.encode()
        except UnicodeEncodeError:
            return None
    if isinstance(value, bool):
        return b"b:true" if value else b"b:false"
    if isinstance(value, int | Decimal) and -MAX_INT <= value <= MAX_INT and value == int(value):
        return b"i:%d" % int(value)
    return None


class Salted:
    """One salt, prepared: units under different salts fall independently of each other."""

    __slots__ = ("_start",)

    def __init__(self, salt: str) -> None:
        self._start = hashlib.sha256(b"wb1\0" + _with_length(salt.encode()))

    def slot(self, unit: bytes, total: int) -> int:
        """Return the slot of a unit: a whole number from 0 up, below the total."""
        found = self._start.copy()
        found.update(_with_length(unit))
        return int.from_bytes(found.digest()[:8], "big") * total >> 64


def _with_length(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part


def ends(weights: Sequence[int]) -> list[int]:
    """Return the end of each weight's slots, one after the other; the last is the total."""
    return list(accumulate(weights))


def pick_weight(slot: int, bounds: Sequence[int]) -> int:
    """Return the first weight whose slots end past this one; a weight of 0 has none."""
    return bisect_right(bounds, slot)


def whole_weights(weights: Sequence[Decimal]) -> list[int]:
    """Return weights as whole numbers in the same proportion: 33.3 and 33.4 become 333 and 334."""
    places = max((-_exponent(each) for each in weights), default=0)
    found = [int(each.scaleb(max(places, 0))) for each in weights]
    if min(found, default=0) < 0:
        raise NumberError("a weight cannot be below 0")
    if sum(found) > MAX_TOTAL:
        raise NumberError(f"the weights, as whole numbers, add up to more than {MAX_TOTAL}")
    return found


def _exponent(weight: Decimal) -> int:
    """Return the power of ten of the last digit that counts; trailing zeros do not."""
    _, digits, exponent = weight.as_tuple()
    significant = "".join(map(str, digits)).rstrip("0")
    return int(exponent) + len(digits) - len(significant) if significant else 0
