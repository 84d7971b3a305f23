"""Instants as microseconds since 1970 UTC, their RFC 3339 text, and the ports for time and ids.

No clock is read here. The calendar is computed, because `datetime.fromisoformat` accepts
different texts in different Python versions.
"""

from __future__ import annotations

import re
from typing import NewType, Protocol

from pointsman.errors import InputError

Instant = NewType("Instant", int)

EPOCH = Instant(0)
SECOND = 1_000_000
DAY = 86_400 * SECOND
LATEST = Instant(253_402_300_800 * SECOND - 1)

_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> Instant:
        """Return the present instant."""
        ...


class IdSource(Protocol):
    """Where ids come from: unique, sortable by when they were made."""

    def new_id(self) -> str:
        """Return an id that was never returned before."""
        ...


def instant_text(instant: Instant) -> str:
    """Write an instant as RFC 3339 in UTC with microseconds."""
    days, rest = divmod(instant, DAY)
    seconds, micros = divmod(rest, SECOND)
    year, month, day = _civil(days)
    hour, minute, second = seconds // 3600, seconds // 60 % 60, seconds % 60
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}.{micros:06d}Z"


def read_instant(text: str) -> Instant:
    """Read an RFC 3339 instant; digits past the microsecond are cut."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise InputError(f"`{text}` is not an instant", hint="write it like 2026-11-15T14:05:00Z")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    _check_calendar(text, year, month, day)
    if hour > 23 or minute > 59 or second > 59:
        raise InputError(f"`{text}` has a time of day that does not exist")
    micros = int((match[7] or "").ljust(6, "0")[:6])
    offset = _offset_seconds(text, match[8], match[9], match[10])
    seconds = _days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset
    instant = seconds * SECOND + micros
    if not 0 <= instant <= LATEST:
        raise InputError(f"`{text}` lies outside the years 1970 to 9999")
    return Instant(instant)


def _offset_seconds(text: str, sign: str | None, hours: str | None, minutes: str | None) -> int:
    if sign is None or hours is None or minutes is None:
        return 0
    if int(hours) > 23 or int(minutes) > 59:
        raise InputError(f"`{text}` has an offset that does not exist")
    offset = int(hours) * 3600 + int(minutes) * 60
    return offset if sign == "+" else -offset


def _check_calendar(text: str, year: int, month: int, day: int) -> None:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _MONTH_DAYS[month - 1]:
        raise InputError(f"`{text}` has a day that does not exist")
    if month == 2 and day == 29 and not leap:
        raise InputError(f"`{text}` has a day that does not exist")


def _days(year: int, month: int, day: int) -> int:
    # Count days with March as the first month, so that the leap day is the last of its year.
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


def _civil(days: int) -> tuple[int, int, int]:
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = (shifted + 2) % 12 + 1
    return era * 400 + year_of_era + (month <= 2), month, day
