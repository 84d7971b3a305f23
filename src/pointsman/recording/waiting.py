"""Waiting until what was handed in is durable: for one thing or for several, by blocking."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Protocol

from pointsman.storage.writer.group import Waiter


class DurabilityWaiter(Protocol):
    """Whoever waits for entries and texts."""

    def expect(self) -> Waiter:
        """Wait for one thing more, and give whom to tell about it."""
        ...


class PendingResults:
    """What is waited for, in the order it was expected."""

    def __init__(self) -> None:
        self._pending: list[Future[object]] = []

    def expect(self) -> Waiter:
        """Wait for one thing more."""
        future: Future[object] = Future()
        # Running, so that a cancelled waiter cannot cancel it under the commit thread.
        future.set_running_or_notify_cancel()
        self._pending.append(future)
        return future


class BlockingWaiter(PendingResults):
    """Waits by blocking the thread."""

    def wait(self) -> list[object]:
        """Give the results in the order they were expected, or raise the first error."""
        return [future.result() for future in self._pending]


class AsyncWaiter(PendingResults):
    """Everything that must be on disk before what follows from it may be shown or done."""

    async def wait(self) -> None:
        """Return once all of it is durable; raises what the ledger raised."""
        while self._pending:
            await asyncio.wrap_future(self._pending[0])
            self._pending.pop(0)
