"""The line before the model: a few at once, some wait in order, the rest is turned away."""

from __future__ import annotations

import asyncio

from pointsman.providers.port import UpstreamError


class Line:
    """First come, first served."""

    def __init__(self, slots: int, most_waiting: int) -> None:
        self.inside = 0
        self.waiting = 0
        self._most_waiting = most_waiting
        self._free = asyncio.Semaphore(slots)

    async def enter(self) -> None:
        """Wait for a place; raises at once when too many wait already."""
        if self._free.locked() and self.waiting >= self._most_waiting:
            raise UpstreamError(
                f"the embedded model is busy: {self.waiting} requests wait already",
                error_class="rate_limit",
                status=429,
                retry_after_s=1.0,
            )
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        self.inside += 1

    def leave(self) -> None:
        """Give the place to the next."""
        self.inside -= 1
        self._free.release()
