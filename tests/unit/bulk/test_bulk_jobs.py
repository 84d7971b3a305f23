"""Bulk work on SQLite: the same as the command that does it in one go, and it goes on when cut."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from tests.models.many_turns import record_turns, write_policy

from pointsman.app import Pointsman
from pointsman.audit.backtest.result import backtest_value
from pointsman.audit.verify import verify_ledger
from pointsman.bulk.jobs import MOST_TRIES, PLACE, BulkJobs, list_jobs, read_job
from pointsman.bulk.reruns import ReplayGiven, backtest_given
from pointsman.bulk.rescoring import RescoreGiven, TurnScore, weightiest_scores
from pointsman.bulk.verifying import VerifyGiven
from pointsman.errors import ActionRefused, InputError, NotFound
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import EPOCH, Instant
from pointsman.kernel.number import ONE, ZERO, Billionths, MicroUsd
from pointsman.kernel.record import Names
from pointsman.learning.feedback import Feedback, feedback_draft
from pointsman.learning.recorded_runs import SHADOW
from pointsman.learning.shadow_runs import JudgeVerdict, judge_verdict_draft
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.testing import CountedIds, FrozenClock
from pointsman.turns.learning.fingerprint import Fingerprint

A_LOOK = Fingerprint()
TURNS = 700
SHORT = 200


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with some turns, of which every test takes a copy."""
    home = tmp_path_factory.mktemp("bulk") / "home"
    write_policy(home)
    with opened(home) as pointsman:
        for _ in record_turns(pointsman, 0, TURNS):
            pass
    return home


@pytest.fixture
def home(recorded: Path, tmp_path: Path) -> Path:
    import shutil

    shutil.copytree(recorded, tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def pointsman(home: Path) -> Iterator[Pointsman]:
    with opened(home) as found:
        yield found


@pytest.fixture
def jobs(pointsman: Pointsman) -> Iterator[BulkJobs]:
    with closing(BulkJobs(pointsman.home, pointsman.clock, pointsman.ids)) as found:
        yield found


def opened(home: Path) -> Pointsman:
    return Pointsman(home, clock=FrozenClock(), ids=CountedIds())


@contextmanager
def bulk(home: Path) -> Iterator[tuple[Pointsman, BulkJobs]]:
    with ExitStack() as stack:
        pointsman = stack.enter_context(opened(home))
        jobs = BulkJobs(pointsman.home, pointsman.clock, pointsman.ids)
        yield pointsman, stack.enter_context(closing(jobs))


def found(jobs: BulkJobs, job: str) -> Any:
    return msgspec.json.decode(jobs.store.result(job))


def test_a_bulk_replay_finds_every_decision_identical(jobs: BulkJobs) -> None:
    begun = jobs.begin("replay", ReplayGiven(length=SHORT))
    job = jobs.run(begun.id)
    assert (job.state, job.is_clean, job.ranges) == ("done", True, 4)
    assert job.told == f"{TURNS} of {TURNS} decisions identical"
    assert found(jobs, job.id)["identical"] == TURNS


def test_a_changed_decision_is_named(home: Path) -> None:
    connection = apsw.Connection(str(home / "ledger.db"))
    connection.execute("UPDATE entries SET payload = x'7b7d' WHERE seq = 300")
    connection.close()
    with bulk(home) as (_, jobs):
        job = jobs.run(jobs.begin("replay", ReplayGiven(length=SHORT)).id)
        value = found(jobs, job.id)
    assert (job.is_clean, value["identical"], value["unable"]) == (False, TURNS - 1, 1)
    assert value["others"][0]["code"] == "INTEGRITY_FAILURE"


def test_workers_in_other_processes_come_to_the_same(jobs: BulkJobs) -> None:
    one = jobs.run(jobs.begin("replay", ReplayGiven(length=SHORT)).id)
    two = jobs.run(jobs.begin("replay", ReplayGiven(length=SHORT + 50)).id, workers=2)
    assert found(jobs, one.id) == found(jobs, two.id)


def test_a_bulk_backtest_is_the_backtest(pointsman: Pointsman, jobs: BulkJobs) -> None:
    other = pointsman.candidate_policy(
        (b'{"schema_version": 1, "global_default": "acme:small"}', "other.yaml")
    )
    given = msgspec.structs.replace(backtest_given(other, EPOCH, previews=True), length=TURNS)
    job = jobs.run(jobs.begin("backtest", given).id)
    whole = msgspec.json.decode(msgspec.json.encode(backtest_value(pointsman.backtest(other))))
    value = found(jobs, job.id)
    assert whole["changed_count"] > 100
    listed = [value.pop("changed"), whole.pop("changed")]
    assert value == whole
    assert {each["turn_id"] for each in listed[0]} < {each["turn_id"] for each in listed[1]}


def test_a_bulk_verification_is_the_verification(pointsman: Pointsman, jobs: BulkJobs) -> None:
    job = jobs.run(jobs.begin("verify", VerifyGiven(length=SHORT)).id)
    report = verify_ledger(pointsman.home)
    value = found(jobs, job.id)
    assert job.ranges >= 2
    assert (value["is_intact"], value["entries"]) == (True, report.entries)
    assert value["chains"][0]["head"] == report.chains[0].head.hex()
    assert value["chains"][0]["signed"] == report.chains[0].signed


TAMPERINGS = {
    "entry": "UPDATE entries SET payload = x'7b7d' WHERE seq = 300",
    "removed": "DELETE FROM entries WHERE seq = 450",
    "value": "UPDATE attachments SET body = x'00' WHERE seq = 310",
    "swapped": "UPDATE entries SET seq = CASE seq WHEN 20 THEN 9021 ELSE 20 END WHERE seq IN (20)",
    "before": "DROP TRIGGER entries_join;"
    " INSERT INTO entries SELECT chain, -1, at_us, kind, id, ref, payload, attached,"
    " x'00', hash FROM entries WHERE seq = 5",
    "end": "DELETE FROM entries WHERE seq = (SELECT max(seq) FROM entries)",
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_what_was_tampered_with_is_named_as_verify_names_it(home: Path, tampering: str) -> None:
    connection = apsw.Connection(str(home / "ledger.db"))
    connection.execute(TAMPERINGS[tampering])
    connection.close()
    with bulk(home) as (pointsman, jobs):
        job = jobs.run(jobs.begin("verify", VerifyGiven(length=SHORT)).id)
        value, report = found(jobs, job.id), verify_ledger(pointsman.home)
    assert job.is_clean is False
    assert report.faults
    assert [(each["chain"], each["seq"], each["code"]) for each in value["faults"]] == [
        (each.chain, each.seq, each.code) for each in report.faults
    ]


def test_changed_leaves_are_named(home: Path) -> None:
    path = home / "checkpoints" / "cli" / "leaves"
    data = bytearray(path.read_bytes())
    data[300 * 32] ^= 1
    path.write_bytes(data)
    with bulk(home) as (_, jobs):
        job = jobs.run(jobs.begin("verify", VerifyGiven(length=SHORT)).id)
        faults = found(jobs, job.id)["faults"]
    assert [(each["seq"], each["code"]) for each in faults] == [(300, "ledger.leaves_changed")]


class Stop(Exception):
    """Somebody pressed a key."""


def test_an_interrupted_job_goes_on_where_it_was(pointsman: Pointsman) -> None:
    def interrupt(done: int, _total: int) -> None:
        if done >= 2 * SHORT:
            raise Stop

    with closing(BulkJobs(pointsman.home, pointsman.clock, pointsman.ids)) as first:
        begun = first.begin("replay", ReplayGiven(length=SHORT))
        with pytest.raises(Stop):
            first.run(begun.id, progress=interrupt)
    with closing(BulkJobs(pointsman.home, pointsman.clock, pointsman.ids)) as second:
        again = second.begin("replay", ReplayGiven(length=SHORT))
        assert (again.id, again.is_resumed) == (begun.id, True)
        assert len(second.store.waiting(begun.id)) == 2
        told: list[tuple[int, int]] = []
        job = second.run(begun.id, progress=lambda done, total: told.append((done, total)))
    assert job.told == f"{TURNS} of {TURNS} decisions identical"
    assert told == [(3 * SHORT, TURNS + 3), (TURNS + 3, TURNS + 3)] or len(told) == 2


def test_a_range_that_is_done_twice_counts_once(jobs: BulkJobs, pointsman: Pointsman) -> None:
    begun = jobs.begin("replay", ReplayGiven(length=SHORT))
    part = b'{"identical":1000000,"diverged":0,"unable":0,"others":[]}'
    for place in range(4):
        jobs.do(begun.id, place, lambda kind, given, each: _part(pointsman, given, each))
    assert jobs.store.keep(begun.id, 0, part, Instant(5)) is False
    assert jobs.store.job(begun.id).told == f"{TURNS} of {TURNS} decisions identical"


def _part(pointsman: Pointsman, given: bytes, each: Any) -> bytes:
    from pointsman.bulk.reruns import REPLAY

    return REPLAY.part(pointsman.home, given, each)


def test_a_range_that_cannot_be_done_fails_the_job_after_a_few_tries(jobs: BulkJobs) -> None:
    begun = jobs.begin("replay", ReplayGiven(length=SHORT))

    def broken(_kind: str, _given: bytes, _each: object) -> bytes:
        raise InputError("the disk is full")

    for _ in range(MOST_TRIES):
        with pytest.raises(InputError):
            jobs.do(begun.id, 1, broken)
    told = jobs.report(begun.id)
    assert (told.job.state, told.job.troubled) == ("failed", 1)
    assert told.troubles[0].trouble == "input.invalid: the disk is full"
    assert told.troubles[0].tries == MOST_TRIES
    jobs.do(begun.id, 2, broken)  # nothing is tried for a job at its end


def test_a_cancelled_job_is_not_gone_on_with(jobs: BulkJobs) -> None:
    begun = jobs.begin("replay", ReplayGiven(length=SHORT))
    assert jobs.cancel(begun.id).state == "cancelled"
    with pytest.raises(ActionRefused):
        jobs.run(begun.id)
    with pytest.raises(ActionRefused):
        jobs.cancel(begun.id)
    assert jobs.begin("replay", ReplayGiven(length=SHORT)).is_resumed is False


def test_jobs_are_listed_the_newest_first(pointsman: Pointsman) -> None:
    place = pointsman.home.place(PLACE)
    assert list_jobs(place) == []
    with pytest.raises(NotFound):
        read_job(place, "nothing")
    with closing(BulkJobs(pointsman.home, pointsman.clock, pointsman.ids)) as jobs:
        names = [jobs.begin("replay", ReplayGiven(length=n)).id for n in (300, 400)]
    assert [each.id for each in list_jobs(place)] == names[::-1]
    with pytest.raises(NotFound):
        read_job(place, "%")


def judge(pointsman: Pointsman, name: str, score: Billionths, at: int, **more: Any) -> None:
    names = Names(name, "t-1", Instant(at))
    told = Feedback("d-1", score, "", None, **more)
    pointsman.decision_recorder.recorder().record(feedback_draft(names, told))


def rescored(jobs: BulkJobs) -> Any:
    job = jobs.run(jobs.begin("rescore", RescoreGiven(length=SHORT)).id)
    return {name: n for name, n in found(jobs, job.id).items() if n}


def mean(pointsman: Pointsman) -> Billionths | None:
    with closing(PatternStore(pointsman.home.patterns)) as store:
        return store.report()[0].mean_success


def test_the_last_verdict_on_a_turn_is_counted_once(pointsman: Pointsman, jobs: BulkJobs) -> None:
    with closing(PatternStore(pointsman.home.patterns)) as store:
        store.record(A_LOOK, b"", model="acme:big", turn_id="t-1", cost_microusd=MicroUsd(5),
                     latency_ms=1, pricing_version="", at=Instant(1))  # fmt: skip
    judge(pointsman, "f-1", ZERO, 10)
    judge(pointsman, "f-2", ONE, 20)
    assert rescored(jobs) == {"verdicts": 2, "turns": 1, "counted": 1}
    assert mean(pointsman) == ONE
    assert rescored(jobs) == {"verdicts": 2, "turns": 1, "known": 1}
    judge(pointsman, "f-3", Billionths(500_000_000), 30)
    assert rescored(jobs) == {"verdicts": 3, "turns": 1, "counted": 1}
    assert mean(pointsman) == 500_000_000


def test_a_verdict_that_is_not_sure_counts_for_nothing(
    pointsman: Pointsman, jobs: BulkJobs
) -> None:
    with closing(PatternStore(pointsman.home.patterns)) as store:
        store.record(A_LOOK, b"", model="acme:big", turn_id="t-1", cost_microusd=MicroUsd(5),
                     latency_ms=1, pricing_version="", at=Instant(1))  # fmt: skip
    told = Feedback("d-1", ONE, "", None, Billionths(400_000_000))
    names = Names("f-1", "t-1", Instant(10))
    pointsman.decision_recorder.recorder().record(feedback_draft(names, told))
    assert rescored(jobs) == {"verdicts": 1, "turns": 1, "unsure": 1}
    assert mean(pointsman) is None


def found_by_judge(pointsman: Pointsman, name: str, decision: str, score: Billionths) -> None:
    told = JudgeVerdict(decision, "j-1", "acme:judge", "sha256:rubric", score)
    draft = judge_verdict_draft(Names(name, "t-1", Instant(30)), told)
    pointsman.decision_recorder.recorder().record(draft)


def test_what_a_judge_found_is_counted_for_the_answer_it_looked_at(
    pointsman: Pointsman, jobs: BulkJobs
) -> None:
    with closing(PatternStore(pointsman.home.patterns)) as store:
        for name, model in (("t-1", "acme:big"), ("d-shadow", "acme:small")):
            store.record(A_LOOK, b"", model=model, turn_id=name, cost_microusd=MicroUsd(5),
                         latency_ms=1, pricing_version="", at=Instant(1))  # fmt: skip
    shadow = Draft(SHADOW, "d-shadow", "t-1", Instant(20), b"{}")
    pointsman.decision_recorder.recorder().record(shadow)
    found_by_judge(pointsman, "j-own", "d-1", ZERO)
    found_by_judge(pointsman, "j-shadow", "d-shadow", ONE)
    assert rescored(jobs) == {"verdicts": 2, "turns": 2, "counted": 2}
    with closing(PatternStore(pointsman.home.patterns)) as store:
        means = {each.model: each.mean_success for each in store.report()}
    assert means == {"acme:big": ZERO, "acme:small": ONE}
    # What somebody said counts for more, though it was said before.
    judge(pointsman, "f-1", Billionths(500_000_000), 10)
    assert rescored(jobs) == {"verdicts": 3, "turns": 2, "counted": 1, "known": 1}
    assert rescored(jobs) == {"verdicts": 3, "turns": 2, "known": 2}


def test_what_a_judge_found_outweighs_what_was_shown() -> None:
    shown = TurnScore("t", ZERO, ONE, False, Instant(9), "cli", 9, "shown")
    found = TurnScore("t", ONE, ONE, False, Instant(5), "cli", 5, "found", is_judged=True)
    for order in ([shown, found], [found, shown]):
        assert weightiest_scores(order) == (found,)


def test_what_a_test_showed_later_does_not_outweigh_what_was_said(
    pointsman: Pointsman, jobs: BulkJobs
) -> None:
    with closing(PatternStore(pointsman.home.patterns)) as store:
        store.record(A_LOOK, b"", model="acme:big", turn_id="t-1", cost_microusd=MicroUsd(5),
                     latency_ms=1, pricing_version="", at=Instant(1))  # fmt: skip
    judge(pointsman, "f-said", ZERO, 10)
    judge(pointsman, "f-test", ONE, 20, sign="test", exit_code=0)
    assert rescored(jobs) == {"verdicts": 2, "turns": 1, "counted": 1}
    assert mean(pointsman) == ZERO


def test_what_was_said_outweighs_what_was_shown_in_any_order() -> None:
    thoughts = [
        TurnScore("t", Billionths(n), ONE, is_said, Instant(at), "cli", at, f"e{n}")
        for n, (is_said, at) in enumerate([(True, 5), (False, 9), (True, 7), (False, 2)])
    ]
    for seed in range(10):
        random.Random(seed).shuffle(thoughts)
        assert [each.entry_id for each in weightiest_scores(thoughts)] == ["e2"]
