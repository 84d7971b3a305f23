"""What a process finds around it, made simulated: clocks, chance, threads, locks.

`simulate()` is called before the product is imported, in a process of its own: it changes the
standard library for good. The product's code stays as it is.
"""

from __future__ import annotations

import fcntl
import functools
import os
import queue
import random
import threading
import time
from typing import Any

from tests.simulation.threads import SCHEDULER, SimLock, SimRLock, SimThread

EPOCH_NS = 1_790_000_000_000_000_000
"""When lives begin: a Monday in September 2026."""


class _Ambient:
    """What the clock on the wall says, and where chance comes from."""

    def __init__(self) -> None:
        self.wall_ns = EPOCH_NS
        self.chance = random.Random(0)


AMBIENT = _Ambient()
real_flock = fcntl.flock


def begin_life(seed: int) -> None:
    """Begin a life's chance anew."""
    AMBIENT.wall_ns = EPOCH_NS
    AMBIENT.chance = random.Random(f"bytes {seed}")
    random.seed(f"module {seed}")


def simulate() -> None:
    """Replace what the standard library offers of the world."""
    library: Any = threading
    library.Lock = library._allocate_lock = SimLock
    library.RLock = library._CRLock = SimRLock
    library.Thread = SimThread
    library._time = _monotonic
    library.current_thread = lambda: SCHEDULER.current.running
    functools.RLock = SimRLock  # type: ignore[attr-defined]
    queue.SimpleQueue = queue._PySimpleQueue  # type: ignore[attr-defined,misc]
    queue.time = _monotonic  # type: ignore[attr-defined]
    clock: Any = time
    clock.monotonic = clock.perf_counter = _monotonic
    clock.monotonic_ns = clock.perf_counter_ns = _monotonic_ns
    clock.time, clock.time_ns = _wall, _wall_ns
    clock.sleep = _sleep
    fcntl.flock = _flock
    os.urandom = _bytes
    random._urandom = _bytes  # type: ignore[attr-defined]


def _monotonic_ns() -> int:
    scheduler = SCHEDULER.current
    scheduler.now_ns += 100
    return scheduler.now_ns


def _monotonic() -> float:
    return _monotonic_ns() / 1e9


def _wall_ns() -> int:
    return AMBIENT.wall_ns + _monotonic_ns()


def _wall() -> float:
    return _wall_ns() / 1e9


def _sleep(seconds: float) -> None:
    SCHEDULER.current.wait(seconds)


def _bytes(count: int) -> bytes:
    return AMBIENT.chance.randbytes(count)


def _flock(descriptor: Any, operation: int) -> None:
    """Wait for a lock of a file in simulated time."""
    while True:
        try:
            real_flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if operation & fcntl.LOCK_NB:
                raise
            SCHEDULER.current.wait(0.001)
        else:
            return
