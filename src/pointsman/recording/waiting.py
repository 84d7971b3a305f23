"""Waiting until entries and texts are durable, by blocking or in an event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Protocol

from pointsman.storage.writer.group import Waiter


class DurabilityWaiter(Protocol):
    """Waits for entries and texts to become durable."""

    def expect(self) -> Waiter:
        """Expect one result more; return its waiter."""
        ...


class PendingResults:
    """The expected results, in order."""

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
        """Return the results in the order they were expected, or raise the first error."""
        return [future.result() for future in self._pending]


class AsyncWaiter(PendingResults):
    """Waits in an event loop that serves one user."""

    async def wait(self) -> None:
        """Return once all of it is durable; raises what the ledger raised."""
        while self._pending:
            await asyncio.wrap_future(self._pending[0])
            self._pending.pop(0)
