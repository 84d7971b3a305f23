"""Group commit against its own table: every transition is taken, none that the table lacks."""

import re
import threading
from queue import Empty, SimpleQueue
from typing import ClassVar
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pointsman.storage.writer import group as module
from pointsman.storage.writer import states
from pointsman.storage.writer.group import (
    INLINE_LIMIT_S,
    TRANSITIONS,
    CommitPolicy,
    GroupCommit,
    State,
    WriterEvent,
)

SETTLE_S = 10
ASLEEP = (State.IDLE, State.DOZING, State.LINGERING, State.DEFERRED, State.INLINE)


class Bell:
    """The thread's bell: it rings at once, but its time runs out only when the test says so."""

    def __init__(self):
        self._rings = SimpleQueue()

    def put(self, ring):
        self._rings.put(ring)

    def get(self, timeout=None):
        if self._rings.get() == "time is over":
            raise Empty


class Recorded(GroupCommit):
    """Writes down every transition."""

    taken: ClassVar[set] = set()
    wakes = 0

    def _move(self, event):
        before = self._state
        super()._move(event)
        self.taken.add((before, event))
        self.wakes += event is WriterEvent.WAKE


class Waiter:
    def __init__(self, item):
        self.item, self.results = item, []

    def set_result(self, result):
        self.results.append(result)

    def set_exception(self, error):
        self.results.append(error)


class Writer(RuleBasedStateMachine):
    """Callers of every kind, an event loop, and a disk that may fail, around one group commit."""

    def __init__(self):
        super().__init__()
        self.durable, self.refused, self.handed_in = [], [], []
        self.waiters, self.round, self.during_commit = [], [], []
        self.fails = self.is_alone = self.housekeeping_fails = False
        self.policy = CommitPolicy()
        self.policy.serve_loop(lambda: None, self.round.append, lambda: self.is_alone)
        with patch.object(module, "SimpleQueue", Bell):
            self.group = Recorded("test", self._commit, self._housekeep, policy=self.policy)
        self._settle()

    def _commit(self, items):
        while self.during_commit:
            self.during_commit.pop()()
        if self.fails:
            self.fails = False
            self.refused += items
            raise OSError("the sync failed")
        self.durable += items
        return [item * 10 for item in items]

    def _housekeep(self):
        if self.housekeeping_fails:
            raise ZeroDivisionError
        return 3600.0

    def _settle(self):
        """Return once the thread sleeps, with nothing that would wake it."""
        for _ in range(SETTLE_S * 1000):
            if self.group._state in ASLEEP or not self.group._thread.is_alive():
                return
            threading.Event().wait(0.001)
        raise AssertionError(f"the thread does not come to rest: {self.group._state}")

    def _new_item(self):
        self.handed_in.append(len(self.handed_in))
        return self.handed_in[-1]

    def _hand_in(self):
        waiter = Waiter(self._new_item())
        self.group.hand_in(waiter.item, waiter)
        self.waiters.append(waiter)

    def _submit(self):
        item = self._new_item()
        waiter = Waiter(item)
        self.group.append(item).add_done_callback(
            lambda done: waiter.results.append(done.exception() or done.result())
        )
        self.waiters.append(waiter)

    def _pass_time(self):
        """Let the time of a sleeping thread run out, and wait until it noticed."""
        wakes = self.group.wakes
        self.group._bell.put("time is over")
        for _ in range(SETTLE_S * 1000):
            if self.group.wakes > wakes:
                return
            threading.Event().wait(0.001)
        raise AssertionError("the thread sleeps on")

    @rule(count=st.integers(1, 4))
    def a_caller_blocks(self, count):
        with self.group._committing:  # so that they share one group
            for _ in range(count):
                self._submit()
        self._settle()

    @rule(count=st.integers(1, 4))
    def the_loop_hands_in(self, count):
        for _ in range(count):
            self._hand_in()
        self._settle()

    @rule()
    def an_item_without_a_waiter_comes(self):
        self.group.note(self._new_item())
        self._settle()

    @rule(is_alone=st.booleans(), is_slow=st.booleans())
    def the_round_of_the_loop_ends(self, is_alone, is_slow):
        self.is_alone = is_alone
        self.group._last_commit_s = INLINE_LIMIT_S * 2 if is_slow else 0.0
        work, self.round[:] = [*self.round], []
        for start in work:
            start()
        self.during_commit.clear()
        self._settle()

    @precondition(lambda self: self.group._state is State.DEFERRED)
    @rule(what=st.sampled_from(["nothing", "time passes", "a caller blocks", "the loop hands in"]))
    def the_loop_commits_while(self, what):
        acts = {
            "nothing": lambda: None,
            "time passes": self._pass_time,
            "a caller blocks": self._submit,
            "the loop hands in": self._hand_in,
        }
        self.during_commit.append(acts[what])
        self.the_round_of_the_loop_ends(is_alone=True, is_slow=False)

    @rule()
    def a_group_is_begun(self):
        self.group.begin_commit(SimpleQueue())
        self._settle()

    @rule()
    def something_is_committed_alone(self):
        assert self.group.commit_alone(lambda: "alone") == "alone"
        self._settle()

    @rule()
    def time_passes(self):
        self._pass_time()
        self._settle()

    @rule()
    def the_next_sync_fails(self):
        self.fails = True

    @invariant()
    def nothing_is_acknowledged_without_being_durable(self):
        for waiter in self.waiters:
            assert len(waiter.results) <= 1
            if waiter.results and not isinstance(waiter.results[0], Exception):
                assert waiter.results == [waiter.item * 10]
                assert waiter.item in self.durable

    @invariant()
    def items_are_committed_in_their_order(self):
        assert self.durable == sorted(self.durable)
        assert self.group.settled_count == len(self.durable) + len(self.refused)
        assert self.group.received_count == len(self.handed_in)

    def teardown(self):
        self.housekeeping_fails = len(self.handed_in) % 5 == 4
        self.group.close()
        assert self.group._state is State.ENDED
        assert all(len(waiter.results) == 1 for waiter in self.waiters)
        if not self.housekeeping_fails:
            assert sorted(self.durable + self.refused) == self.handed_in


def test_every_transition_of_the_writer_is_taken_and_no_item_is_lost():
    Recorded.taken = set()
    run_state_machine_as_test(
        Writer,
        settings=settings(
            max_examples=150,
            stateful_step_count=30,
            derandomize=True,
            phases=[Phase.generate],
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert Recorded.taken == set(TRANSITIONS)


def test_the_table_in_the_docstring_is_the_table_in_force():
    rows = re.findall(r"\| (\w+) +\| (\w+) +\| (\w+) +\|", states.__doc__.upper())
    written = {(State[state], WriterEvent[event]): State[after] for state, event, after in rows[1:]}
    assert written == TRANSITIONS
