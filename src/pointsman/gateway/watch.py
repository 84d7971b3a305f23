"""Noticing that a caller hung up while a model is at work."""

from __future__ import annotations

import asyncio

from pointsman.gateway.http import Receive

AFTER_S = 0.1
"""Most calls that end at once need no watching; it costs more than much of what they do."""


class Watch:
    """Cancels the task that made it once its caller is gone."""

    def __init__(self, receive: Receive, after_s: float = AFTER_S) -> None:
        self.has_left = False
        self._receive = receive
        self._own = asyncio.current_task()
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(after_s, self._begin)

    def end(self) -> None:
        """Stop watching."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watched())

    async def _watched(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.has_left = True
        if self._own is not None:
            self._own.cancel()
