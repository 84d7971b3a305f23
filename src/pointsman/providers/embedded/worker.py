"""The model's process: loads the model and answers frames until the gateway is gone.

Started as `python -m pointsman.providers.embedded.worker FD PARENT NICENESS`.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from pointsman.providers.embedded.engine import Engine, EngineError, load
from pointsman.providers.embedded.frames import (
    AskFrame,
    CancelFrame,
    CountFrame,
    DoneFrame,
    FailedFrame,
    FromWorker,
    HeadFrame,
    LoadFrame,
    PieceFrame,
    PingFrame,
    ReadyFrame,
    RefusedFrame,
    ToWorker,
    encode,
    worker_reader,
)
from pointsman.providers.lifetime import follow

_ERROR_EVENT = b'data: {"error"'

Send = Callable[[FromWorker], Awaitable[None]]


class _EngineFault(Struct, frozen=True):
    """What the engine says when it refuses."""

    message: str = "the engine gave no reason"
    code: int = 500
    n_prompt_tokens: int = 0
    n_ctx: int = 0


class _EngineError(Struct, frozen=True):
    """The engine's error document."""

    error: _EngineFault


class _Tokens(Struct, frozen=True):
    """The engine's answer to a text: its tokens."""

    tokens: list[int]


class _Slot(Struct, frozen=True):
    """One conversation the engine has room for."""

    n_ctx: int


class RequestWorker:
    """Answers questions, each in a task of its own."""

    def __init__(self, engine: Engine, send: Send) -> None:
        self._engine = engine
        self._send = send
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def take(self, message: ToWorker) -> None:
        """Begin or end what a message asks for."""
        match message:
            case AskFrame(number, body):
                self._begin(number, self._chat(number, body))
            case CountFrame(number, text):
                self._begin(number, self._count(number, text))
            case PingFrame(number):
                self._begin(number, self._pong(number))
            case CancelFrame(number) if number in self._tasks:
                self._tasks[number].cancel()

    def _begin(self, number: int, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._run_guarded(number, work))
        self._tasks[number] = task
        task.add_done_callback(lambda _task: self._tasks.pop(number, None))

    async def _run_guarded(self, number: int, work: Awaitable[None]) -> None:
        try:
            await work
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            await self._send(FailedFrame(number, 500, f"the engine broke off: {error}"))

    async def _chat(self, number: int, body: bytes) -> None:
        async with self._engine.exchange("/v1/chat/completions", body) as response:
            if response.status != 200:
                await self._send(_failed_frame(number, response.status, await response.read()))
                return
            await self._send(HeadFrame(number, response.content_type))
            async for piece in response.pieces():
                if piece.startswith(_ERROR_EVENT):
                    await self._send(_failed_frame(number, 500, piece.removeprefix(b"data: ")))
                    return
                await self._send(PieceFrame(number, piece))
        await self._send(DoneFrame(number))

    async def _count(self, number: int, text: str) -> None:
        question = {"content": text, "add_special": False, "parse_special": False}
        async with self._engine.exchange("/tokenize", msgspec.json.encode(question)) as response:
            body = await response.read()
        await self._send(DoneFrame(number, len(msgspec.json.decode(body, type=_Tokens).tokens)))

    async def _pong(self, number: int) -> None:
        await slots(self._engine)
        await self._send(DoneFrame(number))


async def slots(engine: Engine) -> list[_Slot]:
    """Ask the engine's own loop for its slots; a stuck one does not answer."""
    async with engine.exchange("/slots") as response:
        return msgspec.json.decode(await response.read(), type=list[_Slot])


def _failed_frame(number: int, status: int, body: bytes) -> FailedFrame:
    try:
        fault = msgspec.json.decode(body.strip(), type=_EngineError).error
    except msgspec.MsgspecError:
        fault = _EngineFault(code=status)
    return FailedFrame(number, fault.code, fault.message, fault.n_prompt_tokens, fault.n_ctx)


async def serve(connection: socket.socket) -> None:
    """Load as the first frame says, then answer frames until there are no more."""
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    frames = worker_reader()
    requests: RequestWorker | None = None

    async def send(message: FromWorker) -> None:
        writer.write(encode(message))
        await writer.drain()

    while data := await reader.read(1 << 16):
        for message in frames.feed(data):
            if isinstance(message, LoadFrame):
                requests = await _load_model(message, send)
            elif requests is not None:
                requests.take(message)


async def _load_model(order: LoadFrame, send: Send) -> RequestWorker | None:
    began = time.monotonic()
    try:
        engine = load(order)
        room = await slots(engine)
    except EngineError as error:
        await send(RefusedFrame(str(error)))
        return None
    load_ms = round((time.monotonic() - began) * 1000)
    await send(ReadyFrame(room[0].n_ctx, load_ms, memory_limit()))
    return RequestWorker(engine, send)


def memory_limit() -> int | None:
    """Return the most memory this process may have, in bytes; None without a limit."""
    limits = [resource.getrlimit(resource.RLIMIT_AS)[0]]
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        text = "max"
    limits += [int(text)] if text.isdigit() else []
    return min((each for each in limits if each != resource.RLIM_INFINITY), default=None)


def settle(parent: int, niceness: int) -> None:
    """Live no longer than the parent, leave the terminal's signals to it, and step back for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    follow(parent)
    os.nice(niceness)


def main() -> None:
    """Run the process."""
    descriptor, parent, niceness = map(int, sys.argv[1:4])
    settle(parent, niceness)
    code = 1
    try:
        asyncio.run(serve(socket.socket(fileno=descriptor)))
        code = 0
    finally:
        # The engine's threads have nothing to put in order, and may not be able to end.
        os._exit(code)


if __name__ == "__main__":
    main()
