"""The log: one JSON line a request, made by allow-list. No text, key or header is ever in it.

Lines are gathered and written by a thread: a slow reader of the log delays no request.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec
from msgspec import Struct

from pointsman.kernel.instant import SECOND, Clock, Instant, instant_text

GATHERED_S: Final = 0.1
MOST_WAITING: Final = 20_000
MOST_NAME: Final = 200

Level = Literal["info", "warning", "error"]
Event = Literal["request", "api"]
"""A call to a model endpoint, or to any other route."""

Write = Callable[[bytes], object]


def write_whole_lines(data: bytes) -> None:
    """Write lines so that those of other processes on the same pipe fall between, not into them."""
    lines, piece = data.splitlines(keepends=True), b""
    for line in lines:
        if piece and len(piece) + len(line) > select.PIPE_BUF:
            os.write(2, piece)
            piece = b""
        piece += line
    os.write(2, piece)


class LogLine(Struct, frozen=True, gc=False):
    """One request; `at` becomes `time` when it is written. Models are named by their endpoints."""

    at: Instant
    endpoint: str
    status: int
    elapsed_us: int
    turn_id: str = ""
    decision_id: str = ""
    trace_id: str = ""
    requested_model: str = ""
    model: str = ""
    policy: str = ""
    error_class: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: int | None = None
    event: Event = "request"


class RequestLogLine(Struct, frozen=True, gc=False):
    """A call to a model endpoint."""

    time: str
    level: Level
    event: Literal["request"]
    endpoint: str
    status: int
    elapsed_ms: float
    turn_id: str
    decision_id: str
    trace_id: str
    requested_model: str
    model: str
    policy: str
    error_class: str
    input_tokens: int
    output_tokens: int
    cost_microusd: int | None


class ApiLogLine(Struct, frozen=True, gc=False):
    """A call to any other route; health checks and scrapes only where they fail."""

    time: str
    level: Level
    event: Literal["api"]
    endpoint: str
    status: int
    elapsed_ms: float
    error_class: str


class UnforeseenLogLine(Struct, frozen=True):
    """An error that no code foresaw: its kind, and the last places in the code that it passed."""

    time: str
    level: Literal["error"]
    event: Literal["unforeseen"]
    error: str
    places: list[str]


class PolicyLogLine(Struct, frozen=True):
    """Another published policy is in force, or was refused for the problems it has."""

    time: str
    level: Literal["info", "error"]
    event: Literal["policy", "policy_refused"]
    policy_id: str
    number: int
    problems: Sequence[str]


class SharedLogLine(Struct, frozen=True):
    """A problem with the state that replicas share."""

    time: str
    level: Literal["warning"]
    event: Literal["shared"]
    message: str


class WorkerLogLine(Struct, frozen=True):
    """A worker ended and is begun again."""

    time: str
    level: Literal["warning"]
    event: Literal["worker_ended"]
    worker: int
    process: int
    ended: str


class LossLogLine(Struct, frozen=True):
    """So many lines were dropped, because the reader of the log was too slow."""

    time: str
    level: Literal["warning"]
    event: Literal["lines_dropped"]
    lines: int


LOG_LINES: Final = (
    RequestLogLine,
    ApiLogLine,
    UnforeseenLogLine,
    PolicyLogLine,
    SharedLogLine,
    WorkerLogLine,
    LossLogLine,
)
"""Every kind of line there is; docs/reference/schemas/log-line.json is their schema."""

_ENCODER = msgspec.json.Encoder()


class Log:
    """Gathers lines and writes them; `is_on` says whether requests are told at all."""

    def __init__(self, clock: Clock, *, is_on: bool, write: Write = lambda data: os.write(2, data)):
        self.is_on = is_on
        self._clock = clock
        self._write = write
        self._waiting: list[LogLine] = []
        self._dropped = 0
        self._is_due = False
        self._lock = threading.Lock()

    def request(self, line: LogLine) -> None:
        """Take a line; it is written a moment later."""
        if len(self._waiting) >= MOST_WAITING:
            self._dropped += 1
            return
        self._waiting.append(line)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(GATHERED_S, self._begin_writing)

    def now(self) -> Instant:
        """Return the time for a line."""
        return self._clock.now()

    def unforeseen(self, error: BaseException) -> None:
        """Log an unforeseen error: its kind and its place, not its message."""
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"{each.filename.rpartition('/')[2]}:{each.lineno}" for each in frames[-5:]]
        at, kind = instant_text(self._clock.now()), type(error).__name__
        self._tell(UnforeseenLogLine(at, "error", "unforeseen", kind, places))

    def policy(self, policy_id: str, number: int, refused: Sequence[str]) -> None:
        """Tell that another published policy is in force, or which was refused and why."""
        at = instant_text(self._clock.now())
        told = (policy_id, number, refused)
        if refused:
            self._tell(PolicyLogLine(at, "error", "policy_refused", *told))
        else:
            self._tell(PolicyLogLine(at, "info", "policy", *told))

    def shared_warning(self, message: str) -> None:
        """Log a problem with the state that replicas share."""
        at = instant_text(self._clock.now())
        self._tell(SharedLogLine(at, "warning", "shared", message))

    def worker_ended(self, number: int, process: int, ended: str) -> None:
        """Log how a worker ended that is begun again."""
        at = instant_text(self._clock.now())
        self._tell(WorkerLogLine(at, "warning", "worker_ended", number, process, ended))

    def _tell(self, line: Struct) -> None:
        self._write(msgspec.json.encode(line) + b"\n")

    def flush(self) -> None:
        """Write all waiting lines before this returns."""
        with self._lock:
            lines, self._waiting = self._waiting, []
            dropped, self._dropped = self._dropped, 0
            parts = [_ENCODER.encode(_json_line(each)) for each in lines]
            if dropped:
                parts.append(msgspec.json.encode(self._loss(dropped)))
            if parts:
                self._write(b"\n".join([*parts, b""]))

    def _begin_writing(self) -> None:
        self._is_due = False
        asyncio.get_running_loop().run_in_executor(None, self.flush)

    def _loss(self, count: int) -> LossLogLine:
        return LossLogLine(instant_text(self._clock.now()), "warning", "lines_dropped", count)


@lru_cache(4)
def _second_text(second: int) -> str:
    """Write a second as RFC 3339; many lines fall into one, and its calendar is costly."""
    return instant_text(Instant(second * SECOND)).partition(".")[0]


def _json_line(line: LogLine) -> RequestLogLine | ApiLogLine:
    level: Level = "info"
    if line.status >= 400 or line.error_class:
        level = "warning" if line.status < 500 else "error"
    second, micros = divmod(line.at, SECOND)
    at, elapsed_ms = f"{_second_text(second)}.{micros:06d}Z", line.elapsed_us / 1000
    if line.event == "api":
        told = (line.endpoint, line.status, elapsed_ms, line.error_class)
        return ApiLogLine(at, level, "api", *told)
    return RequestLogLine(
        at,
        level,
        "request",
        line.endpoint,
        line.status,
        elapsed_ms,
        line.turn_id,
        line.decision_id,
        line.trace_id,
        line.requested_model[:MOST_NAME],
        line.model,
        line.policy,
        line.error_class,
        line.input_tokens,
        line.output_tokens,
        line.cost_microusd,
    )
