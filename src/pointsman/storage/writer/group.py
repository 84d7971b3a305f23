"""Group commit: one thread gathers what many callers hand in and commits it together.

A synced commit costs milliseconds; sharing one among up to 64 callers is what makes full
durability affordable. Knows nothing about SQL.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar, cast

from pointsman.errors import LedgerUnavailable

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")

MOST = 64
LINGER_S = 0.004
NOTED_S = 0.01
"""How long what nobody waits for may wait for company."""
QUICK_S = 0.005
"""A commit that takes longer is left to the thread, however little there is to do."""
MOST_WAITING = 10_000


Soon = Callable[[Callable[[], None]], object]
"""Does something when whoever asks for it has come to a rest."""


class Settled(Protocol):
    """Whoever waits for an item; told from the commit thread."""

    def set_result(self, result: object, /) -> None:
        """Take the result: the item is durable."""
        ...

    def set_exception(self, error: BaseException, /) -> None:
        """Take the error: nothing was acknowledged."""
        ...


class GroupCommit(Generic[T, P, R]):
    """A thread that commits what is handed in, in order, in groups.

    `ready` makes a group ready, `commit` makes it durable and gives one result per item; `rest`
    runs after every group and whenever `due` seconds have passed, and says when it wants to run
    again. `check` gives an item as it is committed, or refuses it alone.
    """

    def __init__(
        self,
        name: str,
        commit: Callable[[P], Sequence[R]],
        rest: Callable[[], float | None] = lambda: None,
        check: Callable[[T], T] | None = None,
        ready: Callable[[Sequence[T]], P] = lambda items: cast("P", items),
    ) -> None:
        self._commit = commit
        self._check = check
        self._ready = ready
        self._rest = rest
        self._waiting: deque[tuple[T, Settled | None]] = deque()
        self._watched = 0  # how many of them somebody waits for
        self.handed_in = 0
        """How many items were ever taken."""
        self.done_with = 0
        """How many of them, in the order they came, are durable or were refused."""
        # One bell a group: a thread that is woken for every item fights for the interpreter's lock
        # with those who bring the items.
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._rings_at: float | None = None  # how many must be watched; None while it is awake
        self._is_asleep = False
        self._is_put_off = False  # a ring, until whoever handed in comes to a rest
        self._made: _Made[P] | None = None  # a group that is ready, by whoever hurried
        self._writing: SimpleQueue[None] | None = None  # where that one waits
        self._sleeps_long = False  # longer than what nobody waits for may wait
        self._is_done_elsewhere = False  # a commit, since the thread looked last
        self._committing = threading.Lock()
        self._making = threading.Lock()  # held by whoever takes items, until they are ready
        self._took_s = 0.0  # by the last commit
        self._was_busy = False
        self._hoped = 1  # how many are waited for before a commit
        self.after_group: Callable[[], None] = _nothing
        """Called from the commit thread when all of a group were told."""
        self.soon: Soon = _at_once
        """Rings the bell: at once, or when whoever hands in has handed in all it has just now."""
        self.alone: Callable[[], bool] = _never
        """Tells that whoever rings has nothing else to do: then it commits itself, which takes half
        as long as to wake a thread, win the lock back from it and be woken by it."""
        self._closed = ""
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def closed(self) -> str:
        """Say why nothing is taken any more; empty while the group is open."""
        return self._closed

    @property
    def is_idle(self) -> bool:
        """Whether its thread has nothing to do."""
        return self._rings_at is not None and not self._watched

    def submit(self, item: T) -> Future[R]:
        """Hand in one item; the future is done when the item is durable."""
        future: Future[R] = Future()
        # What was handed in cannot be withdrawn: a cancelled future would refuse its result.
        future.set_running_or_notify_cancel()
        self.hand_in(item, cast("Settled", future))
        return future

    def hand_in(self, item: T, settled: Settled) -> None:
        """Hand in one item, and tell somebody when it is durable."""
        # At once for a future: whoever blocks on it would never come to a rest.
        soon = _at_once if isinstance(settled, Future) else self.soon
        with self._lock:
            self._take(item, settled)
            self._watched += 1
            is_due = self._rings_at is not None and self._watched >= self._rings_at
            if is_due:
                self._rings_at = None
                self._is_put_off = soon is not _at_once
        if soon is _at_once:
            # Also where none is due: somebody else's bell may be put off while this caller blocks.
            self._wake()
        elif is_due:
            # Not under the lock: whoever is no event loop begins here and now.
            soon(self._begin)

    def note(self, item: T) -> None:
        """Hand in one item that nobody waits for: it shares the next commit, which comes soon."""
        with self._lock:
            self._take(item, None)
            if self._sleeps_long and self._rings_at is not None:
                self._rings_at = None
                self.soon(self._wake)

    def between(self, commit: Callable[[], R]) -> R:
        """Commit something by itself, here and now, while no group is committed."""
        with self._committing, self._making:
            if self._closed:
                raise LedgerUnavailable(self._closed)
            # INVARIANT: what was made ready first is also committed first.
            self._settle(self._ready_before())
            result = commit()
        with self._lock:
            self._is_done_elsewhere = True
        # The thread sees to the rests.
        self._bell.put(None)
        self.after_group()
        return result

    def close(self) -> None:
        """Commit what was handed in, then end the thread."""
        with self._lock:
            if not self._closed:
                self._closed = "the ledger was closed"
                self._bell.put(None)
        self._thread.join()
        with self._committing:
            """Whoever commits by themselves has done so."""

    def _take(self, item: T, settled: Settled | None) -> None:
        if self._closed:
            raise LedgerUnavailable(self._closed)
        if len(self._waiting) >= MOST_WAITING:
            raise LedgerUnavailable(f"{MOST_WAITING} entries wait to be written already")
        self._waiting.append((item, settled))
        self.handed_in += 1

    def hurry(self, writing: SimpleQueue[None], most: int = MOST) -> bool:
        """Make a group of what waits ready here and now, and have the thread write it next.

        True where `writing` will be told that it does: from then on it needs nothing of the
        interpreter, and whoever hurried goes on while it writes and syncs. False where it writes
        another group just now, or where there is nothing to hurry, or more than `most`.
        """
        is_fit = self._watched > 0 and min(len(self._waiting), MOST) <= most
        if not is_fit or not self._making.acquire(blocking=False):
            return False
        try:
            if self._made is not None:
                return False
            with self._lock:
                self._is_put_off = False
            made = self._made_of(self._taken(most))
            is_ready = made is not None and made.ready is not None
            is_next = is_ready and not self._committing.locked()
            self._writing = writing if is_next else None
            self._made = made
        finally:
            self._making.release()
        self._bell.put(None)
        return is_next

    def writing(self) -> None:
        """Say that a group is ready and now written; from whoever commits."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.put(None)

    def _wake(self) -> None:
        self._bell.put(None)

    def _begin(self) -> None:
        """Commit here and now where nobody else is served meanwhile; else wake the thread."""
        with self._lock:
            if not self._is_put_off:
                return
            self._is_put_off = False
        if (
            self._took_s > QUICK_S
            or self._made is not None
            or not self.alone()
            or not self._committing.acquire(blocking=False)
        ):
            self._bell.put(None)
            return
        try:
            with self._making:
                made = self._ready_before() or self._made_of(self._taken())
            self._settle(made)
        finally:
            self._committing.release()
        with self._lock:
            self._is_done_elsewhere = True
            if self._is_asleep and not self._sleeps_long and not self._watched:
                self._rings_at = 1
                return
        # It must see to what was left behind: to rests, and to items that came meanwhile.
        self._bell.put(None)

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:  # noqa: BLE001 - a thread's outermost edge: callers get the error
            self._give_up(f"writing ended: {type(error).__name__}: {error}")

    def _serve(self) -> None:
        due: float | None = None
        while self._waiting or self._made is not None or not self._closed:
            self._gather(due)
            with self._committing:
                with self._making:
                    made = self._ready_before() or self._made_of(self._taken())
                self._settle(made)
                if made is not None:
                    # Those of this group will come again, and others came meanwhile: half of them
                    # all makes a group worth its commit, while the other half is on its way.
                    self._hoped = (made.watched + self._watched + 1) // 2
                self._was_busy = made is not None or self._is_done_elsewhere
                self._is_done_elsewhere = False
                due = self._rest()

    def _give_up(self, why: str) -> None:
        with self._lock:
            self._closed = why
            waiting, self._waiting = self._waiting, deque()
            made, self._made = self._made, None
        waiters = [settled for _, settled in waiting] + ([] if made is None else made.waiters)
        self._refuse(waiters, LedgerUnavailable(why))

    def _gather(self, due: float | None) -> None:
        """Wait for something to commit; rests are due after so many seconds at the latest."""
        if self._has_ready():
            with suppress(Empty):
                self._bell.get_nowait()  # what it rang for is here
            return
        if self._waiting or self._was_busy:
            due = NOTED_S if due is None else min(due, NOTED_S)
        self._sleep(1, due)
        if not self._has_ready() and 0 < self._watched < self._hoped:
            self._sleep(self._hoped, LINGER_S)

    def _has_ready(self) -> bool:
        """Tell whether somebody made a group ready."""
        return self._made is not None

    def _sleep(self, watched: int, seconds: float | None) -> None:
        """Sleep until so many items are watched, but no longer than this."""
        with self._lock:
            if self._watched >= watched or self._closed:
                return
            self._rings_at = watched
            self._sleeps_long = seconds is None or seconds > NOTED_S
            self._is_asleep = True
        try:
            self._bell.get(timeout=seconds)
        except Empty:
            self._rings_at = None
        self._is_asleep = False

    def _taken(self, most: int = MOST) -> list[tuple[T, Settled | None]]:
        with self._lock:
            waiting = self._waiting
            batch = [waiting.popleft() for _ in range(min(len(waiting), most, MOST))]
            self._watched -= sum([settled is not None for _, settled in batch])
        return batch

    def _ready_before(self) -> _Made[P] | None:
        """Take the group that somebody made ready; nothing where there is none."""
        made, self._made = self._made, None
        return made

    def _made_of(self, taken: list[tuple[T, Settled | None]]) -> _Made[P] | None:
        """Make a group ready; nothing where nothing was taken."""
        batch = self._checked(taken)
        waiters = [settled for _, settled in batch]
        ready: P | None = None
        try:
            if batch:
                ready = self._ready([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - as below: who handed it in gets the error
            self._refuse(waiters, error)
        return _Made(ready, waiters, len(taken)) if taken else None

    def _checked(self, batch: list[tuple[T, Settled | None]]) -> list[tuple[T, Settled | None]]:
        check = self._check
        if check is None:
            return batch
        good: list[tuple[T, Settled | None]] = []
        for item, settled in batch:
            try:
                good.append((check(item), settled))
            except Exception as error:  # noqa: BLE001 - as below: who handed it in gets the error
                if settled is not None:
                    settled.set_exception(error)
                    self.after_group()
        return good

    def _settle(self, made: _Made[P] | None) -> None:
        """Make a group durable, if there is one, and tell whoever waits for it."""
        if made is not None:
            if made.ready is not None:
                self._committed(made.ready, made.waiters)
            self.done_with += made.count

    def _committed(self, ready: P, waiters: list[Settled | None]) -> None:
        began = time.monotonic()
        try:
            results = self._commit(ready)
        except Exception as error:  # noqa: BLE001 - a thread's outermost edge: callers get the error
            self.writing()
            self._refuse(waiters, error)
        else:
            self._took_s = time.monotonic() - began
            for settled, result in zip(waiters, results, strict=True):
                if settled is not None:
                    settled.set_result(result)
            self.after_group()

    def _refuse(self, waiters: list[Settled | None], error: Exception) -> None:
        for settled in waiters:
            if settled is not None:
                settled.set_exception(error)
        self.after_group()


class _Made(Generic[P]):
    """A group that is ready to be committed, and who waits for what of it.

    Without anything `ready` all of it was refused; it is counted when its turn comes.
    """

    __slots__ = ("count", "ready", "waiters", "watched")

    def __init__(self, ready: P | None, waiters: list[Settled | None], count: int) -> None:
        self.ready = ready
        self.waiters = waiters
        self.count = count
        """How many items it was made of, those that were refused included."""
        self.watched = len(waiters) - waiters.count(None)


def _nothing() -> None:
    """Do nothing after a group."""


def _never() -> bool:
    return False


def _at_once(work: Callable[[], None]) -> None:
    work()
