"""The embedded model behind the provider's port: a process started on first use, kept in order."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from pointsman.errors import PointsmanError
from pointsman.providers.embedded.frames import (
    DoneFrame,
    FailedFrame,
    HeadFrame,
    LoadFrame,
    PieceFrame,
    Reply,
)
from pointsman.providers.embedded.process import ModelProcess, WorkerCall, memory_bytes
from pointsman.providers.embedded.request import engine_body, overflow, surely_overflows
from pointsman.providers.embedded.weights import Weights, find_weights, verify_weights
from pointsman.providers.key_choice import KeyChoice
from pointsman.providers.port import Deadlines, Dialect, Outgoing, UpstreamError
from pointsman.turns.registry.models import EMBEDDED_MODEL, EMBEDDED_PROVIDER


class EmbeddedAnswer:
    """The body of one call, as it is computed. `on_silence` is called when it stops coming."""

    def __init__(
        self,
        call: WorkerCall,
        content_type: str,
        idle_s: float,
        until: float,
        on_silence: Callable[[], None],
    ) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": content_type}
        self.attempts = 1
        self.credential = ""
        self.key_choice: KeyChoice | None = None
        self.deployment_choice: KeyChoice | None = None
        self._call = call
        self._idle_s = idle_s
        self._until = until
        self._on_silence = on_silence
        self._is_whole = False

    @property
    def is_over(self) -> bool:
        """Whether the piece given last is known to be the last: the end comes by itself."""
        return self._is_whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the body piece by piece."""
        while not self._is_whole:
            match await self._reply():
                case PieceFrame(_, data):
                    yield data
                case DoneFrame():
                    self._is_whole = True
                case FailedFrame() as failed:
                    raise failure(failed)

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([piece async for piece in self])

    async def close(self) -> None:
        """Cancel the call if it is still being computed."""
        self._call.cancel()

    async def _reply(self) -> Reply:
        silent_until = asyncio.get_running_loop().time() + self._idle_s
        try:
            async with asyncio.timeout_at(min(silent_until, self._until)):
                return await self._call.reply()
        except TimeoutError:
            self._call.cancel()
            is_silent = silent_until <= self._until
            if is_silent:
                self._on_silence()
            what = "fell silent" if is_silent else "took too long"
            raise UpstreamError(f"the embedded model {what}", error_class="timeout") from None


def failure(failed: FailedFrame) -> UpstreamError:
    """Return the error for what the engine refused."""
    if failed.prompt_tokens:
        return overflow(failed.prompt_tokens, failed.context_tokens)
    is_refused = 400 <= failed.status < 500
    return UpstreamError(
        f"the embedded model's engine: {failed.message}",
        error_class="invalid_request" if is_refused else "server_error",
        status=failed.status,
    )


class WorkerQueue:
    """First come, first served."""

    def __init__(self, slots: int, most_waiting: int) -> None:
        self.inside = 0
        self.waiting = 0
        self._most_waiting = most_waiting
        self._free = asyncio.Semaphore(slots)

    async def enter(self) -> None:
        """Wait for a place; raises at once when too many wait already."""
        if self._free.locked() and self.waiting >= self._most_waiting:
            raise UpstreamError(
                f"the embedded model is busy: {self.waiting} requests wait already",
                error_class="rate_limit",
                status=429,
                retry_after_s=1.0,
            )
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        self.inside += 1

    def leave(self) -> None:
        """Pass the place to the next request."""
        self.inside -= 1
        self._free.release()


MOST_REST_S = 60.0

State = Literal["asleep", "loading", "ready", "resting", "closed"]


class EmbeddedSettings(Struct, frozen=True, kw_only=True):
    """How the model is run. `threads: 0` is chosen from what this process may use."""

    context_tokens: int = 2048
    max_output_tokens: int = 1024
    slots: int = 2
    most_waiting: int = 64
    threads: int = 0
    niceness: int = 10
    load_s: float = 120.0
    probe_s: float = 10.0


class EmbeddedHealth(Struct, frozen=True):
    """How the model's process is."""

    state: State
    pid: int | None
    memory_bytes: int | None
    memory_limit_bytes: int | None
    load_ms: int | None
    computing: int
    waiting: int
    crashes: int


class EmbeddedProvider:
    """Answers chat completions with a GGUF file on this machine, in a process of its own.

    INVARIANT: nothing here computes, loads or waits in the event loop's thread.
    """

    dialects: tuple[Dialect, ...] = ("chat",)

    def __init__(
        self,
        name: str = EMBEDDED_PROVIDER,
        *,
        model: str = EMBEDDED_MODEL,
        path: Path | None = None,
        settings: EmbeddedSettings | None = None,
    ) -> None:
        self.name = name
        self.model = model
        self.settings = settings or EmbeddedSettings()
        self._path = path
        self._queue = WorkerQueue(self.settings.slots, self.settings.most_waiting)
        self._process: ModelProcess | None = None
        self._starting: asyncio.Task[ModelProcess] | None = None
        self._probe: asyncio.Task[None] | None = None
        self._crashes_in_a_row = 0
        self._crashes = 0
        self._rests_until = 0.0
        self._reason = ""
        self._is_closed = False

    async def send(self, outgoing: Outgoing, deadlines: Deadlines) -> EmbeddedAnswer:
        """Make one call; `connect_s` has no meaning where nothing is connected to."""
        if surely_overflows(outgoing.body, self.settings.context_tokens):
            raise overflow(None, self.settings.context_tokens)
        body = engine_body(outgoing, max_output_tokens=self.settings.max_output_tokens)
        began = asyncio.get_running_loop().time()
        until = began + deadlines.total_s
        call: WorkerCall | None = None
        try:
            async with asyncio.timeout_at(min(began + deadlines.head_s, until)):
                call = await self._ask(body)
                head = await self._head(call)
        except TimeoutError:
            if call is not None:
                self._look_after()
            raise UpstreamError(
                "the embedded model did not begin to answer in time", error_class="timeout"
            ) from None
        return EmbeddedAnswer(call, head.content_type, deadlines.idle_s, until, self._look_after)

    async def count_tokens(self, text: str) -> int:
        """Count a text's tokens with the model's own vocabulary; loads the model."""
        return await (await self._running()).count(text)

    def health(self) -> EmbeddedHealth:
        """Return the state of the model's process, without asking it."""
        process = self._process
        pid = process.pid if process else None
        ready = process.ready.result() if process else None
        return EmbeddedHealth(
            state=self._state(),
            pid=pid,
            memory_bytes=memory_bytes(pid) if pid else None,
            memory_limit_bytes=ready.memory_limit_bytes if ready else None,
            load_ms=ready.load_ms if ready else None,
            computing=self._queue.inside,
            waiting=self._queue.waiting,
            crashes=self._crashes,
        )

    async def close(self) -> None:
        """End the process; calls that still run fail."""
        self._is_closed = True
        for task in (self._probe, self._starting):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        if self._process is not None:
            await self._process.kill()

    async def _ask(self, body: bytes) -> WorkerCall:
        await self._queue.enter()
        try:
            process = await self._running()
        except BaseException:
            self._queue.leave()
            raise
        return process.ask(body, self._queue.leave)

    async def _head(self, call: WorkerCall) -> HeadFrame:
        try:
            reply = await call.reply()
        except BaseException:
            call.cancel()
            raise
        if isinstance(reply, FailedFrame):
            raise failure(reply)
        if not isinstance(reply, HeadFrame):
            raise UpstreamError("the embedded model gave no answer", error_class="server_error")
        self._crashes_in_a_row = 0
        return reply

    async def _running(self) -> ModelProcess:
        if self._process is not None and self._process.is_alive:
            return self._process
        if self._starting is None:
            self._refuse_rest()
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._on_started)
        # Shielded: others may wait for the same start, and the next caller will.
        return await asyncio.shield(self._starting)

    async def _start(self) -> ModelProcess:
        weights = await asyncio.to_thread(_weights, self._path)
        process = ModelProcess(self._lost)
        niceness, load_s = self.settings.niceness, self.settings.load_s
        await process.start(self._order(weights), niceness=niceness, load_s=load_s)
        self._process = process
        return process

    def _order(self, weights: Weights) -> LoadFrame:
        settings = self.settings
        return LoadFrame(
            path=str(weights.path),
            alias=self.model,
            folder="",
            context_tokens=settings.context_tokens,
            slots=settings.slots,
            # Threads meet after every layer of every token: where the machine is busy, one more of
            # them waits longer than it helps. Prompts come in large batches, which bear it.
            threads=settings.threads or max(1, usable_cpus() // 2),
            prompt_threads=settings.threads or usable_cpus(),
            # What the model's makers recommend where the caller does not say.
            temperature=0.2 if weights.is_builtin else None,
            top_p=0.9 if weights.is_builtin else None,
        )

    def _on_started(self, task: asyncio.Task[ModelProcess]) -> None:
        self._starting = None
        if not task.cancelled():
            # Late failure: drop it if no caller is waiting.
            task.exception()

    def _refuse_rest(self) -> None:
        if self._is_closed:
            raise UpstreamError("the embedded model is closed", error_class="cancelled")
        left = self._rests_until - asyncio.get_running_loop().time()
        if left > 0:
            raise UpstreamError(
                f"{self._reason}: {self._crashes_in_a_row} failures in a row, "
                f"it is started again in {left:.0f} s",
                error_class="server_error",
                retry_after_s=left,
            )

    def _lost(self, reason: str) -> None:
        self._process = None
        self._reason = reason
        if self._is_closed:
            return
        self._crashes += 1
        self._crashes_in_a_row += 1
        # The first crash costs nothing but its calls; a crash loop must not cost the machine.
        if self._crashes_in_a_row > 1:
            rest = min(MOST_REST_S, 2.0 ** (self._crashes_in_a_row - 2))
            self._rests_until = asyncio.get_running_loop().time() + rest

    def _look_after(self) -> None:
        """End a process whose engine no longer turns, after a call of it fell silent."""
        if self._process is not None and (self._probe is None or self._probe.done()):
            self._probe = asyncio.create_task(self._probe_process(self._process))

    async def _probe_process(self, process: ModelProcess) -> None:
        try:
            async with asyncio.timeout(self.settings.probe_s):
                await process.ping()
        except TimeoutError:
            await process.kill()
        except UpstreamError:
            pass

    def _state(self) -> State:
        if self._is_closed:
            return "closed"
        if self._process is not None and self._process.is_alive:
            return "ready"
        if self._starting is not None:
            return "loading"
        is_resting = self._rests_until > asyncio.get_running_loop().time()
        return "resting" if is_resting else "asleep"


def usable_cpus() -> int:
    """Return how many processors this process may use, eight at most."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(usable or 1, 8)


def _weights(path: Path | None) -> Weights:
    try:
        return verify_weights(find_weights(path))
    except PointsmanError as error:
        message = f"{error}: {error.hint}" if error.hint else str(error)
        raise UpstreamError(message, error_class="server_error") from error
