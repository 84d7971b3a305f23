"""The model's process as the gateway holds it: started, spoken to in frames, ended."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from pointsman.providers.embedded.frames import (
    AskFrame,
    BrokenFrame,
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
    Reply,
    ToWorker,
    encode,
    gateway_reader,
)
from pointsman.providers.port import UpstreamError

# Secrets of the gateway have no business in the model's process, nor have settings of llama.cpp.
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TMPDIR", "TZ")
_REAP_S = 1.0


class WorkerCall:
    """One request to the model's process, and its replies so far.

    `on_end` is called once, as soon as the process has nothing more to do for it.
    """

    def __init__(self, process: ModelProcess, number: int, on_end: Callable[[], None]) -> None:
        self._process = process
        self._number = number
        self._on_end = on_end
        self._replies: asyncio.Queue[Reply | UpstreamError] = asyncio.Queue()
        self._is_ended = False

    async def reply(self) -> Reply:
        """Return the next reply; raises when the process is lost."""
        reply = await self._replies.get()
        if isinstance(reply, UpstreamError):
            raise reply
        return reply

    def take(self, reply: Reply | UpstreamError) -> None:
        """Keep a reply until it is read."""
        self._replies.put_nowait(reply)
        if not isinstance(reply, HeadFrame | PieceFrame):
            self._end()

    def cancel(self) -> None:
        """Have the process stop working on it."""
        if not self._is_ended:
            self._process.write(CancelFrame(self._number))
            self._end()

    def _end(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._process.calls.pop(self._number, None)
            self._on_end()


class ModelProcess(asyncio.Protocol):
    """A running worker. `on_lost` is called once, when it has ended by itself or was killed."""

    def __init__(self, on_lost: Callable[[str], None]) -> None:
        self.calls: dict[int, WorkerCall] = {}
        self.is_alive = False
        self.ready: asyncio.Future[ReadyFrame] = asyncio.get_running_loop().create_future()
        self._on_lost = on_lost
        self._numbers = itertools.count(1)
        self._frames = gateway_reader()
        self._transport: asyncio.WriteTransport | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._folder = ""
        self._end: asyncio.Task[None] | None = None

    async def start(self, order: LoadFrame, *, niceness: int, load_s: float) -> None:
        """Start the process and wait until its model is loaded; on failure nothing is left."""
        self._folder = tempfile.mkdtemp(prefix="pointsman-")
        try:
            await self._spawn(niceness)
            self.write(replace(order, folder=self._folder))
            async with asyncio.timeout(load_s):
                await asyncio.shield(self.ready)
        except TimeoutError:
            message = f"the embedded model was not loaded within {load_s:g} s"
            raise UpstreamError(message, error_class="timeout") from None
        finally:
            if not self.ready.done() or self.ready.exception() is not None:
                await self.kill()

    def ask(self, body: bytes, on_end: Callable[[], None]) -> WorkerCall:
        """Ask for a chat completion."""
        return self._call(lambda number: AskFrame(number, body), on_end)

    async def count(self, text: str) -> int:
        """Count the tokens of a text."""
        return await self._await_count(lambda number: CountFrame(number, text))

    async def ping(self) -> None:
        """Wait for a sign of life from the engine itself."""
        await self._await_count(PingFrame)

    async def kill(self) -> None:
        """End the process now and wait until nothing of it is left."""
        if self._child is not None:
            self._child.kill()
        if self._transport is not None:
            self._transport.abort()
        self._lose()
        if self._end is not None:
            await asyncio.shield(self._end)

    @property
    def pid(self) -> int | None:
        """The process's number."""
        return self._child.pid if self._child else None

    def write(self, message: ToWorker) -> None:
        """Send a message; a process that is gone gets none."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode(message))

    def data_received(self, data: bytes) -> None:
        """Decode incoming frames and dispatch them."""
        try:
            for message in self._frames.feed(data):
                self._take(message)
        except BrokenFrame:
            self._lose()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notice that the process has gone."""
        del exc
        self._lose()

    async def _spawn(self, niceness: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            # A new process group: the terminal's Ctrl-C is for the gateway, which then ends this.
            self._child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                _command(theirs.fileno(), niceness),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,
            )
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_unix_connection(lambda: self, sock=ours)
        self.is_alive = True

    def _call(self, message: Callable[[int], ToWorker], on_end: Callable[[], None]) -> WorkerCall:
        number = next(self._numbers)
        call = WorkerCall(self, number, on_end)
        if self.is_alive:
            self.calls[number] = call
            self.write(message(number))
        else:
            call.take(_lost("has ended"))
        return call

    async def _await_count(self, message: Callable[[int], ToWorker]) -> int:
        call = self._call(message, lambda: None)
        try:
            reply = await call.reply()
        finally:
            call.cancel()
        if isinstance(reply, DoneFrame):
            return reply.tokens
        raise _lost("did not count")

    def _take(self, message: FromWorker) -> None:
        match message:
            case ReadyFrame() if not self.ready.done():
                self.ready.set_result(message)
            case RefusedFrame() if not self.ready.done():
                self.ready.set_exception(UpstreamError(message.message, error_class="server_error"))
            case HeadFrame() | PieceFrame() | DoneFrame() | FailedFrame() if (
                message.id in self.calls
            ):
                self.calls[message.id].take(message)

    def _lose(self) -> None:
        self.is_alive = False
        if self._end is None:
            self._end = asyncio.get_running_loop().create_task(self._end_process())

    async def _end_process(self) -> None:
        """Reap the process, then tell everybody who waits for it how it ended."""
        if self._transport is not None:
            self._transport.abort()
        how = await asyncio.to_thread(_reap, self._child, self._folder)
        if not self.ready.done():
            self.ready.set_exception(_lost(f"{how} while it loaded"))
        # Read in any case: a future without a waiter would warn.
        refusal = self.ready.exception()
        for call in [*self.calls.values()]:
            call.take(_lost(how))
        self._on_lost(refusal.message if isinstance(refusal, UpstreamError) else _lost(how).message)


def _lost(how: str) -> UpstreamError:
    return UpstreamError(f"the embedded model's process {how}", error_class="server_error")


def _command(descriptor: int, niceness: int) -> list[str]:
    module = "pointsman.providers.embedded.worker"
    arguments = map(str, (descriptor, os.getpid(), niceness))
    # -P: a file in the working folder must not stand in for a module.
    return [sys.executable, "-P", "-m", module, *arguments]


def _environment() -> dict[str, str]:
    # The engine's threads wait for each other by sleeping: spinning would take the gateway's time.
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**passed, "OMP_WAIT_POLICY": "passive"}


def _reap(child: subprocess.Popen[bytes] | None, folder: str) -> str:
    code = None
    if child is not None:
        try:
            code = child.wait(_REAP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            code = child.wait()
    shutil.rmtree(folder, ignore_errors=True)
    return _how(code)


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was ended by signal {-code} ({signal.Signals(-code).name})"
    return f"ended with code {code}"


def memory_bytes(pid: int) -> int | None:
    """Return how much memory a process holds; None where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    return None
