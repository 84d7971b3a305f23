"""Waiting until what was handed in is durable: for one thing or for several, by blocking."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from pointsman.storage.writer.group import Waiter


class Waits(Protocol):
    """Whoever waits for entries and texts."""

    def expect(self) -> Waiter:
        """Wait for one thing more, and give whom to tell about it."""
        ...


class Expecting:
    """What is waited for, in the order it was expected."""

    def __init__(self) -> None:
        self._futures: list[Future[object]] = []

    def expect(self) -> Waiter:
        """Wait for one thing more."""
        future: Future[object] = Future()
        # Running, so that a cancelled waiter cannot cancel it under the commit thread.
        future.set_running_or_notify_cancel()
        self._futures.append(future)
        return future


class Blocking(Expecting):
    """Waits by blocking the thread."""

    def reached(self) -> list[object]:
        """Give the results in the order they were expected, or raise the first error."""
        return [future.result() for future in self._futures]
