"""Group commit: one thread gathers the items of many callers and commits them together.

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
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

from pointsman.errors import LedgerUnavailable
from pointsman.storage.writer.states import RINGABLE, TRANSITIONS, WAITS, State, WriterEvent

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")
A = TypeVar("A")

MOST = 64
"""The largest group: a further item adds little to a commit, and delays all before it."""
LINGER_S = 0.004
"""How long the writer thread waits for more items before it commits a partial group."""
FIRE_AND_FORGET_DELAY_S = 0.01
"""Longest delay before an item without a waiter is committed."""
INLINE_LIMIT_S = 0.005
"""No commit is made on the event loop while the last one took longer than this."""
MOST_WAITING = 10_000
"""Further items are refused: the disk does not keep up."""


class Waiter(Protocol):
    """Takes the result of one item, on the thread that committed it."""

    def set_result(self, result: object, /) -> None:
        """Take the result: the item is durable."""
        ...

    def set_exception(self, error: BaseException, /) -> None:
        """Take the error: nothing was acknowledged."""
        ...


Defer = Callable[[Callable[[], None]], object]
"""Runs a callback once the caller is idle (`loop.call_soon` on an event loop)."""


class CommitPolicy:
    """Says where groups are committed: on the writer thread, or inline on an idle event loop.

    Handed to each `GroupCommit` at construction. All is threaded until `serve_loop` is called.
    """

    __slots__ = ("defer", "has_loop", "is_alone", "notify")

    def __init__(self) -> None:
        self.has_loop = False
        self.defer: Defer = _run_now
        """Postpones the start of a commit until the event loop has handed in all it has."""
        self.notify: Callable[[], None] = _do_nothing
        """Called by the committing thread when every waiter of a group has its result."""
        self.is_alone: Callable[[], bool] = _never
        """Tells whether the event loop has nothing to do but to commit."""

    def serve_loop(
        self, notify: Callable[[], None], defer: Defer, is_alone: Callable[[], bool]
    ) -> None:
        """Serve an event loop; while `is_alone` says it has nothing else to do, it commits itself.

        Inline that takes half as long as to wake a thread, win the interpreter's lock back from it
        and be woken by it.
        """
        self.notify, self.defer, self.is_alone = notify, defer, is_alone
        self.has_loop = True


class GroupCommit(Generic[T, P, R]):
    """A thread that commits items in groups, in the order they were handed in.

    `states` says in which states the thread and the event loop take turns at it.

    `resolve` returns an item as it is committed, or refuses it alone; `prepare` makes a group
    ready; `commit` makes it durable and returns one result for each item. `housekeep` runs on the
    thread after every group and returns the seconds until it wants to run again.

    Locks are taken in this order: `_committing`, `_preparing`, `_lock`.
    """

    def __init__(
        self,
        name: str,
        commit: Callable[[P], Sequence[R]],
        housekeep: Callable[[], float | None] = lambda: None,
        resolve: Callable[[T], T] | None = None,
        prepare: Callable[[Sequence[T]], P] | None = None,
        policy: CommitPolicy | None = None,
    ) -> None:
        self._commit = commit
        self._resolve = resolve
        self._prepare = prepare
        self._housekeep = housekeep
        self._policy = policy or CommitPolicy()
        self.received_count = 0
        """How many items were ever received."""
        self.settled_count = 0
        """How many of them, in the order they came, are durable or were refused."""
        self._waiting: deque[tuple[T, Waiter | None]] = deque()
        self._waiters = 0  # how many items in `_waiting` have a waiter
        self._enough = 1  # so many waiters make a group worth its commit
        self._prepared: _Group[P] | None = None  # the next group to commit, made by `begin_commit`
        self._started: SimpleQueue[None] | None = None  # told when that group is being written
        self._commits = 0
        self._last_commit_s = 0.0
        self._closed_reason = ""
        self._state = State.WORKING
        self._is_long_sleep = False  # the thread may sleep past FIRE_AND_FORGET_DELAY_S
        self._lock = threading.Lock()  # the fields above
        self._preparing = threading.Lock()  # items are prepared in the order they were handed in
        self._committing = threading.Lock()  # groups are committed in the order of preparation
        # One ring a group: a thread that is woken for every item competes for the interpreter's
        # lock with the callers that bring the items.
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def closed_reason(self) -> str:
        """Say why no items are taken any more; empty while the group is open."""
        return self._closed_reason

    @property
    def is_idle(self) -> bool:
        """Whether the thread sleeps and no caller waits."""
        return self._state in WAITS and not self._waiters

    def append(self, item: T) -> Future[R]:
        """Append one item; the future is done when the item is durable."""
        future: Future[R] = Future()
        # An item cannot be withdrawn: a cancelled future would refuse its result.
        future.set_running_or_notify_cancel()
        self.hand_in(item, cast("Waiter", future))
        return future

    def hand_in(self, item: T, waiter: Waiter) -> None:
        """Hand in one item; the waiter gets its result when it is durable."""
        policy = self._policy
        # A caller that blocks on a future never becomes idle: its commit is not deferred.
        is_threaded = isinstance(waiter, Future) or not policy.has_loop
        is_deferred = False
        with self._lock:
            self._enqueue(item, waiter)
            self._waiters += 1
            if is_threaded:
                # Also where the event loop would start the commit: this caller may block it.
                self._ring()
            elif self._state in WAITS:
                is_deferred = self._state is not State.LINGERING or self._waiters >= self._enough
                if is_deferred:
                    self._move(WriterEvent.DEFER)
        if is_deferred:
            # Not under the lock: on any other thread than the loop's it starts here and now.
            policy.defer(self._start_commit)

    def note(self, item: T) -> None:
        """Note one item: it has no waiter, and shares the next commit, which comes soon."""
        with self._lock:
            self._enqueue(item, None)
            is_idle = self._state is State.IDLE
            if is_idle:
                self._move(WriterEvent.DEFER)
        if is_idle:
            self._policy.defer(self._ring_deferred)

    def begin_commit(
        self, started: SimpleQueue[None], most: int = MOST, *, alone: bool = False
    ) -> bool:
        """Prepare a group on this thread, and have the writer thread commit it next.

        True where `started` will be told that it is being written: from then on the writer needs
        nothing of the interpreter, and the caller goes on while it writes and syncs. False where
        another group is being written, nothing waits, or more than `most` items do. `alone`: where
        another group is being written, none is prepared behind it.
        """
        if alone:
            if not self._committing.acquire(blocking=False):
                return False
            try:
                return self._begin_commit(started, most, is_free=True)
            finally:
                self._committing.release()
        return self._begin_commit(started, most, is_free=None)

    def _begin_commit(self, started: SimpleQueue[None], most: int, *, is_free: bool | None) -> bool:
        is_fit = self._waiters > 0 and min(len(self._waiting), MOST) <= most
        if not is_fit or not self._preparing.acquire(blocking=False):
            return False
        try:
            if self._prepared is not None:
                return False
            group = self._prepare_group(most)
            if is_free is None:
                is_free = not self._committing.locked()
            is_next = group is not None and group.content is not None and is_free
            self._started = started if is_next else None
            with self._lock:
                self._prepared = group
                self._ring()
        finally:
            self._preparing.release()
        return is_next

    def announce_start(self) -> None:
        """Tell the caller of `begin_commit` that its group is being written; from `commit`."""
        started, self._started = self._started, None
        if started is not None:
            started.put(None)

    def commit_alone(self, commit: Callable[[], A]) -> A:
        """Commit something by itself, on this thread, while no group is committed."""
        with self._committing, self._preparing:
            if self._closed_reason:
                raise LedgerUnavailable(self._closed_reason)
            # INVARIANT: groups are committed in the order in which they were prepared.
            prepared, self._prepared = self._prepared, None
            self._settle(prepared)
            result = commit()
            self._commits += 1
        with self._lock:
            # The thread does the housekeeping.
            self._ring()
        self._policy.notify()
        return result

    def close(self) -> None:
        """Commit every item that was handed in, then end the thread."""
        with self._lock:
            if not self._closed_reason:
                self._closed_reason = "the ledger was closed"
                self._ring()
        self._thread.join()
        with self._committing:
            """No inline commit is under way any more."""

    def _enqueue(self, item: T, waiter: Waiter | None) -> None:
        if self._closed_reason:
            raise LedgerUnavailable(self._closed_reason)
        if len(self._waiting) >= MOST_WAITING:
            raise LedgerUnavailable(f"{MOST_WAITING} entries wait to be written already")
        self._waiting.append((item, waiter))
        self.received_count += 1

    def _move(self, event: WriterEvent) -> None:
        """Change the state; the caller holds the lock."""
        self._state = TRANSITIONS[self._state, event]

    def _ring(self) -> None:
        """Wake the thread if it sleeps; the caller holds the lock."""
        if self._state in RINGABLE:
            self._move(WriterEvent.RING)
            self._bell.put(None)

    def _ring_deferred(self) -> None:
        with self._lock:
            if self._state is State.DEFERRED:
                self._ring()

    def _start_commit(self) -> None:
        """Commit a deferred group: inline where the policy allows it, else on the thread."""
        with self._lock:
            if self._state is not State.DEFERRED:
                return
            if (
                self._prepared is not None
                or self._last_commit_s > INLINE_LIMIT_S
                or not self._policy.is_alone()
                or not self._committing.acquire(blocking=False)
            ):
                self._ring()
                return
            self._move(WriterEvent.START_INLINE)
        try:
            self._commit_next()
        finally:
            self._committing.release()
            self._end_inline()

    def _end_inline(self) -> None:
        with self._lock:
            if self._state is not State.INLINE:
                return  # the thread was woken meanwhile
            if self._is_long_sleep or self._waiters or self._prepared is not None:
                self._ring()  # for housekeeping, and for items that came meanwhile
            else:
                self._move(WriterEvent.END_INLINE)

    def _run(self) -> None:
        try:
            self._serve()
            reason = ""
        except Exception as error:  # noqa: BLE001 - a thread's outermost edge: callers get the error
            reason = f"writing ended: {type(error).__name__}: {error}"
        with self._preparing, self._lock:
            self._move(WriterEvent.END)
            self._closed_reason = reason or self._closed_reason
            left, self._waiting = self._waiting, deque()
            prepared, self._prepared = self._prepared, None
        if reason:
            waiters = [] if prepared is None else prepared.waiters
            waiters += [waiter for _, waiter in left]
            self._refuse(waiters, LedgerUnavailable(reason))

    def _serve(self) -> None:
        due: float | None = None
        seen, is_recent = 0, False
        while not (self._closed_reason and self._is_drained()):
            self._await_work(due, is_recent=is_recent)
            with self._committing:
                group = self._commit_next()
                if group is not None:
                    # The callers of this group will come again, and others came meanwhile: half of
                    # them make a group worth its commit, while the other half is on its way.
                    waiters = len(group.waiters) - group.waiters.count(None)
                    self._enough = (waiters + self._waiters + 1) // 2
                is_recent, seen = self._commits != seen, self._commits
                due = self._housekeep()

    def _is_drained(self) -> bool:
        # Under the lock: a group may be between `_waiting` and `_prepared`.
        with self._preparing:
            return not self._waiting and self._prepared is None

    def _await_work(self, due: float | None, *, is_recent: bool) -> None:
        """Sleep until there is something to commit; housekeeping is due after so many seconds."""
        if is_recent or self._waiting:
            is_long = False
            due = FIRE_AND_FORGET_DELAY_S if due is None else min(due, FIRE_AND_FORGET_DELAY_S)
        else:
            is_long = due is None or due > FIRE_AND_FORGET_DELAY_S
        self._sleep(WriterEvent.SLEEP if is_long else WriterEvent.DOZE, 1, due)
        if 0 < self._waiters < self._enough:
            self._sleep(WriterEvent.LINGER, self._enough, LINGER_S)

    def _sleep(self, how: WriterEvent, waiters: int, seconds: float | None) -> None:
        """Sleep until so many waiters are there or a group is prepared, but no longer than this."""
        with self._lock:
            if self._waiters >= waiters or self._prepared is not None or self._closed_reason:
                return
            self._is_long_sleep = how is WriterEvent.SLEEP
            self._move(how)
        with suppress(Empty):
            self._bell.get(timeout=seconds)
        with self._lock:
            self._move(WriterEvent.WAKE)

    def _commit_next(self) -> _Group[P] | None:
        """Commit the next group, if there is one; the caller holds the right to commit."""
        with self._preparing:
            group, self._prepared = self._prepared, None
            if group is None:
                group = self._prepare_group()
        self._settle(group)
        return group

    def _prepare_group(self, most: int = MOST) -> _Group[P] | None:
        """Make a group of the items that wait, None where none do; its caller is `_preparing`."""
        with self._lock:
            waiting = self._waiting
            batch = [waiting.popleft() for _ in range(min(len(waiting), most, MOST))]
            self._waiters -= sum([waiter is not None for _, waiter in batch])
        if not batch:
            return None
        size, batch = len(batch), self._resolve_all(batch)
        waiters = [waiter for _, waiter in batch]
        content: P | None = None
        try:
            if batch:
                items = [item for item, _ in batch]
                content = cast("P", items) if self._prepare is None else self._prepare(items)
        except Exception as error:  # noqa: BLE001 - a thread's outermost edge: callers get the error
            self._refuse(waiters, error)
        return _Group(content, waiters, size)

    def _resolve_all(self, batch: list[tuple[T, Waiter | None]]) -> list[tuple[T, Waiter | None]]:
        resolve = self._resolve
        if resolve is None:
            return batch
        good: list[tuple[T, Waiter | None]] = []
        for item, waiter in batch:
            try:
                good.append((resolve(item), waiter))
            except Exception as error:  # noqa: BLE001 - a thread's outermost edge: the caller gets the error
                self._refuse([waiter], error)
        return good

    def _settle(self, group: _Group[P] | None) -> None:
        """Make a group durable, if there is one, and give its waiters their results."""
        if group is None:
            return
        if group.content is not None:
            began = time.monotonic()
            try:
                results = self._commit(group.content)
            except Exception as error:  # noqa: BLE001 - a thread's outermost edge: callers get the error
                self.announce_start()
                self._refuse(group.waiters, error)
            else:
                self._last_commit_s = time.monotonic() - began
                for waiter, result in zip(group.waiters, results, strict=True):
                    if waiter is not None:
                        waiter.set_result(result)
                self._policy.notify()
        self._commits += 1
        self.settled_count += group.size

    def _refuse(self, waiters: Sequence[Waiter | None], error: Exception) -> None:
        for waiter in waiters:
            if waiter is not None:
                waiter.set_exception(error)
        self._policy.notify()


class _Group(NamedTuple, Generic[P]):
    """A group that is ready to be committed, and its waiters.

    Without `content` all of it was refused; it is counted when its turn comes. `size` is how many
    items it was made of, refused ones included.
    """

    content: P | None
    waiters: list[Waiter | None]
    size: int


def _do_nothing() -> None:
    """Do nothing after a group."""


def _never() -> bool:
    return False


def _run_now(work: Callable[[], None]) -> None:
    work()
