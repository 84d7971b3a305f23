"""The live feed: durable entries of the ledger, sent to its readers.

A reader that is too slow loses the oldest events, and is told how many; the feed never waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from pointsman.errors import TooManyReaders
from pointsman.kernel.entry import Entry

MOST_READERS: Final = 64
MOST_WAITING: Final = 1000

Written = Callable[[Entry], bytes | None]
"""Writes an entry as an event; none where it is not for readers."""

Owner = Callable[[Entry], str | None]
"""Names the tenant that an entry is about, empty for none; None where it concerns all."""


class Reader:
    """One who follows the feed, as far as `reach` lets it see: a tenant's events, or all."""

    def __init__(self, most: int = MOST_WAITING, reach: str | None = None) -> None:
        self.reach = reach
        self._waiting: deque[bytes] = deque()
        self._most = most
        self._dropped = 0
        self._bell = asyncio.Event()
        self.has_ended = False

    def offer(self, event: bytes) -> None:
        """Have an event wait to be read; the oldest makes room."""
        if len(self._waiting) >= self._most:
            self._waiting.popleft()
            self._dropped += 1
        self._waiting.append(event)
        self._bell.set()

    def end(self) -> None:
        """End the feed after the waiting events."""
        self.has_ended = True
        self._bell.set()

    async def next(self, timeout_s: float) -> bytes:
        """Return all waiting events; nothing if none came in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._bell.wait()
        except TimeoutError:
            return b""
        self._bell.clear()
        found = b"".join(self._waiting)
        self._waiting.clear()
        dropped, self._dropped = self._dropped, 0
        if dropped:
            found = sse("dropped", b'{"events":%d}' % dropped) + found
        return found


class Feed:
    """Tells readers in one event loop what a commit thread made durable."""

    def __init__(
        self, written: Written, most_readers: int = MOST_READERS, owner: Owner = lambda _: None
    ) -> None:
        self._written = written
        self._owner = owner
        self._most = most_readers
        self._readers: list[Reader] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self.look: Callable[[], None] | None = None
        """Looks for entries of other processes, where a reader begins; blocks."""

    @property
    def readers(self) -> int:
        """How many follow."""
        return len(self._readers)

    def join(self, reach: str | None = None) -> Reader:
        """Follow from now on: the events of one tenant, or all."""
        if len(self._readers) >= self._most:
            raise TooManyReaders(hint=f"{self._most} follow already")
        self._loop = asyncio.get_running_loop()
        reader = Reader(reach=reach)
        self._readers.append(reader)
        return reader

    def leave(self, reader: Reader) -> None:
        """Follow no more."""
        self._readers.remove(reader)

    def publish(self, entries: Sequence[Entry]) -> None:
        """Publish durable entries; from the commit thread."""
        loop = self._loop
        if self._readers and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._tell, entries)

    def tell(self, event: bytes) -> None:
        """Tell an event that was written already; from any thread."""
        loop = self._loop
        if self._readers and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._offer, [(None, event)])

    def end(self) -> None:
        """Let every reader go; in the event loop."""
        for reader in self._readers:
            reader.end()

    def _tell(self, entries: Sequence[Entry]) -> None:
        is_limited = any(each.reach is not None for each in self._readers)
        events = []
        for entry in entries:
            owner = self._owner(entry) if is_limited else None
            event = self._written(entry)
            if event is not None:
                events.append((owner, event))
        self._offer(events)

    def _offer(self, events: Sequence[tuple[str | None, bytes]]) -> None:
        for reader in self._readers:
            for owner, event in events:
                if reader.reach is None or owner in {None, reader.reach}:
                    reader.offer(event)


def sse(name: str, data: bytes, event_id: str = "") -> bytes:
    """Write a server-sent event; the data is JSON on one line."""
    head = f"id: {event_id}\nevent: {name}\n" if event_id else f"event: {name}\n"
    return head.encode() + b"data: " + data + b"\n\n"
