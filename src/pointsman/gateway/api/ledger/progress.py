"""Long work, told as server-sent events: its progress, then its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from pointsman.audit.replay import Progress
from pointsman.errors import PointsmanError
from pointsman.gateway.serving.feed import sse
from pointsman.gateway.serving.http import EVENTS, NO_STORE, Asked, Send, in_thread

Work = Callable[[Progress], object]
"""Does the work, reports its progress, and returns the result."""


def wants_events(asked: Asked) -> bool:
    """Tell whether a caller wants to be told how far the work is."""
    return asked.header(b"accept").startswith("text/event-stream")


async def stream_progress(send: Send, work: Work) -> None:
    """Do some work in a thread, and tell how far it is until it is done."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[bytes | None] = asyncio.Queue()

    def tell(done: int, total: int) -> None:
        event = sse("progress", msgspec.json.encode({"done": done, "total": total}))
        loop.call_soon_threadsafe(waiting.put_nowait, event)

    task = asyncio.ensure_future(in_thread(lambda: work(tell)))
    task.add_done_callback(lambda _: waiting.put_nowait(None))
    await send.begin(200, [EVENTS, NO_STORE, (b"x-accel-buffering", b"no")], b": begun\n\n")
    while (event := await waiting.get()) is not None:
        await send.more(event)
    await send.more(_ending(task))
    send.end()


def _ending(task: asyncio.Future[object]) -> bytes:
    error = task.exception()
    if error is None:
        return sse("result", msgspec.json.encode(task.result()))
    if isinstance(error, PointsmanError):
        told = {"error_code": error.code, "user_message": error.message}
        return sse("failed", msgspec.json.encode(told))
    raise error
