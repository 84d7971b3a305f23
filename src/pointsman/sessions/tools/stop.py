"""Stopping a call that runs in a thread of its own, and waiting until it has.

A thread of its own, because nothing else may wait for a tool that hangs; a daemon, because the
process must be able to end while one does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

from pointsman.sessions.tools.failure import CallFailed

T = TypeVar("T")

GIVE_UP_S = 30
"""A call that was asked to stop is abandoned after this. Companion §2.4."""


class Stop:
    """A request to stop: a thread checks it between two steps, or registers a callback."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._is_requested = False

    @property
    def is_requested(self) -> bool:
        """Whether the call should stop."""
        return self._is_requested

    def request(self) -> None:
        """Ask the call to stop; repeating it has no effect."""
        # Under the lock: once `forget` has returned, the call's resources may be torn down.
        with self._lock:
            called, self._callbacks, self._is_requested = self._callbacks, [], True
            for each in called:
                each()

    def on_request(self, call: Callable[[], None]) -> None:
        """Call back, from any thread, when the call should stop; at once if it should now."""
        with self._lock:
            if self._is_requested:
                call()
            else:
                self._callbacks.append(call)

    def forget(self, call: Callable[[], None]) -> None:
        """Remove a callback; on return it is not running, nor will it run."""
        with self._lock, suppress(ValueError):
            self._callbacks.remove(call)

    def check(self) -> None:
        """Raise where the call should stop."""
        if self._is_requested:
            raise cancelled_call()

    def iterate(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items until a stop is requested."""
        for item in items:
            self.check()
            yield item


def cancelled_call() -> CallFailed:
    """Return the failure of a call that was stopped."""
    return CallFailed("cancelled", "the call was cancelled")


async def in_thread(work: Callable[[Stop], T], stop: Stop, *, give_up_s: float = GIVE_UP_S) -> T:
    """Do work in a thread; when this task is cancelled, stop the work first.

    Work that does not stop within `give_up_s` is left running, and the call fails as cancelled.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()
    requested: asyncio.Future[None] = loop.create_future()
    stop.on_request(lambda: _soon(loop, requested, lambda: requested.set_result(None)))
    threading.Thread(target=_run_work, args=(work, stop, loop, ended), daemon=True).start()
    try:
        either: list[asyncio.Future[T] | asyncio.Future[None]] = [ended, requested]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return await _after_request(ended, give_up_s)
    except asyncio.CancelledError:
        stop.request()
        await asyncio.wait([ended], timeout=give_up_s)
        raise
    finally:
        requested.cancel()
        # No waiter may be left; an unread error would cause a warning.
        ended.add_done_callback(_consume_error)


async def _after_request(ended: asyncio.Future[T], give_up_s: float) -> T:
    if not ended.done():
        await asyncio.wait([ended], timeout=give_up_s)
    if not ended.done():
        raise CallFailed("cancelled", "the call was cancelled, but did not end; it may still run")
    return ended.result()


def _run_work(
    work: Callable[[Stop], T],
    stop: Stop,
    loop: asyncio.AbstractEventLoop,
    ended: asyncio.Future[T],
) -> None:
    try:
        result = work(stop)
    except BaseException as error:  # noqa: BLE001 - carried over to the waiter
        caught = error
        _soon(loop, ended, lambda: ended.set_exception(caught))
    else:
        _soon(loop, ended, lambda: ended.set_result(result))


def _soon(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[T], act: Callable[[], None]
) -> None:
    # The loop may be closed by the time that abandoned work ends.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(lambda: None if future.done() else act())


def _consume_error(ended: asyncio.Future[T]) -> None:
    if not ended.cancelled():
        ended.exception()
