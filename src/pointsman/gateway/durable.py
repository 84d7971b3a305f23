"""Waiting for the ledger from an event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from pointsman.runs.desk import Handed


class Durability:
    """Everything of one turn that must be on disk before a byte of its answer leaves."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[Future[object]] = []

    def add(self, handed: Handed) -> None:
        """Wait for a ruling, too."""
        if handed.text is not None:
            self._waiting.append(handed.text)  # type: ignore[arg-type] # a future of nothing
        self._waiting.append(handed.decision)  # type: ignore[arg-type] # a future of a receipt

    async def reached(self) -> None:
        """Return once all of it is durable; raises what the ledger raised."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if future.done():
                future.result()
            else:
                await asyncio.wrap_future(future)
