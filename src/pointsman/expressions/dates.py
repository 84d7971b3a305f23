"""Dates in expressions: RFC 3339 texts in and out, by whole-number calendar arithmetic.

An instant made here is always written with microseconds in UTC, so that texts sort as time does.
"""

from __future__ import annotations

import re
from decimal import Decimal

from pointsman.errors import InputError
from pointsman.expressions.values import EXACT, NotKnown, whole
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
