"""A subset of cron's times, in UTC: numbers, `*`, lists, ranges and steps. Reads no clock."""

from __future__ import annotations

import re

from msgspec import Struct

from pointsman.errors import InputError
from pointsman.kernel.instant import DAY, SECOND, Instant, instant_text

MINUTE = 60 * SECOND
MOST_DAYS = 366 * 8
"""The longest wait there is: from one 29 February to the next across 2100."""

_PART = re.compile(r"(\*|[0-9]{1,2}(?:-[0-9]{1,2})?)(?:/([0-9]{1,2}))?")
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))


class Cron(Struct, frozen=True):
    """Which minutes are meant. As in cron, where day and weekday are both given, either will do."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    is_any_day: bool
    is_any_weekday: bool

    def next_after(self, instant: Instant) -> Instant | None:
        """Return the first minute due after an instant; None for none within eight years."""
        at = Instant((instant // MINUTE + 1) * MINUTE)
        last = at + MOST_DAYS * DAY
        while at < last:
            if not self._is_day(at):
                at = Instant((at // DAY + 1) * DAY)
            elif (at // (60 * MINUTE)) % 24 not in self.hours:
                at = Instant((at // (60 * MINUTE) + 1) * 60 * MINUTE)
            elif (at // MINUTE) % 60 not in self.minutes:
                at = Instant(at + MINUTE)
            else:
                return at
        return None

    def _is_day(self, at: Instant) -> bool:
        text = instant_text(at)
        # 1 January 1970 was a Thursday; cron counts from Sunday.
        weekday = (at // DAY + 4) % 7
        if int(text[5:7]) not in self.months:
            return False
        is_day, is_weekday = int(text[8:10]) in self.days, weekday in self.weekdays
        if self.is_any_day or self.is_any_weekday:
            return is_day and is_weekday
        return is_day or is_weekday


def read_cron(text: str) -> Cron:
    """Read five fields: minute, hour, day of the month, month, day of the week."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        hint = "minute hour day month weekday, such as `*/5 8-18 * * 1-5`"
        raise InputError(f"`{text}` does not have five fields", hint=hint)
    minutes, hours, days, months, weekdays = (
        _values(field, *limits) for field, limits in zip(fields, _FIELDS, strict=True)
    )
    weekdays = frozenset(0 if each == 7 else each for each in weekdays)
    is_any_day, is_any_weekday = fields[2] == "*", fields[4] == "*"
    return Cron(minutes, hours, days, months, weekdays, is_any_day, is_any_weekday)


def _values(field: str, name: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise InputError(f"`{part}` is no {name}", hint="numbers, `*`, lists, ranges and steps")
        first, _, end = (f"{low}-{high}" if match[1] == "*" else match[1]).partition("-")
        step = int(match[2] or 1)
        last = int(end or (high if match[2] else first))
        if not low <= int(first) <= last <= high or step == 0:
            raise InputError(f"`{part}` is no {name}", hint=f"from {low} to {high}")
        found.update(range(int(first), last + 1, step))
    return frozenset(found)
