"""Looks of turns in plain whole numbers: the model that the arrays of the product are held to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pointsman.kernel.number import divide
from pointsman.turns.learning.evidence_look import (
    CENTRE_UNIT,
    HEARD,
    LENGTH,
    LETTERS,
    LOUD,
    STRUCTURE,
    STRUCTURE_REACH,
    TEXT_REACH,
    TOKENS,
    UNIT,
    normal,
    structure_counts,
)
from pointsman.turns.learning.fingerprint import DIMENSIONS, Fingerprint


def raw_look(fingerprint: Fingerprint, letters: bytes, tokens: bytes) -> tuple[int, ...]:
    """Put the three parts side by side, each of length `UNIT`, or zero where there is nothing."""
    return (
        *normal(fold_letters(letters), UNIT),
        *normal(_read_signed(tokens, TOKENS), UNIT),
        *normal(structure_counts(fingerprint), UNIT),
    )


def fold_letters(letters: bytes) -> list[int]:
    """Fold the hashed letters into fewer buckets, one after the other."""
    whole = _read_signed(letters, DIMENSIONS)
    return [sum(whole[place::LETTERS]) for place in range(LETTERS)]


def centre_of(looks: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the mean of raw looks, in sixteenths."""
    sums, count = [0] * LENGTH, 0
    for look in looks:
        sums = [total + value for total, value in zip(sums, look, strict=True)]
        count += 1
    return tuple(divide(CENTRE_UNIT * total, count or 1) for total in sums)


def centre_look(raw: Sequence[int], centre: Sequence[int]) -> tuple[int, ...]:
    """Take the centre off a raw look, and give each part its reach; an empty part stays empty."""
    parts = [
        _off(raw[start:end], centre[start:end])
        for start, end in ((0, LETTERS), (LETTERS, -STRUCTURE), (LENGTH - STRUCTURE, LENGTH))
    ]
    structure = [divide(each * STRUCTURE_REACH, CENTRE_UNIT * UNIT) for each in parts[2]]
    return (*normal(parts[0], TEXT_REACH), *normal(parts[1], TEXT_REACH), *structure)


def _off(part: Sequence[int], centre: Sequence[int]) -> list[int]:
    if not any(part):
        return [0] * len(part)
    return [CENTRE_UNIT * own - mean for own, mean in zip(part, centre, strict=True)]


def product(left: Sequence[int], right: Sequence[int]) -> int:
    """Return the scalar product of two centred looks: the larger, the more alike."""
    return sum(first * second for first, second in zip(left, right, strict=True))


def loud(look: Sequence[int]) -> list[bool]:
    """Tell which numbers of a look say most about who is like it."""
    found = [abs(each) > limit for each, limit in zip(look, LOUD, strict=True)]
    if any(found[LETTERS:-STRUCTURE]):
        found[HEARD:LETTERS] = [False] * (LETTERS - HEARD)
    return found


def disagreement(look: Sequence[int], other: Sequence[int]) -> int:
    """Count the places where a look is loud, and the other is not on the same side of the centre.

    The fewer, the larger their product tends to be; they are counted faster than it is computed.
    """
    return sum(
        is_loud and (own > 0) != (each > 0)
        for is_loud, own, each in zip(loud(look), look, other, strict=True)
    )


def _read_signed(vector: bytes, length: int) -> Sequence[int]:
    """Read signed bytes; a vector of another length counts as none."""
    if len(vector) != length:
        return [0] * length
    return memoryview(vector).cast("b").tolist()
