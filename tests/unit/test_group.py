import queue
import threading
import time

import pytest

from pointsman.errors import LedgerUnavailable
from pointsman.storage.writer import group as module
from pointsman.storage.writer.group import MOST, MOST_WAITING, GroupCommit, State


class Gate:
    """A commit that waits until it is let through, and remembers its groups."""

    def __init__(self):
        self.groups = []
        self.entered = threading.Semaphore(0)
        self.may_pass = threading.Event()
        self.error = None

    def __call__(self, items):
        self.groups.append(list(items))
        self.entered.release()
        self.may_pass.wait()
        if self.error is not None:
            raise self.error
        return [item * 10 for item in items]


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def group(gate):
    group = GroupCommit("test", gate)
    yield group
    gate.may_pass.set()
    group.close()


def _busy(group, gate):
    """Hand in one item and wait until its commit has begun: what follows gathers behind it."""
    future = group.append(0)
    gate.entered.acquire()
    return future


def test_each_caller_gets_the_result_of_its_own_item(group, gate):
    gate.may_pass.set()
    assert [group.append(item).result() for item in (3, 1, 2)] == [30, 10, 20]


def test_items_gather_into_groups_of_at_most_64_in_order(group, gate):
    _busy(group, gate)
    futures = [group.append(item) for item in range(150)]
    gate.may_pass.set()
    assert [future.result() for future in futures] == [item * 10 for item in range(150)]
    assert [len(each) for each in gate.groups] == [1, MOST, MOST, 150 - 2 * MOST]
    assert [item for each in gate.groups[1:] for item in each] == list(range(150))


def test_error_reaches_every_caller_of_the_failed_group(group, gate):
    first = _busy(group, gate)
    futures = [group.append(item) for item in range(5)]
    gate.error = LedgerUnavailable("no room")
    gate.may_pass.set()
    for future in (first, *futures):
        with pytest.raises(LedgerUnavailable, match="no room"):
            future.result()


def test_group_after_a_failed_one_is_committed(group, gate):
    gate.error = ValueError("once")
    gate.may_pass.set()
    with pytest.raises(ValueError, match="once"):
        group.append(1).result()
    gate.error = None
    assert group.append(2).result() == 20


def test_what_was_refused_is_settled_count_like_what_is_durable(group, gate):
    first = _busy(group, gate)
    group.note(1)
    assert (group.received_count, group.settled_count) == (2, 0)
    gate.error = OSError("no space left")
    gate.may_pass.set()
    with pytest.raises(OSError, match="no space"):
        first.result()
    group.close()
    assert (group.received_count, group.settled_count) == (2, 2)


def test_closing_commits_all_that_was_handed_in(group, gate):
    _busy(group, gate)
    futures = [group.append(item) for item in range(100)]
    closing = threading.Thread(target=group.close)
    closing.start()
    gate.may_pass.set()
    closing.join()
    assert [future.result() for future in futures] == [item * 10 for item in range(100)]


def test_closed_group_takes_nothing(group, gate):
    gate.may_pass.set()
    group.close()
    group.close()
    assert group.closed_reason == "the ledger was closed"
    with pytest.raises(LedgerUnavailable, match="the ledger was closed"):
        group.append(1)


def test_too_many_waiting_are_refused(group, gate):
    _busy(group, gate)
    for item in range(MOST_WAITING):
        group.append(item)
    with pytest.raises(LedgerUnavailable, match="10000 entries wait to be written already"):
        group.append(1)


def test_an_appended_item_cannot_be_cancelled(group, gate):
    first = _busy(group, gate)
    waiting = group.append(1)
    assert not first.cancel()
    assert not waiting.cancel()
    gate.may_pass.set()
    assert waiting.result() == 10


def test_rest_runs_after_every_group_and_when_it_asked_to():
    rested = threading.Semaphore(0)

    def rest():
        rested.release()
        return 0.0

    group = GroupCommit("test", list, rest)
    assert group.append(1).result() == 1
    for _ in range(3):
        rested.acquire()
    group.close()


def test_rest_that_fails_ends_the_group_and_tells_every_caller():
    resting, may_fail = threading.Event(), threading.Event()

    def rest():
        resting.set()
        may_fail.wait()
        raise ZeroDivisionError("bad rest")

    group = GroupCommit("test", list, rest)
    assert group.append(1).result() == 1
    resting.wait()
    waiting = [group.append(item) for item in range(3)]
    may_fail.set()
    for future in waiting:
        with pytest.raises(LedgerUnavailable, match="ZeroDivisionError: bad rest"):
            future.result()
    group.close()
    with pytest.raises(LedgerUnavailable, match="bad rest"):
        group.append(1)


class Loop:
    """Does later what it is told, as an event loop does; `is_alone` says what it would say."""

    def __init__(self, group):
        self.work = []
        self.is_alone = True
        group._policy.serve_loop(lambda: None, self.work.append, lambda: self.is_alone)

    def turn(self):
        work, self.work[:] = [*self.work], []
        for each in work:
            each()


class Told:
    """Whoever waits, and by which thread it was told."""

    def __init__(self):
        self.done = threading.Event()
        self.result = self.error = self.thread = None

    def set_result(self, result):
        self.result, self.thread = result, threading.get_ident()
        self.done.set()

    def set_exception(self, error):
        self.error, self.thread = error, threading.get_ident()
        self.done.set()


def test_whoever_is_alone_commits_itself_and_takes_along_what_was_noted(group, gate):
    gate.may_pass.set()
    loop, told = Loop(group), Told()
    group.note(1)
    group.hand_in(2, told)
    loop.turn()
    assert told.done.wait(60)
    assert told.result == 20
    assert [item for each in gate.groups for item in each] == [1, 2]


def test_an_item_of_a_caller_that_is_alone_is_committed_in_its_own_thread(group, gate):
    gate.may_pass.set()
    loop, own = Loop(group), 0
    for item in range(50):
        told = Told()
        group.hand_in(item, told)
        loop.turn()
        assert told.done.wait(60)
        assert told.result == item * 10
        own += told.thread == threading.get_ident()
    # Its thread may be at what it does between two groups; then it commits, as ever.
    assert own > 0


def test_a_caller_with_others_to_serve_leaves_the_commit_to_the_thread(group, gate):
    gate.may_pass.set()
    loop, told = Loop(group), Told()
    loop.is_alone = False
    group.hand_in(1, told)
    loop.turn()
    assert told.done.wait(60)
    assert told.thread != threading.get_ident()


def test_a_failed_commit_of_a_caller_that_is_alone_is_told_and_the_next_one_is_taken(group, gate):
    gate.may_pass.set()
    loop, bad, good = Loop(group), Told(), Told()
    gate.error = LedgerUnavailable("no disk")
    group.hand_in(1, bad)
    loop.turn()
    assert bad.done.wait(60)
    assert bad.error is gate.error
    gate.error = None
    group.hand_in(2, good)
    loop.turn()
    assert good.done.wait(60)
    assert good.result == 20


@pytest.mark.parametrize("hurries", [False, True])
def test_nothing_is_lost_or_told_twice_where_a_loop_and_threads_hand_in_at_once(gate, hurries):
    gate.may_pass.set()
    group = GroupCommit("test", gate)
    loop, told, futures = Loop(group), [], []

    def submit(first):
        futures.extend([group.append(first + each) for each in range(200)])

    threads = [threading.Thread(target=submit, args=(1000 * n,)) for n in (1, 2)]
    for each in threads:
        each.start()
    for item in range(300):
        told.append(Told())
        loop.is_alone = item % 3 > 0
        group.hand_in(item, told[-1])
        group.note(-1)
        if hurries:
            group.begin_commit(queue.SimpleQueue())
        loop.turn()
    for each in threads:
        each.join()
    assert all(each.done.wait(60) for each in told)
    assert [each.result for each in told] == [item * 10 for item in range(300)]
    assert all(future.result(10) % 10 == 0 for future in futures)
    group.close()
    committed = sorted(item for each in gate.groups for item in each)
    threaded = [1000 * n + each for n in (1, 2) for each in range(200)]
    assert committed == sorted([*[-1] * 300, *range(300), *threaded])


def test_what_nobody_waits_for_is_not_left_until_the_next_rest(gate):
    gate.may_pass.set()
    group = GroupCommit("test", gate, housekeep=lambda: 3600.0)
    try:
        group.append(0).result()
        for item in (1, 2):
            # Long after the last commit, when the thread sleeps for an hour.
            gate.entered.acquire()
            assert _is_asleep(group)
            group.note(item)
        assert gate.entered.acquire(timeout=60)
        assert gate.groups == [[0], [1], [2]]
    finally:
        group.close()


def test_what_is_noted_after_a_caller_committed_itself_is_not_left_either(gate):
    gate.may_pass.set()
    group = GroupCommit("test", gate, housekeep=lambda: 3600.0)
    try:
        loop, told = Loop(group), Told()
        assert _is_asleep(group)
        group.hand_in(1, told)
        loop.turn()
        assert told.done.wait(60)
        gate.entered.acquire()
        group.note(2)
        loop.turn()
        assert gate.entered.acquire(timeout=60)
        assert gate.groups == [[1], [2]]
    finally:
        group.close()


def _is_asleep(group):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if group._state is State.IDLE:
            return True
    return False


def test_what_is_committed_by_itself_waits_for_the_group_before_it(group, gate):
    first, done = _busy(group, gate), []
    thread = threading.Thread(
        target=lambda: done.append(group.commit_alone(lambda: [*gate.groups]))
    )
    thread.start()
    assert not done
    gate.may_pass.set()
    thread.join(30)
    assert (first.result(), done) == (0, [[[0]]])


def test_an_error_of_what_is_committed_by_itself_reaches_its_caller_alone(group, gate):
    def fail():
        raise ValueError("no luck")

    gate.may_pass.set()
    with pytest.raises(ValueError, match="no luck"):
        group.commit_alone(fail)
    assert group.append(1).result() == 10


def test_rest_runs_after_what_is_committed_by_itself():
    rested = threading.Semaphore(0)
    group = GroupCommit("test", lambda items: items, rested.release)
    group.commit_alone(lambda: 1)
    assert rested.acquire(timeout=30)
    group.close()


def test_a_closed_group_commits_nothing_by_itself_either(group, gate):
    gate.may_pass.set()
    group.close()
    with pytest.raises(LedgerUnavailable, match="closed"):
        group.commit_alone(lambda: 1)


class Readied:
    """A commit that is told what was made ready, and by which thread."""

    def __init__(self, gate):
        self.threads = []
        self.error = None
        self.group = GroupCommit("test", gate, prepare=self._ready)

    def _ready(self, items):
        self.threads.append(threading.get_ident())
        if self.error is not None:
            raise self.error
        return items


@pytest.fixture
def readied(gate):
    readied = Readied(gate)
    yield readied
    gate.may_pass.set()
    readied.group.close()


def _hurried(readied, *items):
    """Hand items in as an event loop does, and hurry before its turn is over."""
    loop, told = Loop(readied.group), [Told() for _ in items]
    loop.is_alone = False
    assert _is_asleep(readied.group)
    for item, each in zip(items, told, strict=True):
        readied.group.hand_in(item, each)
    writing = queue.SimpleQueue()
    return loop, told, writing, readied.group.begin_commit(writing)


def test_whoever_hurries_makes_the_group_ready_and_the_thread_commits_it(readied, gate):
    _loop, told, writing, is_ready = _hurried(readied, 1, 2)
    assert is_ready
    assert readied.threads == [threading.get_ident()]
    assert gate.entered.acquire(timeout=60)
    readied.group.announce_start()
    assert writing.get(timeout=60) is None
    assert not any(each.done.is_set() for each in told)
    gate.may_pass.set()
    assert all(each.done.wait(60) for each in told)
    assert [each.result for each in told] == [10, 20]
    assert threading.get_ident() not in {each.thread for each in told}
    assert gate.groups == [[1, 2]]


def test_the_ring_that_was_put_off_comes_to_nothing_after_a_hurry(readied, gate):
    loop, told, _writing, _is_ready = _hurried(readied, 1)
    gate.may_pass.set()
    assert told[0].done.wait(60)
    readied.group.note(2)
    loop.turn()
    assert gate.groups in ([[1]], [[1], [2]])
    assert readied.group.settled_count <= readied.group.received_count


def test_there_is_nothing_to_hurry_where_nothing_was_put_off(readied, gate):
    gate.may_pass.set()
    assert not readied.group.begin_commit(queue.SimpleQueue())
    assert readied.group.append(1).result(60) == 10
    assert not readied.group.begin_commit(queue.SimpleQueue())


def test_a_group_that_cannot_be_made_ready_is_refused_and_the_next_one_is_taken(readied, gate):
    gate.may_pass.set()
    readied.error = LedgerUnavailable("no disk")
    _loop, told, _writing, is_ready = _hurried(readied, 1, 2)
    assert not is_ready
    assert [each.error for each in told] == [readied.error] * 2
    readied.error = None
    assert readied.group.append(3).result(60) == 30
    assert gate.groups == [[3]]
    assert readied.group.settled_count == readied.group.received_count == 3


def test_what_was_made_ready_is_committed_before_anything_by_itself(readied, gate):
    """An entry is joined to the one before it when it is made ready: nothing may come between."""
    committed = []
    gate.may_pass.set()
    assert _is_asleep(readied.group)
    bell, readied.group._bell = readied.group._bell, queue.SimpleQueue()
    _, told, _, is_next = _hurried(readied, 1)
    readied.group._bell = bell  # the thread did not hear of it
    assert is_next
    readied.group.commit_alone(lambda: committed.append([*gate.groups]))
    assert committed == [[[1]]]
    assert told[0].result == 10
    bell.put(None)


def test_a_group_is_made_ready_while_another_one_is_written(readied, gate):
    first = _busy(readied.group, gate)
    Loop(readied.group)
    told = [Told(), Told()]
    for item, each in enumerate(told, 1):
        readied.group.hand_in(item, each)
    assert not readied.group.begin_commit(queue.SimpleQueue()), "it is not the next to be written"
    assert not readied.group.begin_commit(queue.SimpleQueue()), "nothing more is to be made ready"
    assert readied.threads[-1] == threading.get_ident()
    later = Told()
    readied.group.hand_in(3, later)
    assert not readied.group.begin_commit(queue.SimpleQueue()), "one group at most is ready"
    gate.may_pass.set()
    assert all(each.done.wait(60) for each in (*told, later))
    assert first.result(60) == 0
    assert gate.groups == [[0], [1, 2], [3]]
    assert len(readied.threads) == 3


def test_what_is_ready_does_not_wait_for_others_to_come(readied, gate, monkeypatch):
    monkeypatch.setattr(module, "LINGER_S", 120)
    gate.may_pass.set()
    assert _is_asleep(readied.group)
    readied.group._enough = 9
    bell, readied.group._bell = readied.group._bell, queue.SimpleQueue()
    _, told, _, is_next = _hurried(readied, 1)
    assert is_next
    readied.group.hand_in(2, Told())  # before the thread wakes
    readied.group._bell = bell
    bell.put(None)
    assert told[0].done.wait(60)
    readied.group._enough = 1
    bell.put(None)


def test_what_is_refused_counts_when_those_before_it_are_durable(gate):
    def check(item):
        if item < 0:
            raise LedgerUnavailable("not that one")
        return item

    group = GroupCommit("test", gate, resolve=check)
    _busy(group, gate)
    Loop(group)
    told = Told()
    group.hand_in(-1, told)
    group.begin_commit(queue.SimpleQueue())
    assert "not that one" in str(told.error)
    assert group.settled_count == 0, "the one before it is not durable"
    gate.may_pass.set()
    group.close()
    assert group.settled_count == group.received_count == 2


def test_more_than_may_be_taken_is_not_hurried(readied, gate):
    _busy(readied.group, gate)
    Loop(readied.group)
    told = [Told(), Told()]
    for item, each in enumerate(told, 1):
        readied.group.hand_in(item, each)
    readied.group.begin_commit(queue.SimpleQueue(), most=1)
    assert len(readied.threads) == 1, "left to the thread"
    gate.may_pass.set()
    assert all(each.done.wait(60) for each in told)


def test_what_was_made_ready_is_committed_when_the_group_is_closed(gate):
    gate.may_pass.set()
    readied = Readied(gate)
    _, told, _, _ = _hurried(readied, 1, 2)
    readied.group.close()
    assert [each.result for each in told] == [10, 20]


@pytest.mark.parametrize("is_alone", [False, True])
def test_whoever_hands_in_from_elsewhere_than_the_loop_begins_at_once(group, gate, is_alone):
    """A loop's own `soon` does at once what a thread beside it asks for."""
    gate.may_pass.set()
    group._policy.serve_loop(lambda: None, lambda work: work(), lambda: is_alone)
    assert _is_asleep(group)
    told = [Told(), Told()]
    handing = threading.Thread(
        target=lambda: [group.hand_in(n, each) for n, each in enumerate(told)], daemon=True
    )
    handing.start()
    assert all(each.done.wait(60) for each in told)
    assert [each.result for each in told] == [0, 10]
