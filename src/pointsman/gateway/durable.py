"""Waiting for the ledger from an event loop: one wake-up a group of entries, not one an entry."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable

from pointsman.storage.sqlite.group import Settled


class LoopBridge:
    """Carries what commit threads say into the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._told: deque[tuple[Durability, BaseException | None]] = deque()

    def tell(self, who: Durability, error: BaseException | None) -> None:
        """Note what to tell whom; from a commit thread."""
        self._told.append((who, error))

    def after_group(self) -> None:
        """Have everything noted so far told in the loop; from whoever committed it."""
        if not self._told:
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
        told = self._told
        while told:
            who, error = told.popleft()
            who.arrived(error)


class Durability:
    """Everything of one turn that must be on disk before a byte of its answer leaves."""

    __slots__ = ("_bridge", "_error", "_left", "_waiter")

    def __init__(self, bridge: LoopBridge) -> None:
        self._bridge = bridge
        self._left = 0
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None

    def expect(self) -> Settled:
        """Wait for one thing more."""
        self._left += 1
        return self

    def set_result(self, _result: object, /) -> None:
        """One thing is durable; from a commit thread."""
        self._bridge.tell(self, None)

    def set_exception(self, error: BaseException, /) -> None:
        """One thing could not be made durable; from a commit thread."""
        self._bridge.tell(self, error)

    def arrived(self, error: BaseException | None) -> None:
        """Count one thing; in the event loop."""
        self._left -= 1
        self._error = self._error or error
        waiter = self._waiter
        if waiter is not None and not waiter.done() and not self._left:
            waiter.set_result(None)

    async def reached(self) -> None:
        """Return once all of it is durable; raises what the ledger raised."""
        while self._left:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._error is not None:
            raise self._error


class Unwatched:
    """Nobody waits for this entry: its loss would be told by the ledger's health."""

    __slots__ = ()

    def set_result(self, _result: object, /) -> None:
        """Take no notice."""

    def set_exception(self, _error: BaseException, /) -> None:
        """Take no notice."""


UNWATCHED = Unwatched()
