"""Noticing that a caller hung up while a model is at work."""

from __future__ import annotations

import asyncio

from pointsman.gateway.http import Receive


class Watch:
    """Cancels the task that made it once its caller is gone."""

    __slots__ = ("_own", "_receive", "has_left")

    def __init__(self, receive: Receive) -> None:
        self.has_left = False
        self._receive = receive
        self._own = asyncio.current_task()
        receive.when_left(self._leave)

    def end(self) -> None:
        """Stop watching."""
        self._receive.when_left(None)

    def _leave(self) -> None:
        self.has_left = True
        if self._own is not None:
            self._own.cancel()
