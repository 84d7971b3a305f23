"""Waiting for the ledger from an event loop: one wake-up a group of entries, not one an entry."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable

from pointsman.storage.writer.group import Waiter


class LoopBridge:
    """Carries the results of commit threads into the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._ready: deque[Durability] = deque()
        self.counting = threading.Lock()

    def tell(self, who: Durability) -> None:
        """Queue a waiter whose results have all arrived; from a commit thread."""
        self._ready.append(who)

    def after_group(self) -> None:
        """Wake every queued waiter in the event loop; called by the committing thread."""
        if not self._ready:
            return
        if threading.get_ident() == self._thread:
            self._deliver()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver)

    def soon(self, work: Callable[[], None]) -> None:
        """Do something when this turn of the loop is over.

        A commit thread woken in the middle of it would only wait for the interpreter's lock.
        """
        if threading.get_ident() == self._thread:
            self._loop.call_soon(work)
        else:
            work()

    def _deliver(self) -> None:
        ready = self._ready
        while ready:
            ready.popleft().resume()


class Durability:
    """Everything of one turn that must be on disk before a byte of its answer leaves."""

    __slots__ = ("_arrived", "_bridge", "_error", "_expected", "_then", "_waiter")

    def __init__(self, bridge: LoopBridge) -> None:
        self._bridge = bridge
        self._expected = 0  # counted in the event loop
        self._arrived = 0  # counted in commit threads
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._then: Callable[[], None] | None = None

    def expect(self) -> Waiter:
        """Wait for one thing more."""
        self._expected += 1
        return self

    def set_result(self, _result: object, /) -> None:
        """One thing is durable; from a commit thread."""
        self._count(None)

    def set_exception(self, error: BaseException, /) -> None:
        """One thing could not be made durable; from a commit thread."""
        self._count(error)

    def _count(self, error: BaseException | None) -> None:
        # Counted where it happens: the event loop is woken for the last of several things alone.
        # Should one more be expected just now, it is woken once too often, and looks again.
        bridge = self._bridge
        with bridge.counting:
            self._error = self._error or error
            self._arrived += 1
        if self._arrived >= self._expected:
            bridge.tell(self)

    def resume(self) -> None:
        """Wake the waiting turn; in the event loop."""
        if self._arrived < self._expected:
            return
        waiter, then = self._waiter, self._then
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        if then is not None:
            self._then = None
            then()

    @property
    def has_failed(self) -> bool:
        """Whether something could not be made durable."""
        return self._error is not None

    def then(self, ready: Callable[[], None] | None) -> None:
        """Call back once all of it is durable or has failed; at once if that is known."""
        if ready is not None and self._arrived >= self._expected:
            ready()
        else:
            self._then = ready

    async def wait(self) -> None:
        """Return once all of it is durable; raises what the ledger raised."""
        while self._arrived < self._expected:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._error is not None:
            raise self._error


class Unwatched:
    """For an entry without a waiter: the ledger's health reports its loss."""

    __slots__ = ()

    def set_result(self, _result: object, /) -> None:
        """Take no notice."""

    def set_exception(self, _error: BaseException, /) -> None:
        """Take no notice."""


UNWATCHED = Unwatched()
