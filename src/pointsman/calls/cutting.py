"""Calls cut off by an order while they are under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from pointsman.errors import OverBudget, TurnStopped
from pointsman.providers.port import UpstreamError

NOT_MADE = (OverBudget, TurnStopped)
"""Why a call that was decided on is not made."""


class Cuttable(Protocol):
    """The code that makes a call, as an order reaches it."""

    def cut_off(self, why: str) -> None:
        """Cut the call off; from any thread."""
        ...


class TaskCut:
    """Cuts off a call that the current task waits for, by cancelling the task."""

    __slots__ = ("_is_under_way", "_task", "_why")

    def __init__(self, is_under_way: Callable[[TaskCut], bool]) -> None:
        self._is_under_way = is_under_way
        self._task = asyncio.current_task()
        self._why = ""

    def cut_off(self, why: str) -> None:
        """Cut the call off; from any thread."""
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._cancel, why)

    def pop_error(self) -> UpstreamError | None:
        """Return the error of the cut where that cancelled the task, which then goes on."""
        why, self._why = self._why, ""
        if not why or self._task is None:
            return None
        self._task.uncancel()
        return cut_error(why)

    def _cancel(self, why: str) -> None:
        # The task may be at another call by now, or wait for its caller.
        if self._task is not None and self._is_under_way(self) and not self._why:
            self._why = why
            self._task.cancel()


def cut_error(why: str) -> UpstreamError:
    """Return the error of a call that was cut off."""
    return UpstreamError(why, error_class="stopped")
