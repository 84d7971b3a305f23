"""Reading the ledger by and by: other processes' entries for the feed, turns for lists."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Final

from pointsman.app import Pointsman
from pointsman.audit.turn_catalog import TurnCatalog
from pointsman.errors import LedgerError, PointsmanError
from pointsman.gateway.serving.feed import Feed
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.telemetry.metrics import GatewayMetrics
from pointsman.kernel.entry import Entry
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import LedgerReader

LOOK_S: Final = 0.2


class ChainFollower:
    """Publishes the entries of other processes, as long as the feed has readers."""

    def __init__(self, pointsman: Pointsman, feed: Feed) -> None:
        self._feed = feed
        self._pointsman = pointsman
        self._reader: LedgerReader | None = None
        self._seen: dict[str, int] = {}
        self._following: asyncio.Task[None] | None = None
        self._lock = threading.Lock()
        feed.look = self.look

    def begin(self) -> None:
        """Look by and by from now on; in the event loop."""
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if self._feed.readers or self._reader is not None:
                with suppress(LedgerError):
                    await in_thread(self.look)

    def look(self) -> None:
        """Publish the entries of other processes since the last look; the first publishes none."""
        if not self._feed.readers:
            self.close()
            return
        database = self._pointsman.home.database
        with self._lock, told_errors(database):
            self._publish_new(self._reader or LedgerReader(database))

    def _publish_new(self, reader: LedgerReader) -> None:
        if self._reader is None:
            self._reader = reader
            chains = reader.chains().items()
            self._seen = {name: reader.size(number) for name, number in chains}
            return
        own = self._pointsman.decision_recorder.recorder().chain
        found: list[Entry] = []
        for name, number in reader.chains().items():
            if name != own:
                found += self._since(reader, name, number)
        if found:
            self._feed.publish(sorted(found, key=lambda entry: entry.at))

    def _since(self, reader: LedgerReader, name: str, number: int) -> list[Entry]:
        found = [*reader.chain_entries(number, self._seen.get(name, 0))]
        if found:
            self._seen[name] = found[-1].seq + 1
        return found

    def close(self) -> None:
        """Look no more."""
        with self._lock:
            reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


RESTED_S: Final = 1.0
"""A gateway rests when no model was asked for so long."""

SLICE_S: Final = 0.02
"""How long a turn that comes meanwhile waits at most, beside one batch of entries."""


class CatalogUpkeep:
    """Keeps the turns of lists and charts read up to now, while the gateway rests.

    A page would wait for all entries since the last visit. A gateway at work is never kept from
    it: the entries of that time are read once it rests.
    """

    def __init__(
        self, catalog: TurnCatalog, metrics: GatewayMetrics, rested_s: float = RESTED_S
    ) -> None:
        self._catalog = catalog
        self._metrics = metrics
        self._rested_s = rested_s
        self._keeping: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin, in the event loop."""
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    def end(self) -> None:
        """Read no more, in the event loop."""
        if self._keeping is not None:
            self._keeping.cancel()

    async def _keep(self) -> None:
        while True:
            before = self._requests()
            await asyncio.sleep(self._rested_s)
            # A file that cannot be written now is told to the next reader of a list.
            with suppress(PointsmanError):
                while self._is_resting(before):
                    if not await in_thread(lambda: self._catalog.keep_up(SLICE_S)):
                        break

    def _requests(self) -> int:
        return self._metrics.total("pointsman_requests_total")

    def _is_resting(self, before: int) -> bool:
        return not self._metrics.in_flight and self._requests() == before
