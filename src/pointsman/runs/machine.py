"""The machine's own clock, and ids that sort by when they were made. Nothing else reads either."""

from __future__ import annotations

import secrets
import threading
import time
from struct import unpack

from pointsman.kernel.instant import Clock, Instant

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [one + other for one in _CROCKFORD for other in _CROCKFORD]
_WORDS = 2 * 128
"""How many random words are drawn at once: two begin a millisecond."""
_LONG = 20
"""A prefix of the time is good for this many bits of milliseconds: seventeen minutes."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> Instant:
        """Give the present instant."""
        return Instant(time.time_ns() // 1000)


class Ulids:
    """Ids that sort by when they were made: 48 bits of milliseconds, 80 bits that only grow.

    Each millisecond begins at random; within it the next id is the last plus one.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._millis = -1
        self._era = -1
        self._prefix = ""
        self._high = ""
        self._low = 0
        self._drawn: list[int] = []
        self._lock = threading.Lock()

    def new_id(self) -> str:
        """Give an id larger than every one given before."""
        millis = self._clock.now() // 1000
        with self._lock:
            if millis > self._millis:
                self._begin(millis)
            else:
                self._low += 1
            high, low = self._high, self._low
        return (
            f"{high}{_PAIRS[low >> 30]}{_PAIRS[low >> 20 & 1023]}"
            f"{_PAIRS[low >> 10 & 1023]}{_PAIRS[low & 1023]}"
        )

    def _begin(self, millis: int) -> None:
        if not self._drawn:
            # Asking the system costs more than everything else here: ask for many at once.
            self._drawn = list(unpack(f"{_WORDS}Q", secrets.token_bytes(8 * _WORDS)))
        if millis >> _LONG != self._era:
            self._era = era = millis >> _LONG
            self._prefix = _PAIRS[era >> 20] + _PAIRS[era >> 10 & 1023] + _PAIRS[era & 1023]
        self._millis = millis
        random = self._drawn.pop()
        self._high = (
            f"{self._prefix}{_PAIRS[millis >> 10 & 1023]}{_PAIRS[millis & 1023]}"
            f"{_PAIRS[random >> 54]}{_PAIRS[random >> 44 & 1023]}"
            f"{_PAIRS[random >> 34 & 1023]}{_PAIRS[random >> 24 & 1023]}"
        )
        # It starts in its lower half, so that a millisecond cannot use it up.
        self._low = self._drawn.pop() >> 25
