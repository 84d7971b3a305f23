"""The model's process: loads the model and answers frames until the gateway is gone.

Started as `python -m pointsman.providers.embedded.worker FD PARENT NICENESS`.
"""

from __future__ import annotations

import asyncio
import os
import resource
import secrets
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

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

# A cancelled prompt goes on to the end of its batch.
BATCH_TOKENS = 256


class EngineError(Exception):
    """the engine cannot be loaded"""


class Engine(Struct, frozen=True):
    """A loaded model. `server` is kept so that it lives."""

    server: object
    address: str
    key: str

    @asynccontextmanager
    async def exchange(self, path: str, body: bytes | None = None) -> AsyncIterator[EngineResponse]:
        """Make one request; leaving early closes the connection, which ends the work behind it."""
        reader, writer = await asyncio.open_unix_connection(self.address)
        try:
            writer.write(self._head(path, body) + (body or b""))
            yield await _response(reader)
        finally:
            writer.close()

    def _head(self, path: str, body: bytes | None) -> bytes:
        lines = [
            f"{'GET' if body is None else 'POST'} {path} HTTP/1.1",
            "Host: engine",
            f"Authorization: Bearer {self.key}",
            "Connection: close",
            *([] if body is None else ["Content-Type: application/json"]),
            *([] if body is None else [f"Content-Length: {len(body)}"]),
        ]
        return "\r\n".join([*lines, "", ""]).encode("ascii")


class EngineResponse:
    """What the engine answers: its head, then its body piece by piece."""

    def __init__(self, status: int, headers: dict[str, str], reader: asyncio.StreamReader) -> None:
        self.status = status
        self.content_type = headers.get("content-type", "application/json")
        self._is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        self._length = int(headers.get("content-length", 0))
        self._reader = reader

    async def pieces(self) -> AsyncIterator[bytes]:
        """Return the body as the engine cut it."""
        if not self._is_chunked:
            yield await self._reader.readexactly(self._length)
            return
        while size := int((await self._reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            yield (await self._reader.readexactly(size + 2))[:-2]

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([piece async for piece in self.pieces()])


def load(order: LoadFrame) -> Engine:
    """Load a model, or raise `EngineError` with what to do."""
    try:
        # Here and not above: only the model's process ever holds the library.
        import xllamacpp  # noqa: PLC0415
    except ImportError as error:
        raise EngineError(f"xllamacpp cannot be imported: {error}") from error
    key = secrets.token_hex(32)
    socket_path = Path(order.folder) / "engine.sock"
    params = xllamacpp.CommonParams()
    params.model.path = order.path
    params.model_alias = {order.alias}
    params.hostnames = [str(socket_path)]
    params.api_keys = [key]
    params.n_parallel = order.slots
    params.n_ctx = order.context_tokens * order.slots
    params.n_batch = params.n_ubatch = BATCH_TOKENS
    params.cpuparams.n_threads = order.threads
    params.cpuparams_batch.n_threads = order.prompt_threads
    params.n_threads_http = order.slots + 2
    # What llama.cpp would keep of finished conversations, up to 8 GiB, would not be ours to bound.
    params.cache_ram_mib = 0
    params.n_ctx_checkpoints = 0
    # Comments between events would hide a stuck engine from the deadline between two pieces.
    params.sse_ping_interval = 0
    params.fit_params = False
    params.warmup = False
    params.ui = False
    params.offline = True
    params.verbosity = -1
    if order.temperature is not None:
        params.sampling.temp = order.temperature
    if order.top_p is not None:
        params.sampling.top_p = order.top_p
    try:
        server = xllamacpp.Server(params)
    except (RuntimeError, ValueError) as error:
        raise EngineError(f"llama.cpp cannot load `{order.path}`: {error}") from error
    return Engine(server, _hidden(socket_path), key)


def _hidden(path: Path) -> str:
    """Take the socket's name away where the system can still reach it without one."""
    if sys.platform != "linux":
        return str(path)
    descriptor = os.open(path, os.O_PATH)
    path.unlink()
    # The gateway removes the folder too, unless it is killed.
    with suppress(OSError):
        path.parent.rmdir()
    return f"/proc/self/fd/{descriptor}"


async def _response(reader: asyncio.StreamReader) -> EngineResponse:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
    }
    return EngineResponse(int(first.split(" ", 2)[1]), headers, reader)


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
