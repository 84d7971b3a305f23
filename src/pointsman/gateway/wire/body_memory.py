"""The bytes of bodies in one process: how many callers without a key may use, and when the
allocator is asked to give memory back."""

from __future__ import annotations

from math import inf
from typing import Final

from pointsman.gateway.wire.request import IncomingRequest

TRIMMED_AFTER: Final = 16 * 1024 * 1024
"""How many bytes of bodies are released before a trim: it takes milliseconds of another thread."""
TRIM_DELAY_S: Final = 0.5


class BodyMemory:
    """Counts the bytes of bodies that are received or served."""

    def __init__(self) -> None:
        self.keyless = 0
        """Bytes of callers without a valid key: of bodies, and of heads that are not whole."""
        self._released = self._before = 0
        self._since = inf

    def hold(self, request: IncomingRequest, size: int) -> None:
        """Count so many more bytes of a request's body."""
        request.held += size
        if request.is_keyless:
            self.keyless += size

    def release(self, request: IncomingRequest) -> None:
        """Count a body as released."""
        size, request.held = request.held, 0
        self._released += size
        if request.is_keyless:
            self.keyless -= size

    def is_trim_due(self, now: float) -> bool:
        """Tell whether enough was released a while ago; asked at each sweep."""
        fresh, self._before = self._released - self._before, self._released
        if self._released < TRIMMED_AFTER:
            return False
        self._since = min(self._since, now)
        if now - self._since < TRIM_DELAY_S:
            return False
        # Bodies released a moment ago may not be free yet.
        self._released = self._before = fresh
        self._since = inf
        return True


def trim_memory() -> None:
    """Return free memory to the system, where the C library can: it keeps much of it."""
    import ctypes  # noqa: PLC0415 - only large bodies need it

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
