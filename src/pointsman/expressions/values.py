"""What expressions compute with: JSON values, exact decimals, and the rules for comparing them.

Whatever has no value raises `NotKnown`; nothing is coerced. 1 and 1.0 are one number everywhere,
because they are one number in the record.
"""

from __future__ import annotations

from decimal import (
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    Subnormal,
    Underflow,
)
from typing import Literal, NoReturn, TypeAlias, cast

from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.document import Json

Value: TypeAlias = Json
Kind = Literal["null", "boolean", "number", "text", "list", "map"]
Meter: TypeAlias = list[int]
"""The steps that one evaluation may still take."""

STEPS = 10_000
CHARACTERS_A_STEP = 64
PRECISION = 34
MAX_POWER = 64

# DETERMINISM: never the caller's context, which a host program may have set to anything.
EXACT = Context(
    prec=PRECISION,
    rounding=ROUND_HALF_EVEN,
    Emin=-MAX_POWER,
    Emax=MAX_POWER,
    traps=[DivisionByZero, InvalidOperation, Overflow, Subnormal, Underflow],
)

KINDS: dict[type, Kind] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    Decimal: "number",
    str: "text",
    list: "list",
    dict: "map",
}
NAMES: dict[Kind, str] = {
    "null": "nothing",
    "boolean": "a truth value",
    "number": "a number",
    "text": "a text",
    "list": "a list",
    "map": "a mapping",
}


class NotKnown(Exception):
    """A value that cannot be had; `reason` says why, in words for the record."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason)


class StepsExhausted(Exception):
    """More steps than one evaluation may take."""


LACKS = (KeyError, TypeError, IndexError, ArithmeticError, NotKnown, StepsExhausted)
"""What compiled code raises where it meets something that only the careful way can judge."""


class Missing:
    """Stands for a value that is not there. Compared or asked for anything, it raises."""

    __slots__ = ()

    def _refuse(self, *_others: object) -> NoReturn:
        raise NotKnown("missing")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __bool__ = __hash__ = _refuse


MISSING = Missing()


def spend(meter: Meter, steps: int) -> None:
    """Take steps off the meter; raise when none is left."""
    meter[0] -= steps
    if meter[0] < 0:
        raise StepsExhausted


def spend_text(meter: Meter, characters: int) -> None:
    """Take off the steps for looking at a text, or making one."""
    spend(meter, 1 + characters // CHARACTERS_A_STEP)


def kind_of(value: object) -> Kind:
    """Name the kind of a value."""
    kind = KINDS.get(type(value))
    if kind is None:
        raise NotKnown("missing")
    return kind


def boolean(value: object) -> bool:
    """Return the value if it is true or false; raise that it is neither."""
    if value is True or value is False:
        return value
    raise NotKnown(f"{NAMES[kind_of(value)]} is not true or false")


def number(value: object) -> int | Decimal:
    """Return a number, and nothing else for one."""
    if type(value) is int or type(value) is Decimal:
        return value
    raise NotKnown(f"{NAMES[kind_of(value)]} is not a number")


def whole(value: object) -> int:
    """Return a number without a fraction as a plain integer."""
    found = number(value)
    if type(found) is Decimal and found != found.to_integral_value():
        raise NotKnown("a number has a fraction")
    return int(found)


def same(left: object, right: object) -> bool:
    """Tell whether two values are equal; values of different kinds never are."""
    kind, other = kind_of(left), kind_of(right)
    if kind != other:
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right


def less(left: object, right: object) -> bool:
    """Tell whether one number or text comes before another."""
    before, after = _comparable_pair(left, right)
    return before < after


def less_or_same(left: object, right: object) -> bool:
    """Tell whether one number or text does not come after another."""
    before, after = _comparable_pair(left, right)
    return before <= after


def more(left: object, right: object) -> bool:
    """Tell whether one number or text comes after another."""
    return less(right, left)


def more_or_same(left: object, right: object) -> bool:
    """Tell whether one number or text does not come before another."""
    return less_or_same(right, left)


def _comparable_pair(left: object, right: object) -> tuple[Decimal, Decimal]:
    kind, other = kind_of(left), kind_of(right)
    if kind != other or kind not in {"number", "text"}:
        raise NotKnown(f"{NAMES[kind]} and {NAMES[other]} have no order")
    # Two numbers or two texts: the one thing that matters about them here is that `<` works.
    return cast("tuple[Decimal, Decimal]", (left, right))


def add(left: object, right: object, meter: Meter) -> Value:
    """Return the sum of two numbers, or two texts joined."""
    if type(left) is int and type(right) is int:
        return _widen(left + right)
    if type(left) is str and type(right) is str:
        spend_text(meter, len(left) + len(right))
        return left + right
    return _plain(EXACT.add(*_numbers(left, right)))


def subtract(left: object, right: object) -> int | Decimal:
    """Return the difference of two numbers."""
    if type(left) is int and type(right) is int:
        return _widen(left - right)
    return _plain(EXACT.subtract(*_numbers(left, right)))


def multiply(left: object, right: object) -> int | Decimal:
    """Return the product of two numbers."""
    if type(left) is int and type(right) is int:
        return _widen(left * right)
    return _plain(EXACT.multiply(*_numbers(left, right)))


def divide(left: object, right: object) -> int | Decimal:
    """Return the quotient of two numbers, rounded half to even at the 34th digit."""
    return _plain(EXACT.divide(*_numbers(left, right)))


def remainder(left: object, right: object) -> int | Decimal:
    """Return the remainder of a division; it has the sign of the dividend."""
    return _plain(EXACT.remainder(*_numbers(left, right)))


def negate(value: object) -> int | Decimal:
    """Return a number with the other sign."""
    found = number(value)
    return -found if type(found) is int else Decimal(found).copy_negate()


def _numbers(left: object, right: object) -> tuple[Decimal, Decimal]:
    return Decimal(number(left)), Decimal(number(right))


def _plain(found: Decimal) -> int | Decimal:
    # A zero keeps no trace of how small the numbers were that made it.
    return found or 0


def _widen(value: int) -> int | Decimal:
    # Past 2^53 whole numbers are decimals too, so that they are recorded and rounded alike.
    return value if -MAX_INT <= value <= MAX_INT else EXACT.plus(Decimal(value))


def item(of: object, key: object) -> Value:
    """Return a member of a mapping by its name, or of a list by its number from 0."""
    if isinstance(of, dict) and isinstance(key, str):
        return present(follow_path(of, (key,)))
    if isinstance(of, list) and kind_of(key) == "number":
        index = whole(key)
        return present(follow_path(of, (index,)) if index >= 0 else MISSING)
    raise NotKnown(f"{NAMES[kind_of(of)]} has no member by {NAMES[kind_of(key)]}")


def present(found: Value | Missing) -> Value:
    """Return a value, or raise where it is missing."""
    if isinstance(found, Missing):
        raise NotKnown("missing")
    return found


def follow_path(start: object, steps: tuple[str | int, ...]) -> Value | Missing:
    """Follow fixed keys into a value; `MISSING` where one leads nowhere."""
    found = cast("Value | Missing", start)
    for step in steps:
        if isinstance(found, dict):
            found = found.get(step, MISSING) if isinstance(step, str) else MISSING
        elif isinstance(found, list) and isinstance(step, int) and step < len(found):
            found = found[step]
        else:
            return MISSING
    return found


def is_member(value: object, members: object, meter: Meter) -> bool:
    """Tell whether a list holds a value."""
    if not isinstance(members, list):
        raise NotKnown(f"{NAMES[kind_of(members)]} is not a list")
    spend(meter, len(members))
    kind_of(value)
    return any(same(value, each) for each in members)


def contains(whole_: object, part: object, meter: Meter) -> bool:
    """Tell whether a text holds a text, or a list a value."""
    if isinstance(whole_, list):
        return is_member(part, whole_, meter)
    if isinstance(whole_, str) and isinstance(part, str):
        spend_text(meter, len(whole_))
        return part in whole_
    raise NotKnown(f"{NAMES[kind_of(whole_)]} cannot contain {NAMES[kind_of(part)]}")


def starts_with(text: object, part: object) -> bool:
    """Tell whether a text starts with another."""
    if isinstance(text, str) and isinstance(part, str):
        return text.startswith(part)
    raise NotKnown(f"{NAMES[kind_of(text)]} cannot start with {NAMES[kind_of(part)]}")


def ends_with(text: object, part: object) -> bool:
    """Tell whether a text ends with another."""
    if isinstance(text, str) and isinstance(part, str):
        return text.endswith(part)
    raise NotKnown(f"{NAMES[kind_of(text)]} cannot end with {NAMES[kind_of(part)]}")


def number_text(value: int | Decimal) -> str:
    """Write a number as its shortest exact decimal text."""
    if isinstance(value, int):
        return str(value)
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
