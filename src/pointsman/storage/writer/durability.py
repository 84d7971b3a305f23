"""Waiting for the ledger from an event loop: one wake-up a group of entries, not one an entry."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from pointsman.storage.writer.group import Waiter


class LoopBridge:
    """Carries the results of commit threads into the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self.ready: deque[Durability] = deque()
        """Waiters whose results have all arrived; appended to by commit threads."""
        self.counting = threading.Lock()

    def after_group(self) -> None:
        """Wake every queued waiter in the event loop; called by the committing thread."""
        if not self.ready:
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
        ready = self.ready
        while ready:
            ready.popleft().resume()


class Durability:
    """Everything of one turn that must be on disk before a byte of its answer leaves."""

    __slots__ = ("_arrived", "_bridge", "_expected", "_then", "_waiter", "error")

    def __init__(self, bridge: LoopBridge) -> None:
        self._bridge = bridge
        self._expected = 0  # counted in the event loop
        self._arrived = 0  # counted in commit threads
        self.error: BaseException | None = None
        """Why something could not be made durable; None while nothing failed."""
        self._waiter: asyncio.Future[None] | None = None
        self._then: Callable[[], None] | None = None

    def expect(self) -> Waiter:
        """Wait for one thing more."""
        self._expected += 1
        return self

    def expect_future(self, storing: Future[None]) -> None:
        """Wait for one thing more that another store keeps."""
        waiter = self.expect()

        def tell(done: Future[None]) -> None:
            error = done.exception()
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
            self._bridge.after_group()

        storing.add_done_callback(tell)

    def set_result(self, _result: object, /) -> None:
        """One thing is durable; from a commit thread."""
        # Counted where it happens: the event loop is woken for the last of several things alone.
        # Should one more be expected just now, it is woken once too often, and looks again.
        bridge = self._bridge
        with bridge.counting:
            self._arrived += 1
        if self._arrived >= self._expected:
            bridge.ready.append(self)

    def set_exception(self, error: BaseException, /) -> None:
        """One thing could not be made durable; from a commit thread."""
        with self._bridge.counting:
            self.error = self.error or error
        self.set_result(None)

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
        if self.error is not None:
            raise self.error
