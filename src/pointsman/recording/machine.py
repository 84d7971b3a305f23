"""The machine's own clock, and ids that sort by when they were made. Nothing else reads either."""

from __future__ import annotations

import secrets
import threading
import time
from struct import unpack

from pointsman.kernel.instant import Clock, Instant

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [one + other for one in _CROCKFORD for other in _CROCKFORD]
_LETTERS = bytes(ord(_CROCKFORD[byte % 32]) for byte in range(256))
"""A random byte as a random letter: each letter stands for as many bytes."""
_DRAWN = 12
"""Random letters that begin a millisecond; the last four of an id are a count."""
_COUNTED = 20
_AT_ONCE = 128
_LONG = 20
"""A prefix of the time is good for this many bits of milliseconds: seventeen minutes."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> Instant:
        """Return the present instant."""
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
        self._drawn: list[str] = []
        self._counts: list[int] = []
        self._lock = threading.Lock()

    def new_id(self) -> str:
        """Return an id larger than every one before."""
        millis = self._clock.now() // 1000
        with self._lock:
            if millis > self._millis:
                self._begin(millis)
            else:
                self._low += 1
                if self._low >> _COUNTED:
                    # The clock was set back and stood for so many ids: they run ahead of it.
                    self._begin(self._millis + 1)
            low = self._low
            return f"{self._high}{_PAIRS[low >> 10]}{_PAIRS[low & 1023]}"

    def _begin(self, millis: int) -> None:
        if not self._drawn:
            self._draw()
        if millis >> _LONG != self._era:
            self._era = era = millis >> _LONG
            self._prefix = _PAIRS[era >> 20] + _PAIRS[era >> 10 & 1023] + _PAIRS[era & 1023]
        self._millis = millis
        self._high = (
            f"{self._prefix}{_PAIRS[millis >> 10 & 1023]}{_PAIRS[millis & 1023]}{self._drawn.pop()}"
        )
        # It starts in its lower half, so that a millisecond cannot use it up.
        self._low = self._counts.pop() >> (33 - _COUNTED)

    def _draw(self) -> None:
        """Draw for many milliseconds: asking the system costs more than everything else here."""
        letters = secrets.token_bytes(_DRAWN * _AT_ONCE).translate(_LETTERS).decode("ascii")
        self._drawn = [letters[at : at + _DRAWN] for at in range(0, len(letters), _DRAWN)]
        self._counts = list(unpack(f"{_AT_ONCE}I", secrets.token_bytes(4 * _AT_ONCE)))
