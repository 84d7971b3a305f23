"""The workers of one gateway: their counts, told together by the one that is asked.

Each writes its counts down once a second, and whenever it is asked for those of all: so the sums
that one worker tells are never below those that another told before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from pointsman.errors import LedgerError
from pointsman.gateway.serving.neighbours import TURNS_KEPT
from pointsman.gateway.serving.services import WorkerStatus
from pointsman.gateway.telemetry.metrics import GatewayMetrics, WorkerTotals
from pointsman.kernel.instant import Clock
from pointsman.storage.stores.live import LiveStore

WRITTEN_EVERY_S: Final = 1.0


class _Written(Struct, frozen=True):
    counted: WorkerTotals
    standing: WorkerStatus


_READ: Final = msgspec.json.Decoder(_Written)


class WorkerCounts:
    """The counts of all workers of a gateway."""

    def __init__(self, store: LiveStore, metrics: GatewayMetrics, clock: Clock) -> None:
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._last = b""
        self._writing: asyncio.Task[None] | None = None
        self.stand: Callable[[], WorkerStatus] = lambda: WorkerStatus(0, 0, True)  # noqa: FBT003 - nothing yet
        """Returns how this process stands."""

    def gather(self) -> tuple[GatewayMetrics, WorkerStatus]:
        """Return the sums over all workers, those of killed ones included, and how they stand."""
        self._write()
        metrics, living = GatewayMetrics(), self._store.living()
        standings = []
        for process, body in self._store.counts().items():
            found = _READ.decode(body)
            metrics.add(found.counted)
            if process in living:
                standings.append(found.standing)
        together = WorkerStatus(
            sum(each.in_flight for each in standings),
            sum(each.feed_readers for each in standings),
            all(each.is_writable for each in standings),
        )
        return metrics, together

    def begin(self) -> None:
        """Write the counts from now on, in the event loop."""
        self._writing = asyncio.get_running_loop().create_task(self._write_often())

    async def _write_often(self) -> None:
        while True:
            await asyncio.sleep(WRITTEN_EVERY_S)
            with suppress(LedgerError):
                self._write()

    def end(self) -> None:
        """Write the last counts, in the event loop."""
        if self._writing is not None:
            self._writing.cancel()
        with suppress(LedgerError):
            self._write()

    def _write(self) -> None:
        body = msgspec.json.encode(_Written(self._metrics.totals(), self.stand()))
        if body != self._last:
            forgotten = self._clock.now() - TURNS_KEPT
            self._store.write_counts(body, forgotten)
            self._last = body
