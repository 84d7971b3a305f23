"""Following the chains of other processes, so that the live feed tells of all of a home."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Final

from pointsman.app import Pointsman
from pointsman.errors import LedgerError
from pointsman.gateway.serving.feed import Feed
from pointsman.gateway.serving.http import in_thread
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
