"""The machine's own clock, and ids that sort by when they were made. Nothing else reads either."""

from __future__ import annotations

import secrets
import threading
import time

from pointsman.kernel.instant import Clock, Instant

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
RANDOM_BYTES = 10
_SHIFTS = tuple(range(80, -1, -10))
_PAIRS = [one + other for one in _CROCKFORD for other in _CROCKFORD]


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
        self._high = ""
        self._low = 0
        self._drawn = b""
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
            high
            + _PAIRS[low >> 30]
            + _PAIRS[low >> 20 & 1023]
            + (_PAIRS[low >> 10 & 1023] + _PAIRS[low & 1023])
        )

    def _begin(self, millis: int) -> None:
        if len(self._drawn) < RANDOM_BYTES:
            # Asking the system costs more than everything else here: ask for many at once.
            self._drawn = secrets.token_bytes(RANDOM_BYTES * 128)
        drawn = int.from_bytes(self._drawn[:RANDOM_BYTES], "big")
        self._drawn = self._drawn[RANDOM_BYTES:]
        self._millis = millis
        number = millis << 40 | drawn >> 40
        self._high = "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
        # It starts in its lower half, so that a millisecond cannot use it up.
        self._low = drawn & (1 << 39) - 1
