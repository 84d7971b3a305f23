"""Group commit: one thread gathers what many callers hand in and commits it together.

A synced commit costs milliseconds; sharing one among up to 64 callers is what makes full
durability affordable. Knows nothing about SQL.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar, cast

from pointsman.errors import LedgerUnavailable

T = TypeVar("T")
R = TypeVar("R")

MOST = 64
LINGER_S = 0.002
MOST_WAITING = 10_000


class Settled(Protocol):
    """Whoever waits for an item; told from the commit thread."""

    def set_result(self, result: object, /) -> None:
        """Take the result: the item is durable."""
        ...

    def set_exception(self, error: BaseException, /) -> None:
        """Take the error: nothing was acknowledged."""
        ...


class GroupCommit(Generic[T, R]):
    """A thread that commits what is handed in, in order, in groups.

    `commit` makes a group durable and gives one result per item; `rest` runs after every group and
    whenever `due` seconds have passed, and says when it wants to run again.
    """

    def __init__(
        self,
        name: str,
        commit: Callable[[Sequence[T]], Sequence[R]],
        rest: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._commit = commit
        self._rest = rest
        self._queue: SimpleQueue[tuple[T, Settled] | None] = SimpleQueue()
        self.after_group: Callable[[], None] = _nothing
        """Called from the commit thread when all of a group were told."""
        self._closed = ""
        self._last = 1  # the size of the last group
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def closed(self) -> str:
        """Say why nothing is taken any more; empty while the group is open."""
        return self._closed

    def submit(self, item: T) -> Future[R]:
        """Hand in one item; the future is done when the item is durable."""
        future: Future[R] = Future()
        # What was handed in cannot be withdrawn: a cancelled future would refuse its result.
        future.set_running_or_notify_cancel()
        self.hand_in(item, cast(Settled, future))
        return future

    def hand_in(self, item: T, settled: Settled) -> None:
        """Hand in one item, and tell somebody when it is durable."""
        with self._lock:
            if self._closed:
                raise LedgerUnavailable(self._closed)
            if self._queue.qsize() >= MOST_WAITING:
                raise LedgerUnavailable(f"{MOST_WAITING} entries wait to be written already")
            self._queue.put((item, settled))

    def close(self) -> None:
        """Commit what was handed in, then end the thread."""
        with self._lock:
            if not self._closed:
                self._closed = "the ledger was closed"
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:  # noqa: BLE001 - a thread's outermost edge: callers get the error
            self._give_up(f"writing ended: {type(error).__name__}: {error}")

    def _serve(self) -> None:
        due: float | None = None
        is_open = True
        while is_open:
            batch, is_open = self._gathered(due)
            if batch:
                self._settle(batch)
                self._last = len(batch)
            due = self._rest()

    def _give_up(self, why: str) -> None:
        with self._lock:
            self._closed = why
            while not self._queue.empty():
                waiting = self._queue.get()
                if waiting is not None:
                    waiting[1].set_exception(LedgerUnavailable(why))
        self.after_group()

    def _gathered(self, due: float | None) -> tuple[list[tuple[T, Settled]], bool]:
        try:
            first = self._queue.get(timeout=due)
        except Empty:
            return [], True
        if first is None:
            return [], False
        batch = [first]
        # Lingering pays until as many as last time are there: those callers come again, others
        # would be waited for in vain.
        deadline = time.monotonic() + LINGER_S
        while len(batch) < MOST:
            left = deadline - time.monotonic() if len(batch) < self._last else 0.0
            try:
                item = self._queue.get(timeout=max(0.0, left))
            except Empty:
                break
            if item is None:
                return batch, False
            batch.append(item)
        return batch, True

    def _settle(self, batch: list[tuple[T, Settled]]) -> None:
        try:
            results = self._commit([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - a thread's outermost edge: callers get the error
            for _, settled in batch:
                settled.set_exception(error)
            self.after_group()
            return
        for (_, settled), result in zip(batch, results, strict=True):
            settled.set_result(result)
        self.after_group()


def _nothing() -> None:
    """Do nothing after a group."""
