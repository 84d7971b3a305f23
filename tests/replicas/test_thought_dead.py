"""Replicas, a database or a ledger that stand still: nothing is freed, held or charged wrongly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.gateway.house import eventually
from tests.replicas.counts import NOW, Counts, counting, held

from pointsman.access.budgets import Reservation
from pointsman.app import Pointsman
from pointsman.errors import BudgetUnavailable
from pointsman.kernel.entry import Entry
from pointsman.kernel.record import OUTCOME
from pointsman.providers.messages import Usage
from pointsman.recording.recorder import Recorder
from pointsman.replicas import replica as replicas
from pointsman.replicas.replica import LOST_AFTER, Replica, _lost_outcome_draft
from pointsman.replicas.shared_health import SharedHealth
from pointsman.replicas.shared_stores import SharedStores
from pointsman.storage.reserves import Bound, Hold
from pointsman.storage.sharing import Beat
from pointsman.testing import FrozenClock

LEASE_S = 10.0
COST = 40


class Stage(NamedTuple):
    """Two replicas of one database, their ledgers, and clocks that a test moves."""

    one: Counts
    replica: Replica
    recorder: Recorder
    two: Counts
    other: Replica
    clock: FrozenClock
    awake: list[float]


@pytest.fixture(params=["postgres", "redis"])
def stage(
    request: pytest.FixtureRequest,
    postgres_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Stage]:
    redis_url = str(request.getfixturevalue("redis_url")) if request.param == "redis" else ""
    awake, clock = [0.0], FrozenClock(NOW)
    monkeypatch.setattr(replicas, "_awake_s", lambda: awake[0])
    with ExitStack() as stack:
        counts, found, recorders = [], [], []
        for name in ("one", "two"):
            opened = Pointsman(tmp_path, store=postgres_url, writer=name, clock=clock)
            recorders.append(stack.enter_context(opened).decision_recorder.recorder())
            counts.append(stack.enter_context(counting(postgres_url, redis_url, name)))
            found.append(_replica(counts[-1], recorders[-1], clock))
            found[-1]._beat()
        yield Stage(counts[0], found[0], recorders[0], counts[1], found[1], clock, awake)


def _replica(counts: Counts, recorder: Recorder, clock: FrozenClock) -> Replica:
    shared = SharedStores(
        counts.process, counts.durable._pool, counts.durable, counts.state, counts.quick,
        lease_s=LEASE_S,
    )  # fmt: skip
    health = SharedHealth(clock, counts.process, lambda: None)
    sources = (clock, counts.budgets._ids)
    made = Replica(shared, counts.budgets, health, recorder, sources, lambda: ("", ""))
    recorder.listen(lambda entries, _took: made.enqueue_outcomes(entries))
    return made


def silent(counts: Counts, process: str) -> None:
    """Have a replica's last sign of life be over."""
    counts.state.beat(Beat(process, "serve", "", "", "", 0), -1.0)


def outcomes(stage: Stage) -> list[str]:
    rows = stage.one.durable.outcomes(stage.recorder.chain, 0, 1000)
    return [name for _, name, _ in rows]


# A replica that stood still.


def test_nothing_is_set_aside_past_the_lease_before_the_next_sign_of_life(stage: Stage) -> None:
    stage.awake[0] = LEASE_S - 0.1
    held(stage.one, 100)
    stage.awake[0] = LEASE_S
    with pytest.raises(BudgetUnavailable, match="no sign of life"):
        held(stage.one, 100)
    stage.replica._beat()
    held(stage.one, 100)
    assert stage.two.left() == 800


def test_a_replica_that_overslept_holds_anew_even_where_nobody_told_it(stage: Stage) -> None:
    held(stage.one, 100)
    (stage.two.quick or stage.two.durable).lapse("one")
    assert stage.two.left() == 1000
    stage.awake[0] = LEASE_S
    stage.replica._beat()
    assert stage.two.left() == 900


@pytest.mark.parametrize("freed", [True, False])
def test_what_was_asked_for_before_a_standstill_is_not_admitted_after_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, *, freed: bool
) -> None:
    counts = stage.one.quick or stage.one.durable
    reserve = counts.reserve

    def slowly(hold: Hold, bounds: Sequence[Bound]) -> object:
        found = reserve(hold, bounds)
        monkeypatch.undo()
        monkeypatch.setattr(replicas, "_awake_s", lambda: LEASE_S)
        if freed:
            counts.lapse("one")
        stage.replica._beat()
        return found

    monkeypatch.setattr(counts, "reserve", slowly)
    with pytest.raises(BudgetUnavailable):
        held(stage.one, 100)
    stage.one.budgets.tidy(NOW)
    assert stage.two.left() == 1000
    held(stage.one, 100)
    assert stage.two.left() == 900


def test_what_is_being_asked_for_is_not_held_past_a_limit(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = stage.one.quick or stage.one.durable
    reserve = counts.reserve

    def late(hold: Hold, bounds: Sequence[Bound]) -> object:
        monkeypatch.undo()
        monkeypatch.setattr(replicas, "_awake_s", lambda: LEASE_S)
        stage.replica._beat()
        return reserve(hold, bounds)

    held(stage.two, 950)
    monkeypatch.setattr(counts, "reserve", late)
    with pytest.raises(AssertionError, match="Refused"):
        held(stage.one, 100)
    assert stage.two.left() == 50


# A Redis that lost all while money was asked for.


def _lose_redis(stage: Stage) -> None:
    assert stage.one.quick is not None
    stage.one.quick._redis.flushall()
    for _ in range(2):
        for each in (stage.replica, stage.other):
            each._beat()
            each._tend_epoch()


@pytest.mark.parametrize("stage", ["redis"], indirect=True)
def test_what_a_lost_redis_had_set_aside_is_not_admitted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = stage.one.quick or stage.one.durable
    reserve = counts.reserve

    def slowly(hold: Hold, bounds: Sequence[Bound]) -> object:
        found = reserve(hold, bounds)
        counts.__dict__.pop("reserve")
        _lose_redis(stage)
        return found

    monkeypatch.setattr(counts, "reserve", slowly)
    with pytest.raises(BudgetUnavailable, match="counted anew"):
        held(stage.one, 100)
    stage.one.budgets.tidy(NOW)
    assert stage.two.left() == 1000


@pytest.mark.parametrize("stage", ["redis"], indirect=True)
def test_what_is_asked_for_while_redis_is_lost_is_held_to_the_limit(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = stage.one.quick or stage.one.durable
    reserve = counts.reserve

    def late(hold: Hold, bounds: Sequence[Bound]) -> object:
        counts.__dict__.pop("reserve")
        _lose_redis(stage)
        return reserve(hold, bounds)

    held(stage.two, 950)
    monkeypatch.setattr(counts, "reserve", late)
    with pytest.raises(AssertionError, match="Refused"):
        held(stage.one, 100)
    assert stage.two.left() == 50


# What others make of it.


def test_a_replica_is_dead_that_was_silent_at_two_looks(stage: Stage) -> None:
    held(stage.one, 100)
    silent(stage.two, "one")
    stage.other._sweep()
    assert stage.two.left() == 900
    stage.other._sweep()
    assert stage.two.left() == 1000
    assert [each.beat.process for each in stage.two.state.peers()] == ["two"]


def test_a_sign_of_life_between_two_looks_is_enough(stage: Stage) -> None:
    held(stage.one, 100)
    for _ in range(3):
        silent(stage.two, "one")
        stage.other._sweep()
    stage.replica._beat()
    stage.other._sweep()
    stage.other._sweep()
    assert stage.two.left() == 900


def test_whoever_gives_a_sign_after_it_was_seen_dead_is_not_buried(stage: Stage) -> None:
    held(stage.one, 100)
    silent(stage.two, "one")
    dead = next(each for each in stage.two.state.peers() if each.beat.process == "one")
    assert not dead.is_alive
    stage.replica._beat()
    assert not stage.two.state.bury(dead, lambda: pytest.fail("it lives"))
    assert stage.two.left() == 900


def test_a_grave_that_cannot_be_dug_is_dug_at_another_look(stage: Stage) -> None:
    held(stage.one, 100)
    silent(stage.two, "one")
    dead = next(each for each in stage.two.state.peers() if each.beat.process == "one")

    def unable() -> None:
        raise BudgetUnavailable

    with pytest.raises(BudgetUnavailable):
        stage.two.state.bury(dead, unable)
    assert [each.beat.process for each in stage.two.state.peers()] == ["one", "two"]
    stage.other._sweep()
    stage.other._sweep()
    assert stage.two.left() == 1000


# A ledger that stood still.


def _ended(stage: Stage, reservation: Reservation) -> None:
    assert stage.one.budgets.settle(reservation, Usage(1, COST)) is not None


def test_an_end_that_the_ledger_still_works_at_is_not_recorded_twice(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    reservation = held(stage.one, COST)
    group = stage.recorder._ledger._group
    with group._committing:
        _ended(stage, reservation)
        stage.recorder.note(_lost_outcome_draft(reservation.id, None, NOW))
        stage.clock.advance(seconds=LOST_AFTER // 1_000_000 + 1)
        submitted = stage.recorder.received_count
        with monkeypatch.context() as watched:
            # The ledger stands still: whoever waited for it here would wait for ever.
            watched.setattr(stage.recorder, "append", lambda _draft: pytest.fail("told twice"))
            for _ in range(5):
                stage.replica._record_lost_outcomes()
        assert stage.recorder.received_count == submitted
    eventually(lambda: stage.replica._outcomes)
    stage.replica._fold()
    stage.replica._record_lost_outcomes()
    assert outcomes(stage) == [reservation.id]


def test_an_end_that_the_ledger_never_got_is_recorded_once(stage: Stage) -> None:
    reservation = held(stage.one, COST)
    _ended(stage, reservation)
    stage.clock.advance(seconds=LOST_AFTER // 1_000_000 + 1)
    stage.replica._record_lost_outcomes()
    assert outcomes(stage) == []
    for _ in range(3):
        stage.replica._record_lost_outcomes()
        stage.replica._fold()
        stage.replica._folding.count()
    assert outcomes(stage) == [reservation.id]
    assert stage.one.budgets.overdue(stage.clock.now()) == []


def test_what_is_recorded_in_another_chain_is_counted_at_once(stage: Stage) -> None:
    first, second = held(stage.one, COST), held(stage.one, COST)
    told: list[Entry] = []
    for recorder, each in ((stage.recorder, first), (stage.other._recorder, second)):
        spent = stage.one.budgets.settle(each, Usage(1, COST))
        told.append(recorder.record(_lost_outcome_draft(each.id, spent, NOW)).entry)
    stage.replica._outcomes.clear()
    stage.other._outcomes.clear()
    stage.replica.enqueue_outcomes(told)
    # As after its chain was taken by another: what follows is in a chain of its own.
    stage.replica._recorder = stage.other._recorder
    stage.replica._mark = 10_000
    stage.replica._fold()
    assert stage.one.durable.behind() == []
    assert stage.one.budgets.open_holds == ()
    assert {each.kind for each in told} == {OUTCOME}
    assert stage.replica._mark == told[1].seq + 1
