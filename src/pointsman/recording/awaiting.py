"""Waiting until what was handed in is durable, from an event loop that serves one user."""

from __future__ import annotations

import asyncio

from pointsman.recording.waiting import Expecting


class Awaited(Expecting):
    """Everything that must be on disk before what follows from it may be shown or done."""

    async def reached(self) -> None:
        """Return once all of it is durable; raises what the ledger raised."""
        while self._futures:
            await asyncio.wrap_future(self._futures[0])
            self._futures.pop(0)
