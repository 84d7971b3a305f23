"""Work that blocks, beside the event loop: told how far it is, and stopped with its call.

INVARIANT: when a call is over, so is its thread: nothing reads a ledger that is being closed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

import anyio

from pointsman.audit.replay import Progress
from pointsman.mcp.tool import Report

T = TypeVar("T")


class Stopped(Exception):
    """no caller waits for this work any more"""


async def in_thread(work: Callable[[], T]) -> T:
    """Do some work in a thread; a call that is cancelled still waits for its end."""
    running = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(running)
    finally:
        await _over(running)


async def with_progress(work: Callable[[Progress], T], report: Report) -> T:
    """Do some work in a thread and tell how far it is; a cancelled call stops it at its next step.

    A slow listener is told of the latest step only.
    """
    loop = asyncio.get_running_loop()
    news, latest, stopping = asyncio.Event(), [(0, 0)], threading.Event()
    told = latest[0]

    def progress(done: int, total: int) -> None:
        if stopping.is_set():
            raise Stopped
        latest[0] = (done, total)
        loop.call_soon_threadsafe(news.set)

    running = loop.run_in_executor(None, lambda: work(progress))
    running.add_done_callback(lambda _: news.set())
    try:
        while not running.done():
            await news.wait()
            news.clear()
            if latest[0] != told:
                told = latest[0]
                await report(*told)
        return running.result()
    finally:
        stopping.set()
        await _over(running)


async def _over(running: asyncio.Future[T]) -> None:
    """Wait for a thread's end, whatever becomes of the call."""
    with anyio.CancelScope(shield=True):
        await asyncio.wait({running})
    if not running.cancelled():
        running.exception()
