"""Jobs once more: gone on with after a crash, told from the ledger, and replayed."""

from contextlib import closing
from decimal import Decimal
from pathlib import Path

import apsw
import msgspec
import pytest
from tests.unit.agency.fleet import ANSWER, WISH, Fleet, opened
from tests.unit.agency.job_entries import GOAL, Crash, die_after, kinds

from pointsman.brainstate.events import TickInputs
from pointsman.brainstate.tick import tick_state
from pointsman.errors import ChainHeld, InputError, MissingSnapshot
from pointsman.governance.council import CouncilRules, RuleVoter
from pointsman.governance.state import REQUESTED
from pointsman.jobs import replay as job_replay
from pointsman.jobs.entries import TICK, TRUST
from pointsman.jobs.log import FINISHED, ITERATION, OUTPUT, STARTED, VOTE
from pointsman.kernel.replay import Verdict
from pointsman.storage.stores.entries import LedgerReader


@pytest.mark.req(41, 44)
@pytest.mark.parametrize("at", [STARTED, "decision.agent", OUTPUT, VOTE, TRUST, TICK, ITERATION])
def test_a_job_that_was_cut_short_anywhere_is_gone_on_with(folder: Path, at: str) -> None:
    with opened(folder) as whole:
        whole.answers(a=WISH)
        whole_log = whole.run(brainstate=GOAL).log
        wanted = kinds(whole)
    with opened(folder.with_name("cut")) as fleet:
        fleet.answers(a=WISH)
        die_after(fleet, at)
        with pytest.raises(Crash):
            fleet.run(brainstate=GOAL)
    with opened(folder.with_name("cut")) as again:
        # Ids count from the start in every process here: these must not meet those before.
        again.ids._count = 500
        again.answers(a=WISH)
        (listed,) = again.jobs.list_latest()
        assert listed.status == ""
        result = again.jobs.resume("job-1")
        assert result.is_resumed
        assert len(again.called) == (0 if at not in {STARTED, "decision.agent"} else 1)
        assert kinds(again) == wanted
        log = result.log
        assert (log.status, len(log.iteration_trace)) == ("done", 1)
        assert log.brainstate_after == whole_log.brainstate_after
        assert again.jobs.replay("job-1").is_identical
        assert again.jobs.resume("job-1").log == log
        assert len(again.entries(REQUESTED)) == 1


def test_the_same_request_goes_on_with_its_run_and_another_begins_its_own(folder: Path) -> None:
    names: dict[str, object] = {}
    with opened(folder) as fleet:
        fleet.answers()
        names["selfrep_snapshot_id"] = fleet.agency.record_selfrep().id
        names["brainstate_snapshot_id"] = fleet.state()
        die_after(fleet, OUTPUT)
        with pytest.raises(Crash):
            fleet.run(**names)
    with opened(folder) as again:
        again.ids._count = 500
        again.answers()
        assert not again.run("something else", **names).is_resumed
        assert again.run(**names).is_resumed
        assert not again.run(**names).is_resumed
        assert len(again.entries(STARTED)) == 3


def test_a_job_whose_words_were_not_kept_is_closed_with_the_reason(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o700)
    (folder / "pointsman.yaml").write_text("retain: digest\n")
    with opened(folder) as fleet:
        fleet.answers()
        done = fleet.run()
        assert (done.text, done.log.replayable) == (ANSWER["text"], False)
        assert fleet.jobs.find_result("job-1").text is None
        verdict = fleet.jobs.replay("job-1")
        assert (verdict.code, verdict.is_identical) == ("MISSING_SNAPSHOT", False)
        die_after(fleet, OUTPUT)
        with pytest.raises(Crash):
            fleet.run(job_id="job-2")
    with opened(folder) as again:
        again.ids._count = 500
        with pytest.raises(MissingSnapshot):
            again.jobs.resume("job-2")
        with pytest.raises(InputError, match="was given up"):
            again.jobs.resume("job-2")
        assert [each.status for each in again.jobs.list_latest()] == ["abandoned", "done"]
        assert again.jobs.replay("job-2").code == "FORCE_CONTINUE_REQUIRED"


def test_one_process_at_a_time_has_a_job(fleet: Fleet) -> None:
    def twice(_work: object) -> object:
        with pytest.raises(ChainHeld, match="another process has the job"):
            fleet.jobs.resume("job-1")
        return ANSWER

    fleet.answers()
    fleet.jobs.here["agent:a"] = twice
    assert fleet.run().log.status == "done"


def _changed(fleet: Fleet, kind: str, old: bytes, new: bytes) -> None:
    """Change recorded bytes behind the ledger's back."""
    with closing(apsw.Connection(str(fleet.pointsman.home.database))) as database:
        for (trigger,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        sql = "SELECT rowid, payload FROM entries WHERE kind = ?"
        for row, payload in database.execute(sql, (kind,)).fetchall():
            body = bytes(payload).replace(old, new)
            database.execute("UPDATE entries SET payload = ? WHERE rowid = ?", (body, row))


@pytest.mark.req(44, 390, 398)
@pytest.mark.parametrize("kind", [STARTED, OUTPUT, VOTE, TICK, ITERATION, FINISHED])
def test_a_changed_entry_fails_the_replay_closed(folder: Path, kind: str) -> None:
    with opened(folder) as fleet:
        fleet.answers()
        fleet.run()
        log_id = fleet.jobs.find_result("job-1").log.log_id
    _changed(fleet, kind, b"agent:a", b"agent:b")
    _changed(fleet, kind, b'"trace_id":"', b'"trace_id":"x')
    with opened(folder) as again:
        verdict = again.jobs.replay(log_id)
        assert (verdict.code, verdict.verdict.value) == ("INTEGRITY_FAILURE", "unable")


@pytest.mark.req(44, 390)
def test_code_that_ticks_or_decides_otherwise_is_found_out(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.answers(failing={"a": TimeoutError()})
    fleet.run(brainstate=GOAL)
    with monkeypatch.context() as patched:
        patched.setattr(
            job_replay, "tick_state", lambda state, _given: tick_state(state, TickInputs())
        )
        verdict = fleet.jobs.replay("job-1")
        assert (verdict.code, verdict.verdict) == ("REPLAY_DIVERGENCE", Verdict.DIVERGED)
        assert verdict.reason == "the state after attempt 1 is another one"
    with monkeypatch.context() as patched:
        rules = CouncilRules((), Decimal(0))
        patched.setattr(job_replay, "RuleVoter", lambda _rules: RuleVoter(rules))
        assert fleet.jobs.replay("job-1").reason == "the vote of `rules` is not what was recorded"
    with monkeypatch.context() as patched:
        otherwise = msgspec.structs.replace(fleet.jobs.find_result("job-1").log, status="rejected")
        patched.setattr(job_replay, "run_job", lambda _plan, _steps: otherwise)
        assert fleet.jobs.replay("job-1").code == "RESULT_MISMATCH"
    assert fleet.jobs.replay("job-1").is_identical


def test_an_answer_that_is_gone_is_told_by_the_replay(fleet: Fleet) -> None:
    fleet.answers()
    fleet.run()
    with closing(apsw.Connection(str(fleet.pointsman.home.content))) as database:
        database.execute("DELETE FROM contents WHERE instr(text, 'confidence')")
    verdict = fleet.jobs.replay("job-1")
    assert verdict.code == "MISSING_PERSISTED_AGENT_OUTPUT"
    assert [each.step for each in verdict.steps] == ["load", "snapshots", "decide"]
    assert "sky" not in str(msgspec.to_builtins(verdict))


def test_the_ledger_of_jobs_is_whole_and_every_choice_replays(fleet: Fleet) -> None:
    fleet.answers(failing={"a": TimeoutError()})
    fleet.run()
    fleet.run("keep this")
    assert fleet.pointsman.replay_all().is_clean
    assert fleet.pointsman.verify().fault is None
    with closing(LedgerReader(fleet.pointsman.home.database)) as ledger:
        assert len(list(ledger.of_kind(STARTED))) == 2
