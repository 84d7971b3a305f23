"""Asking whoever reads a conversation's updates: each question waits for its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from pointsman.errors import NotFound
from pointsman.sessions.tool import Answered, Asked
from pointsman.sessions.update import Confirm, Update

T = TypeVar("T")


class Question(Generic[T]):
    """One question at a time, answered from elsewhere in the event loop."""

    def __init__(self) -> None:
        self._waiting: asyncio.Future[T] | None = None

    @property
    def is_open(self) -> bool:
        """Whether an answer is waited for."""
        return self._waiting is not None and not self._waiting.done()

    async def ask(self) -> T:
        """Wait for the answer."""
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def answer(self, value: T) -> bool:
        """Answer, if anybody asks; tells whether somebody did."""
        if self._waiting is None or self._waiting.done():
            return False
        self._waiting.set_result(value)
        return True


class ShownConfirmer:
    """Shows what a tool wants to do, and waits for `answer`; several may wait side by side."""

    def __init__(self, show: Callable[[Update], None]) -> None:
        self._show = show
        self._waiting: dict[str, asyncio.Future[Answered]] = {}

    async def ask(self, asked: Asked) -> Answered:
        """Show a request and wait."""
        waiting: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting[asked.id] = waiting
        self._show(Confirm(asked))
        try:
            return await waiting
        finally:
            self._waiting.pop(asked.id, None)

    def answer(self, request_id: str, answered: Answered) -> None:
        """Answer a request by its id."""
        waiting = self._waiting.get(request_id)
        if waiting is None or waiting.done():
            raise NotFound(f"nobody waits for an answer to `{request_id}`")
        waiting.set_result(answered)
