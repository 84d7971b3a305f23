"""What a model says, drawn as markdown while it arrives."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from textual.widgets import Markdown

from pointsman.tui.plain import plain

FRAME_S: Final = 0.05
REST: Final = 3
"""Of each stretch of time at most a quarter is spent on drawing, however long the answer is."""


class Answer(Markdown):
    """Markdown that grows; what arrives faster than it can be drawn is drawn together."""

    def __init__(self, text: str = "", classes: str = "") -> None:
        super().__init__(plain(text) or None, classes=classes, open_links=False)
        self._waiting: list[str] = []
        self._drawing: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def write(self, text: str) -> None:
        """Take more of it."""
        self._waiting.append(text)
        if self._drawing is None:
            self._drawing = asyncio.get_running_loop().create_task(self._draw())

    async def finish(self) -> None:
        """Draw the rest at once."""
        self._hurry.set()
        if self._drawing is not None:
            await self._drawing

    async def _draw(self) -> None:
        while self._waiting and self.is_attached:
            text = plain("".join(self._waiting))
            self._waiting.clear()
            started = time.perf_counter()
            await self.append(text)
            await self._rest((time.perf_counter() - started) * REST)
        self._drawing = None

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(FRAME_S, seconds)):
                await self._hurry.wait()
        except TimeoutError:
            return
