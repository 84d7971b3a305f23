"""Waiting until what was handed in is durable, from an event loop that serves one user."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from pointsman.storage.sqlite.group import Settled


class Awaited:
    """Everything that must be on disk before what follows from it may be shown or done."""

    def __init__(self) -> None:
        self._futures: list[Future[object]] = []

    def expect(self) -> Settled:
        """Wait for one thing more."""
        future: Future[object] = Future()
        # Running, so that a cancelled waiter cannot cancel it under the commit thread.
        future.set_running_or_notify_cancel()
        self._futures.append(future)
        return future

    async def reached(self) -> None:
        """Return once all of it is durable; raises what the ledger raised."""
        while self._futures:
            await asyncio.wrap_future(self._futures[0])
            self._futures.pop(0)
