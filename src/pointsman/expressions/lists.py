"""Functions on lists. Every member they look at is taken off the meter."""

from __future__ import annotations

from decimal import Decimal
from typing import cast

from pointsman.expressions import values
from pointsman.expressions.values import Meter, NotKnown, Value, spend


def size(_meter: Meter, of: str | list[Value] | dict[str, Value]) -> int:
    """Return the number of characters or members."""
    return len(of)


def first(_meter: Meter, of: list[Value]) -> Value:
    """Return the first member; nothing when there is none."""
    return of[0] if of else None


def last(_meter: Meter, of: list[Value]) -> Value:
    """Return the last member; nothing when there is none."""
    return of[-1] if of else None


def flatten(meter: Meter, of: list[Value]) -> Value:
    """Return the members of lists inside a list in their place."""
    spend(meter, sum(len(each) if isinstance(each, list) else 1 for each in of))
    return [each for part in of for each in (part if isinstance(part, list) else [part])]


def in_order(meter: Meter, of: list[Value]) -> Value:
    """Return numbers or texts from the least to the greatest."""
    spend(meter, len(of) * max(len(of).bit_length(), 1))
    kinds = {values.kind_of(each) for each in of}
    if len(kinds) > 1 or not kinds <= {"number", "text"}:
        raise NotKnown("`sort` takes numbers only, or texts only")
    return sorted(of, key=lambda each: cast("Decimal", each))


def distinct(meter: Meter, of: list[Value]) -> Value:
    """Return the members without repetition, as they first stand."""
    spend(meter, len(of))
    found: dict[object, Value] = {}
    for each in of:
        found.setdefault(_key(each), each)
    return list(found.values())


def _key(value: Value) -> object:
    """Return something hashable that is equal for equal values only."""
    kind = values.kind_of(value)
    if isinstance(value, list):
        return (kind, *map(_key, value))
    if isinstance(value, dict):
        return (kind, *((key, _key(value[key])) for key in sorted(value)))
    return (kind, value)
