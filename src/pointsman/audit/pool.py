"""Ranges over a pool of processes, their results in the order of the ranges."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

from pointsman.audit.ranges import Range
from pointsman.errors import BulkFailed
from pointsman.storage.home import Home

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Called with how many entries are done, and of how many."""

AHEAD = 4
"""So many ranges for each process are handed out ahead of the one whose result is awaited."""


def spread_ranges(
    work: Callable[[Range], T], ranges: Sequence[Range], workers: int
) -> Generator[tuple[Range, T]]:
    """Do ranges in other processes; `work` must be known by name there.

    DETERMINISM: results come in the order of the ranges, not as they come in.
    """
    # A forked child would share locks and database handles with threads it does not have.
    context = get_context("spawn")
    processes = max(1, min(workers, len(ranges)))
    with ProcessPoolExecutor(processes, context, _ignore_interrupts) as pool:
        waiting: deque[tuple[Range, Future[T]]] = deque()
        try:
            for each in ranges:
                waiting.append((each, pool.submit(work, each)))
                if len(waiting) >= AHEAD * workers:
                    yield _next_result(waiting)
            while waiting:
                yield _next_result(waiting)
        finally:
            # A caller that stops early does not wait for ranges that were not begun.
            pool.shutdown(wait=True, cancel_futures=True)


def run_ranges(
    work: Callable[[Range], T], ranges: Sequence[Range], workers: int
) -> Iterator[tuple[Range, T]]:
    """Do ranges in other processes, or here where one is enough; results come in order."""
    if workers <= 1 or len(ranges) <= 1:
        yield from ((each, work(each)) for each in ranges)
        return
    with closing(spread_ranges(work, ranges, workers)) as found:
        yield from found


def home_opener(home: Home) -> Callable[[], Home]:
    """Return a function that opens the same home in another process."""
    return partial(Home, home.path, home.store)


def _next_result(waiting: deque[tuple[Range, Future[T]]]) -> tuple[Range, T]:
    each, job = waiting.popleft()
    return each, _wait_for_result(job)


def _wait_for_result(job: Future[T]) -> T:
    """Return the result of a range; raise where the process that did it ended."""
    try:
        return job.result()
    except BrokenProcessPool as error:
        raise BulkFailed("the process that did a range ended: was it killed?") from error


class WorkerPool:
    """Processes that are replaced when one of them is killed."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool = self._start_pool()

    def run(self, work: Callable[[Range], T], each: Range) -> T:
        """Do a range in another process, and wait for it."""
        pool = self._pool
        try:
            return _wait_for_result(_submit(pool, work, each))
        except BulkFailed:
            if self._pool is pool:
                self._pool = self._start_pool()
            raise

    def close(self) -> None:
        """End the processes, after the ranges they are at."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _start_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._workers, mp_context=get_context("spawn"), initializer=_ignore_interrupts
        )


def _submit(pool: ProcessPoolExecutor, work: Callable[[Range], T], each: Range) -> Future[T]:
    try:
        return pool.submit(work, each)
    except BrokenProcessPool as error:
        raise BulkFailed("the process that does ranges ended: was it killed?") from error


def _ignore_interrupts() -> None:
    # An interrupt of the terminal goes to every process; only the one that leads answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
