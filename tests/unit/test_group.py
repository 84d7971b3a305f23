import threading

import pytest

from pointsman.errors import LedgerUnavailable
from pointsman.storage.sqlite.group import MOST, MOST_WAITING, GroupCommit


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
    future = group.submit(0)
    gate.entered.acquire()
    return future


def test_each_caller_gets_the_result_of_its_own_item(group, gate):
    gate.may_pass.set()
    assert [group.submit(item).result() for item in (3, 1, 2)] == [30, 10, 20]


def test_items_gather_into_groups_of_at_most_64_in_order(group, gate):
    _busy(group, gate)
    futures = [group.submit(item) for item in range(150)]
    gate.may_pass.set()
    assert [future.result() for future in futures] == [item * 10 for item in range(150)]
    assert [len(each) for each in gate.groups] == [1, MOST, MOST, 150 - 2 * MOST]
    assert [item for each in gate.groups[1:] for item in each] == list(range(150))


def test_error_reaches_every_caller_of_the_failed_group(group, gate):
    first = _busy(group, gate)
    futures = [group.submit(item) for item in range(5)]
    gate.error = LedgerUnavailable("no room")
    gate.may_pass.set()
    for future in (first, *futures):
        with pytest.raises(LedgerUnavailable, match="no room"):
            future.result()


def test_group_after_a_failed_one_is_committed(group, gate):
    gate.error = ValueError("once")
    gate.may_pass.set()
    with pytest.raises(ValueError, match="once"):
        group.submit(1).result()
    gate.error = None
    assert group.submit(2).result() == 20


def test_closing_commits_what_was_handed_in(group, gate):
    _busy(group, gate)
    futures = [group.submit(item) for item in range(100)]
    closing = threading.Thread(target=group.close)
    closing.start()
    gate.may_pass.set()
    closing.join()
    assert [future.result() for future in futures] == [item * 10 for item in range(100)]


def test_closed_group_takes_nothing(group, gate):
    gate.may_pass.set()
    group.close()
    group.close()
    assert group.closed == "the ledger was closed"
    with pytest.raises(LedgerUnavailable, match="the ledger was closed"):
        group.submit(1)


def test_too_many_waiting_are_refused(group, gate):
    _busy(group, gate)
    for item in range(MOST_WAITING):
        group.submit(item)
    with pytest.raises(LedgerUnavailable, match="10000 entries wait to be written already"):
        group.submit(1)


def test_what_was_handed_in_cannot_be_cancelled(group, gate):
    first = _busy(group, gate)
    waiting = group.submit(1)
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
    assert group.submit(1).result() == 1
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
    assert group.submit(1).result() == 1
    resting.wait()
    waiting = [group.submit(item) for item in range(3)]
    may_fail.set()
    for future in waiting:
        with pytest.raises(LedgerUnavailable, match="ZeroDivisionError: bad rest"):
            future.result()
    group.close()
    with pytest.raises(LedgerUnavailable, match="bad rest"):
        group.submit(1)
