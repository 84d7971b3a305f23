"""Threads, locks and time of a simulated life: one thread runs at a time, and a seed says which.

Each simulated thread is a real one that waits for its turn. It gives the turn away where it waits
for a lock, for a time, or for bytes; when all wait, time jumps to the next thing that is due.
"""

from __future__ import annotations

import _thread
import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

SLICE_NS = 2_000
"""How much time a turn takes: enough that a loop which polls the clock comes to its end."""
YIELD_SHARE = 0.02
"""How often a thread gives its turn away at a lock that it could have taken."""
HOUR_S = 3_600.0

Woken = Literal["called", "late"]


class Deadlock(Exception):
    """Nothing will ever happen any more, though something is waited for."""


class SimThread:
    """A thread of a simulated process."""

    def __init__(
        self,
        group: Any = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        scheduler = SCHEDULER.current
        scheduler.names += 1
        self.name = name or f"thread-{scheduler.names}"
        self.daemon = bool(daemon)
        self.ident: int | None = None
        self.number = scheduler.names
        self._target, self._args, self._kwargs = target, args, kwargs or {}
        self._scheduler = scheduler
        self.process = scheduler.running.process if scheduler.running is not None else ""
        self.turn = _thread.allocate_lock()
        self.turn.acquire()
        self.state: Literal["new", "ready", "waits", "over", "killed"] = "new"
        self.due_ns: int | None = None
        self.woken: Woken = "called"
        self.owned: set[SimLock] = set()
        self.error: BaseException | None = None
        self._over: deque[SimThread] = deque()

    def start(self) -> None:
        self.state = "ready"
        self._scheduler.threads.append(self)
        _thread.start_new_thread(self._bootstrap, ())

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def is_alive(self) -> bool:
        return self.state in ("ready", "waits")

    def join(self, timeout: float | None = None) -> None:
        while self.is_alive():
            self._over.append(self._scheduler.current_thread)
            if self._scheduler.wait(timeout) == "late":
                return

    def _bootstrap(self) -> None:
        self.turn.acquire()
        self.ident = _thread.get_ident()
        try:
            self.run()
        except BaseException as error:  # noqa: BLE001 - the outermost edge of a thread
            self.error = error
            self._scheduler.on_error(self, error)
        self.state = "over"
        for each in self._over:
            self._scheduler.wake(each)
        self._scheduler.leave()


class Scheduler:
    """Says whose turn it is."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"threads {seed}")
        self.now_ns = 1_000_000_000
        self.threads: list[SimThread] = []
        self.running: SimThread | None = None
        self.names = 0
        self.turns = 0
        self.share = YIELD_SHARE
        self.on_error: Callable[[SimThread, BaseException], None] = lambda _thread, _error: None

    @property
    def current_thread(self) -> SimThread:
        assert self.running is not None
        return self.running

    def adopt(self) -> None:
        """Make the calling thread the first."""
        first = SimThread(name="world")
        first.state = "ready"
        first.ident = _thread.get_ident()
        self.threads.append(first)
        self.running = first

    def wait(self, seconds: float | None) -> Woken:
        """Wait until called, or until a time has passed."""
        thread = self.current_thread
        thread.state = "waits"
        thread.woken = "late"
        thread.due_ns = None if seconds is None else self.now_ns + max(0, int(seconds * 1e9))
        self._switch(thread)
        return thread.woken

    def wake(self, thread: SimThread) -> None:
        """Call a thread that waits; it runs when its turn comes."""
        if thread.state == "waits":
            thread.state, thread.woken, thread.due_ns = "ready", "called", None

    def pause(self) -> None:
        """Let another thread run, perhaps."""
        self._switch(self.current_thread)

    def maybe_pause(self) -> None:
        if self.chance.random() < self.share:
            self.pause()

    def leave(self) -> None:
        """Give the turn away for ever."""
        thread = self.current_thread
        self.threads.remove(thread)
        self._next().turn.release()

    def kill(self, process: str) -> None:
        """End all threads of a process where they stand: none of them runs again."""
        for thread in [*self.threads]:
            if thread.process == process:
                assert thread is not self.running
                thread.state = "killed"
                self.threads.remove(thread)
                for lock in [*thread.owned]:
                    lock.drop()

    def _switch(self, thread: SimThread) -> None:
        following = self._next()
        if following is not thread:
            following.turn.release()
            thread.turn.acquire()
        self.running = thread

    def _next(self) -> SimThread:
        self.turns += 1
        self.now_ns += SLICE_NS
        for thread in self.threads:
            if thread.due_ns is not None and thread.due_ns <= self.now_ns:
                thread.state, thread.due_ns = "ready", None
        ready = [each for each in self.threads if each.state == "ready"]
        if not ready:
            due = [each.due_ns for each in self.threads if each.due_ns is not None]
            if not due:
                waiting = [f"{each.process}/{each.name}" for each in self.threads]
                raise Deadlock(f"all wait for ever: {waiting}")
            self.now_ns = max(self.now_ns, min(due))
            for thread in self.threads:
                if thread.due_ns is not None and thread.due_ns <= self.now_ns:
                    thread.state, thread.due_ns = "ready", None
            ready = [each for each in self.threads if each.state == "ready"]
        chosen = ready[0] if len(ready) == 1 else self.chance.choice(ready)
        self.running = chosen
        return chosen


class _Current:
    """The scheduler of the life that this process lives."""

    def __init__(self) -> None:
        self.current = Scheduler(0)


SCHEDULER = _Current()


class SimLock:
    """`threading.Lock`, waited for in simulated time."""

    __slots__ = ("__weakref__", "_owner", "_waiting")

    def __init__(self) -> None:
        self._owner: SimThread | None = None
        self._waiting: deque[SimThread] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        scheduler = SCHEDULER.current
        if scheduler.running is None:
            scheduler.adopt()
        thread = scheduler.current_thread
        if self._owner is not None and not blocking:
            return False
        if blocking:
            scheduler.maybe_pause()
        ends = None if timeout < 0 else scheduler.now_ns + int(timeout * 1e9)
        while self._owner is not None:
            left = None if ends is None else (ends - scheduler.now_ns) / 1e9
            if left is not None and left <= 0:
                return False
            self._waiting.append(thread)
            scheduler.wait(left)
            if thread in self._waiting:
                self._waiting.remove(thread)
        self._owner = thread
        thread.owned.add(self)
        return True

    def release(self) -> None:
        if self._owner is None:
            raise RuntimeError("release unlocked lock")
        self.drop()
        SCHEDULER.current.maybe_pause()

    def drop(self) -> None:
        """Free it, whoever holds it."""
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.owned.discard(self)
        while self._waiting:
            thread = self._waiting.popleft()
            if thread.state == "waits":
                SCHEDULER.current.wake(thread)
                return

    def locked(self) -> bool:
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self._owner = None
        self._waiting.clear()


class SimRLock:
    """`threading.RLock`, waited for in simulated time."""

    def __init__(self) -> None:
        self._lock = SimLock()
        self._holder: SimThread | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._is_owned():
            self._count += 1
            return True
        if not self._lock.acquire(blocking, timeout):
            return False
        self._holder, self._count = SCHEDULER.current.running, 1
        return True

    def release(self) -> None:
        if not self._is_owned():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._holder = None
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _is_owned(self) -> bool:
        return (
            self._holder is not None
            and self._holder is SCHEDULER.current.running
            and self._lock.locked()
        )

    def _release_save(self) -> int:
        count, self._count, self._holder = self._count, 0, None
        self._lock.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        self._lock.acquire()
        self._holder, self._count = SCHEDULER.current.running, count

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]  # as the lock of the standard library does
