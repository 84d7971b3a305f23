"""Functions on numbers, exact like the operators."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation

from pointsman.expressions import values
from pointsman.expressions.values import PRECISION, Meter, NotKnown, Value, spend, whole

# Wide enough for every number that can be read: rounding takes away digits, and no others.
_WIDE = Context(prec=256, Emin=-999, Emax=999, traps=[InvalidOperation])


def _extreme(meter: Meter, name: str, given: tuple[Value, ...]) -> Value:
    members = given[0] if len(given) == 1 and isinstance(given[0], list) else list(given)
    spend(meter, len(members))
    if not members:
        raise NotKnown(f"`{name}` of nothing")
    best = members[0]
    values.less_or_same(best, best)
    for each in members[1:]:
        if values.less(each, best) if name == "min" else values.less(best, each):
            best = each
    return best


def least(meter: Meter, *given: Value) -> Value:
    """Return the least of some numbers or texts."""
    return _extreme(meter, "min", given)


def greatest(meter: Meter, *given: Value) -> Value:
    """Return the greatest of some numbers or texts."""
    return _extreme(meter, "max", given)


def total(meter: Meter, members: list[Value]) -> Value:
    """Return the sum of a list of numbers."""
    spend(meter, len(members))
    found: Value = 0
    for each in members:
        found = values.add(found, values.number(each), meter)
    return found


def absolute(_meter: Meter, of: int | Decimal) -> Value:
    """Return a number without its sign."""
    return abs(of) if isinstance(of, int) else of.copy_abs()


def _quantize(of: Value, places: int, rounding: str) -> Decimal:
    if not -PRECISION <= places <= PRECISION:
        raise NotKnown("`round` to too many digits")
    return Decimal(values.number(of)).quantize(Decimal((0, (1,), -places)), rounding, _WIDE)


def round_number(_meter: Meter, of: Value, places: Value = 0) -> Value:
    """Return a number rounded half to even."""
    return _quantize(of, whole(places), ROUND_HALF_EVEN)


def ceiling(_meter: Meter, of: Value) -> Value:
    """Return the next whole number up."""
    return _quantize(of, 0, ROUND_CEILING)


def floor(_meter: Meter, of: Value) -> Value:
    """Return the next whole number down."""
    return _quantize(of, 0, ROUND_FLOOR)
