"""The server on standard input and output: one agent, one process, ended by either of them.

Not the SDK's own transport: it reads in a thread that nothing can end, so that a server told to
stop would wait for its client's next word. Whatever else writes to standard output, or reads from
standard input, gets standard error and nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Final

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from pointsman.app import Pointsman
from pointsman.mcp.server import ToolServer
from pointsman.mcp.visitor import HomeOwner, Service

WRITER: Final = "mcp"
LONGEST_LINE: Final = 16 * 1024 * 1024
LAST_WORDS_S: Final = 2.0
"""How long a client may take to read the last messages."""
_PIECE: Final = 1 << 16

Incoming = SessionMessage | Exception


def serve(pointsman: Pointsman, workspace: str | None = None, missing: Sequence[str] = ()) -> None:
    """Serve until the client closes standard input, or a signal tells to stop.

    The client is told of the `missing` keys.
    """
    with _claim_standard_streams() as (source, target):
        asyncio.run(_serve(pointsman, workspace, missing, source, target))


async def _serve(
    pointsman: Pointsman, workspace: str | None, missing: Sequence[str], source: int, target: int
) -> None:
    owner = HomeOwner(workspace)
    service = Service(pointsman, lambda: pointsman.conversations.services, keeps_session=True)
    made = ToolServer(service, lambda _request: owner, missing)
    into, read = anyio.create_memory_object_stream[Incoming](0)
    write, out_of = anyio.create_memory_object_stream[SessionMessage](0)
    loop = asyncio.get_running_loop()
    threading.Thread(target=_read_on, args=(source, into, loop), daemon=True).start()
    writing = asyncio.ensure_future(_write(target, out_of))
    running = asyncio.ensure_future(
        made.server.run(read, write, made.server.create_initialization_options())
    )
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, running.cancel)
    # A client that is gone, or does not take its answers any more, ends the server as well.
    writing.add_done_callback(lambda _: running.cancel())
    await _over(running)
    write.close()
    await asyncio.wait({writing}, timeout=LAST_WORDS_S)
    writing.cancel()
    await made.delegations.close()
    if "conversations" in pointsman.__dict__:
        await pointsman.conversations.close()


async def _over(running: asyncio.Task[None]) -> None:
    """Wait until the server has ended by itself, or as it was told to."""
    try:
        with suppress(asyncio.CancelledError):
            await running
    except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
        # The SDK hands messages on between tasks of its own: cancelled at once, one of them may
        # find that the other is gone.
        if not running.cancelling():
            raise


def _read_on(
    source: int, into: MemoryObjectSendStream[Incoming], loop: asyncio.AbstractEventLoop
) -> None:
    """Hand on line by line, no faster than they are taken; nothing more after the end.

    In a thread that ends with the process: a read cannot be broken off.
    """
    with suppress(RuntimeError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        for line in _lines(source):
            asyncio.run_coroutine_threadsafe(into.send(_parse(line)), loop).result()
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(into.close)


def _lines(source: int) -> Iterator[bytes]:
    held = bytearray()
    while piece := os.read(source, _PIECE):
        held += piece
        if b"\n" in piece:
            *whole, rest = bytes(held).split(b"\n")
            held = bytearray(rest)
            yield from (line for line in whole if line.strip())
        elif len(held) > LONGEST_LINE:
            raise OSError("a line without end")
    if held.strip():
        yield bytes(held)


def _parse(line: bytes) -> Incoming:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write(target: int, out_of: MemoryObjectReceiveStream[SessionMessage]) -> None:
    """Write messages in a thread: a client that does not read must not hold up the others."""
    todo: SimpleQueue[tuple[bytes, Future[None]]] = SimpleQueue()
    threading.Thread(target=_write_on, args=(target, todo), daemon=True).start()
    with suppress(OSError):
        async for each in out_of:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            done: Future[None] = Future()
            todo.put((text.encode() + b"\n", done))
            await asyncio.wrap_future(done)


def _write_on(target: int, todo: SimpleQueue[tuple[bytes, Future[None]]]) -> None:
    while True:
        data, done = todo.get()
        if not done.set_running_or_notify_cancel():
            continue
        try:
            while data:
                data = data[os.write(target, data) :]
        except OSError as error:
            done.set_exception(error)
            return
        done.set_result(None)


@contextmanager
def _claim_standard_streams() -> Iterator[tuple[int, int]]:
    """Take standard input and output for the protocol alone."""
    sys.stdout.flush()
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield source, target
    finally:
        os.dup2(target, 1)
