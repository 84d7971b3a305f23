"""Several workers behind one port: begun, begun again where one dies, and drained together.

The workers are forked from one process that has bound the port, so imported code is in memory
once. They share the socket: whichever is free accepts, and a worker that dies takes no caller along
but those it had. The supervisor opens no database and serves nothing.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from msgspec import Struct

from pointsman.gateway.wire.server import Lifeline
from pointsman.storage.policies.settings import Server

SETTLED_S: Final = 10.0
"""A worker that lived so long is begun again at once, another one after a while."""

FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 10.0
LATE_S: Final = 10.0
"""How much longer than it may take a worker is given to end before it is killed."""

FAILED: Final = 1
_HEEDED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)

Tell = Callable[[int, int, str], None]
"""Tells the operator a worker's number, its process, and how that ended."""


class Seat(Struct, frozen=True):
    """A worker's seat: its number from 1, how many there are, and the name of their gateway."""

    number: int
    count: int
    gateway: str


RunWorker = Callable[[Seat, Lifeline], int]
"""Serves as a worker, in its own process, and returns its exit code."""


class _Worker:
    """One seat, and the process that fills it now."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0
        self.begun_at = 0.0
        self.begin_at: float | None = 0.0
        self.failures = 0
        self.ready_fd = -1
        self.is_ready = False


class Supervisor:
    """Keeps a number of workers alive until it is told to stop."""

    def __init__(
        self, count: int, gateway: str, server: Server, run: RunWorker, tell: Tell
    ) -> None:
        self._workers = [_Worker(number) for number in range(1, count + 1)]
        self._gateway = gateway
        self._longest_end_s = server.drain_s + server.grace_s + LATE_S
        self._run_worker = run
        self._tell = tell
        self._life, self._death = os.pipe()
        self._bell, self._wakeup = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._kill_at: float | None = None
        self._exit_code = 0
        self._has_begun = False

    def run(self, on_ready: Callable[[], None]) -> int:
        """Keep the workers alive; return the exit code. `on_ready` once all serve."""
        gc.collect()
        gc.freeze()  # a page that no collector writes to stays shared
        self._bell.setblocking(False)  # noqa: FBT003 - the socket's own signature
        self._wakeup.setblocking(False)  # noqa: FBT003 - likewise
        self._selector.register(self._bell, selectors.EVENT_READ)
        with _signals(self._wakeup.fileno()):
            while True:
                self._begin_due()
                for key, _ in self._selector.select(self._wait_s()):
                    if key.data is None:
                        self._heed()
                    else:
                        self._note_ready(key.data)
                self._reap()
                if not self._has_begun and all(each.is_ready for each in self._workers):
                    self._has_begun = True
                    on_ready()
                if self._is_stopping and not any(each.pid for each in self._workers):
                    return self._exit_code

    @property
    def _is_stopping(self) -> bool:
        return self._kill_at is not None

    def _wait_s(self) -> float | None:
        times = [each.begin_at for each in self._workers if each.begin_at is not None]
        due = [*([] if self._is_stopping else times)]
        if self._kill_at is not None:
            due.append(self._kill_at)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _begin_due(self) -> None:
        now = time.monotonic()
        if self._kill_at is not None:
            if now >= self._kill_at:
                self._exit_code = FAILED
                self._signal_all(signal.SIGKILL)
                self._kill_at = now + LATE_S
            return
        for worker in self._workers:
            if worker.begin_at is not None and now >= worker.begin_at:
                self._begin(worker)

    def _begin(self, worker: _Worker) -> None:
        told, tells = os.pipe()
        worker.pid = os.fork()
        if not worker.pid:
            os.close(told)
            self._be_worker(worker.number, tells)
        os.close(tells)
        worker.ready_fd, worker.is_ready = told, False
        worker.begun_at, worker.begin_at = time.monotonic(), None
        self._selector.register(told, selectors.EVENT_READ, worker)

    def _be_worker(self, number: int, tells: int) -> None:
        """Serve, in a process of its own, and never return."""
        code: object = FAILED
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            # A terminal tells all of its processes: the supervisor passes on what concerns them.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            os.close(self._death)
            self._selector.close()
            self._bell.close()
            self._wakeup.close()
            seat = Seat(number, len(self._workers), self._gateway)
            code = self._run_worker(seat, Lifeline(self._life, tells))
        except SystemExit as ended:
            code = ended.code or 0
        except BaseException:  # noqa: BLE001 - the process's outermost edge
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code if isinstance(code, int) else FAILED)

    def _note_ready(self, worker: _Worker) -> None:
        worker.is_ready = bool(os.read(worker.ready_fd, 1))
        self._forget_pipe(worker)

    def _forget_pipe(self, worker: _Worker) -> None:
        if worker.ready_fd >= 0:
            self._selector.unregister(worker.ready_fd)
            os.close(worker.ready_fd)
            worker.ready_fd = -1

    def _heed(self) -> None:
        with suppress(BlockingIOError):
            told = self._bell.recv(4096)
            for number in told:
                if number in {signal.SIGTERM, signal.SIGINT}:
                    self._stop()

    def _stop(self) -> None:
        """Have every worker drain; told again, they wait no longer."""
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._longest_end_s
        self._signal_all(signal.SIGTERM)

    def _signal_all(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker.pid:
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, number)

    def _reap(self) -> None:
        for worker in self._workers:
            if worker.pid:
                pid, status = os.waitpid(worker.pid, os.WNOHANG)
                if pid:
                    self._note_end(worker, os.waitstatus_to_exitcode(status))

    def _note_end(self, worker: _Worker, code: int) -> None:
        pid, worker.pid, was_ready = worker.pid, 0, worker.is_ready
        worker.is_ready = False
        self._forget_pipe(worker)
        if self._is_stopping:
            self._exit_code = self._exit_code or (FAILED if code < 0 else code)
            return
        if not self._has_begun and not was_ready and code > 0:
            # The same trouble keeps all from beginning: it has said why.
            self._exit_code = code
            self._stop()
            return
        now = time.monotonic()
        is_settled = was_ready and now - worker.begun_at >= SETTLED_S
        worker.failures = 0 if is_settled else worker.failures + 1
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (worker.failures - 2))
        worker.begin_at = now + (pause_s if worker.failures > 1 else 0.0)
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._tell(worker.number, pid, how)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the number went into the wakeup file already."""


@contextmanager
def _signals(wakeup: int) -> Iterator[None]:
    """Have signals told through a file, so that none interrupts a step."""
    before = {each: signal.signal(each, _ignore) for each in _HEEDED}
    old = signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(old)
        for each, handler in before.items():
            signal.signal(each, handler)
