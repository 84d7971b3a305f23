"""The end of the app: on request, by a signal, or because the terminal is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import termios
from collections.abc import Awaitable, Callable
from typing import Final

from textual.driver import Driver

from pointsman.app import Pointsman
from pointsman.conversations.conversation import Conversation
from pointsman.conversations.conversations import Conversations
from pointsman.errors import PointsmanError
from pointsman.sessions.events.session import CancelReason, Disposition
from pointsman.tui.plain import problem_line

HUNG_UP: Final = 128 + signal.SIGHUP
MOST_S: Final = 10.0
"""How long a session may take to close when its terminal is gone."""


class Shutdown:
    """Closes a session in order, whatever ends the app."""

    def __init__(self, pointsman: Pointsman) -> None:
        self._pointsman = pointsman
        self._task: asyncio.Task[None] | None = None
        self.conversation: Conversation | None = None
        self.owned: Conversations | None = None
        """The conversations that the app opened itself, and closes."""
        self.wait_drawn: Callable[[], Awaitable[None]] | None = None
        """Waits for the turn under way to be drawn to its end."""
        self.has_begun = False

    def listen(self, driver: Driver | None, leave: Callable[[], None]) -> None:
        """Listen for a closed terminal and for SIGTERM."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self.hang_up, driver)
        loop.add_signal_handler(signal.SIGTERM, leave)

    async def close(self, disposition: Disposition, reason: CancelReason) -> str | None:
        """Cancel the turn under way and end the session; return the failure, if any."""
        self.has_begun = True
        try:
            if self.conversation is not None:
                self.conversation.cancel(reason)
                if self.wait_drawn is not None:
                    await self.wait_drawn()
                await self.conversation.end(disposition)
            if self.owned is not None:
                await self.owned.close()
        except (PointsmanError, OSError) as error:
            return f"error: {problem_line(error)}"
        return None

    def hang_up(self, driver: Driver | None) -> None:
        """Close the session, then exit at once: the terminal is gone."""
        if self._task is not None:
            return
        if driver is not None:
            # No terminal reads the output any more: a write would wait for ever.
            driver.write = _discard  # type: ignore[method-assign] # it has no other switch
        self._task = asyncio.get_running_loop().create_task(self._close_and_exit())

    async def _close_and_exit(self) -> None:
        try:
            async with asyncio.timeout(MOST_S):
                await self.close("abandoned", "client_disconnect")
            self._pointsman.close()
        finally:
            # Exit even after a failure: an app without a terminal would run for ever.
            os._exit(HUNG_UP)

    @property
    def is_hung_up(self) -> bool:
        """Whether the terminal is gone."""
        return self._task is not None or is_terminal_gone()


def is_terminal_gone() -> bool:
    """Return whether standard input has lost its terminal."""
    try:
        termios.tcgetattr(0)
    except (OSError, termios.error):
        return True
    return False


def _discard(data: str) -> None:  # noqa: ARG001 - the driver names it
    return
