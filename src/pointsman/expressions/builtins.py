"""The functions of expressions at work: on texts, lists, numbers and dates, all off the meter."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import cast

from pointsman.errors import InputError
from pointsman.expressions import values
from pointsman.expressions.values import (
    EXACT,
    PRECISION,
    Meter,
    NotKnown,
    Value,
    number_text,
    spend,
    spend_text,
    whole,
)
from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.instant import DAY, LATEST, SECOND, Instant, instant_text, read_instant

UNITS = {"days": DAY, "hours": 3_600 * SECOND, "minutes": 60 * SECOND, "seconds": SECOND}

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_PARTS = {
    "YYYY": (0, 4),
    "MM": (5, 7),
    "DD": (8, 10),
    "HH": (11, 13),
    "mm": (14, 16),
    "ss": (17, 19),
}
_PART = re.compile("|".join(_PARTS))
_START = "0000-01-01T00:00:00Z"


def instant(text: str) -> Instant:
    """Read an RFC 3339 instant, or a date alone as its midnight in UTC."""
    try:
        return read_instant(text + "T00:00:00Z" if _DATE.fullmatch(text) else text)
    except InputError:
        raise NotKnown("a text is not a date") from None


def parse_date(text: str, pattern: str | None = None) -> str:
    """Read a date written in some pattern, and give it as an RFC 3339 instant."""
    if pattern is None:
        return instant_text(instant(text))
    found = list(_START)
    at = end = 0
    for part in _PART.finditer(pattern):
        literal = pattern[end : part.start()]
        start, stop = _PARTS[part[0]]
        digits = text[at + len(literal) : at + len(literal) + stop - start]
        if text[at : at + len(literal)] != literal or not re.fullmatch("[0-9]+", digits):
            raise NotKnown("a text is not a date of this pattern")
        found[start:stop] = digits.rjust(stop - start, " ")
        at, end = at + len(literal) + stop - start, part.end()
    if text[at:] != pattern[end:]:
        raise NotKnown("a text is not a date of this pattern")
    return instant_text(instant("".join(found)))


def format_date(text: str, pattern: str) -> str:
    """Write a date by a pattern of YYYY, MM, DD, HH, mm and ss; the rest stands as it is."""
    written = instant_text(instant(text))
    return _PART.sub(lambda part: written[slice(*_PARTS[part[0]])], pattern)


def difference(later: str, earlier: str, unit: str) -> Decimal:
    """Return the first instant minus the second, in days, hours, minutes or seconds."""
    if unit not in UNITS:
        raise NotKnown("a unit is not `days`, `hours`, `minutes` or `seconds`")
    return EXACT.divide(Decimal(instant(later) - instant(earlier)), Decimal(UNITS[unit]))


def shift_date(text: str, count: object, unit: str) -> str:
    """Return the instant so many units later."""
    found = instant(text) + whole(count) * UNITS[unit]
    if not 0 <= found <= LATEST:
        raise NotKnown("a date lies outside the years 1970 to 9999")
    return instant_text(Instant(found))


_SCALAR = frozenset({"boolean", "number", "text"})


def text_of(value: Value) -> str:
    """Write a text, number or truth value as a text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(values.number(value))


def concat(meter: Meter, *parts: Value) -> str:
    """Return texts, numbers and truth values joined to one text."""
    texts = [text_of(each) for each in parts]
    spend_text(meter, sum(map(len, texts)))
    return "".join(texts)


def substring(meter: Meter, text: str, start: Value, length: Value = MAX_INT) -> str:
    """Return part of a text, counted in characters from 0."""
    first, count = whole(start), whole(length)
    if first < 0 or count < 0:
        raise NotKnown("`substring` counts from 0 up")
    spend_text(meter, len(text))
    return text[first : first + count]


def replace(meter: Meter, text: str, old: str, new: str) -> str:
    """Return a text with one part replaced wherever it stands."""
    if not old:
        raise NotKnown("`replace` cannot look for an empty text")
    spend_text(meter, len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def trim(meter: Meter, text: str) -> str:
    """Return a text without blanks at its ends."""
    spend_text(meter, len(text))
    return text.strip(" \t\n\r\f\v")


def upper(meter: Meter, text: str) -> str:
    """Return a text with its ASCII letters in upper case."""
    spend_text(meter, len(text))
    return text.encode().upper().decode()


def lower(meter: Meter, text: str) -> str:
    """Return a text with its ASCII letters in lower case."""
    # DETERMINISM: only ASCII letters; the rest of Unicode changes with the Python version.
    spend_text(meter, len(text))
    return text.encode().lower().decode()


def split_text(meter: Meter, text: str, separator: str) -> Value:
    """Return the parts of a text between separators."""
    if not separator:
        raise NotKnown("`split_text` cannot look for an empty text")
    spend_text(meter, len(text))
    spend(meter, text.count(separator))
    return cast("Value", text.split(separator))


def join(meter: Meter, parts: list[Value], separator: str) -> str:
    """Return the members of a list as one text."""
    spend(meter, len(parts))
    if any(values.kind_of(each) not in _SCALAR for each in parts):
        raise NotKnown("`join` takes texts, numbers and truth values")
    texts = [text_of(each) for each in parts]
    spend_text(meter, sum(map(len, texts)) + len(texts) * len(separator))
    return separator.join(texts)


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
