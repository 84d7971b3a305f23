"""Jobs over a real ledger: routed, called, judged, rerouted, and gone on with after a crash."""

import json
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import apsw
import msgspec
import pytest
from tests.unit.agency.fleet import ANSWER, FLEET, NOTE, WISH, Fleet, a_caller, opened

from pointsman.agents.action_state import REQUESTED
from pointsman.agents.brainstate.events import Inputs
from pointsman.agents.brainstate.tick import ticked
from pointsman.agents.council import CouncilRules, RuleVoter
from pointsman.agents.trust import EVENT_FORM
from pointsman.errors import ChainHeld, DocumentError, InputError, MissingSnapshot, NotFound
from pointsman.kernel.json_text import read_json
from pointsman.kernel.replay import Verdict
from pointsman.runs import job_replay
from pointsman.runs.agency_record import TICK, TRUST
from pointsman.runs.job_log import (
    FINISHED,
    ITERATION,
    ITERATION_FORM,
    LOG_FORM,
    OUTPUT,
    STARTED,
    VOTE,
    VOTE_ENTRY_FORM,
)
from pointsman.runs.job_request import goal_request, read_job_request
from pointsman.storage.sqlite.reading import LedgerReader

EDGES = [{"from": "a", "to": "b"}]
GOAL = {"goals": [{"goal_id": "g1", "type": "plan", "priority": "0.5"}]}


class Crash(BaseException):
    """The process dies here."""


def kinds(fleet: Fleet) -> list[str]:
    """What a job left, in its order, snapshots and calls apart."""
    found = [each.kind for each in fleet.entries("")]
    return [
        each for each in found if each.startswith(("event.", "decision.")) and "call" not in each
    ]


def trust(fleet: Fleet) -> list[tuple[str, str, bool]]:
    events = [EVENT_FORM.decode(each.payload) for each in fleet.entries(TRUST)]
    return [(each.event_type, each.node_id, each.is_correct) for each in events]


@pytest.mark.req(351, 52)
def test_a_job_is_decided_called_judged_and_ticked_in_this_order(fleet: Fleet) -> None:
    fleet.answers()
    result = fleet.run(brainstate=GOAL)
    assert (result.log.status, result.text) == ("done", ANSWER["text"])
    assert kinds(fleet) == [
        STARTED,
        "decision.agent",
        OUTPUT,
        VOTE,
        "event.trust.council_approval",
        TICK,
        ITERATION,
        FINISHED,
    ]
    (name, work) = fleet.called[0]
    assert (name, work["query"], work["attempt"]) == ("agent:a", "what colour is the sky", 1)
    assert (work["depth"], work["token_budget"]) == (1, 3072)
    state = fleet.agency.brainstate(result.log.brainstate_after)
    assert [(each.goal_id, each.status) for each in state.goals] == [("g1", "succeeded")]
    assert state.attention.reward_signal == 800_000_000
    assert trust(fleet) == [("COUNCIL_APPROVAL", "agent:a", True)]


@pytest.mark.req(41, 42, 43, 44, 60)
def test_a_timeout_reroutes_without_the_node_and_appends_an_iteration(fleet: Fleet) -> None:
    fleet.answers(failing={"a": TimeoutError()})
    log = fleet.run(brainstate=GOAL).log
    rows = [
        (each.number, each.agent_id, each.status, each.excluded) for each in log.iteration_trace
    ]
    assert rows == [(1, "agent:a", "timeout", ()), (2, "agent:b", "done", ("agent:a",))]
    assert [each.code for each in log.errors] == ["AGENT_TIMEOUT"]
    first = ITERATION_FORM.decode(fleet.entries(ITERATION)[0].payload)
    assert first == log.iteration_trace[0]
    assert trust(fleet)[0] == ("AGENT_TIMEOUT", "agent:a", False)
    state = fleet.agency.brainstate(log.brainstate_after)
    assert [each.node_id for each in state.recent_failures] == ["agent:a"]
    assert state.goals[0].attempts == 1
    assert [each.kind for each in fleet.entries("decision.agent")] == [
        "decision.agent",
        "decision.agent.reroute",
    ]
    assert fleet.jobs.replay("job-1").is_identical


@pytest.mark.req(40, 42)
def test_attempts_run_out_by_the_snapshots_count(fleet: Fleet) -> None:
    fleet.write({**FLEET, "router_config": {"max_attempts": 2}})
    fleet.answers(failing={"a": ValueError("no"), "b": ValueError("no"), "c": ValueError("no")})
    result = fleet.run()
    log = result.log
    assert (log.status, result.text) == ("no_match", None)
    assert [each.agent_id for each in log.iteration_trace] == ["agent:a", "agent:b", ""]
    assert log.iteration_trace[-1].reason == "agents.attempts_exhausted"
    assert [each.code for each in log.errors] == ["AGENT_ERROR", "AGENT_ERROR", "ROUTER_NO_MATCH"]
    assert fleet.jobs.replay(log.log_id).is_identical


def test_an_agent_nobody_can_call_is_passed_over_and_not_blamed(fleet: Fleet) -> None:
    fleet.answers()
    del fleet.jobs.here["agent:a"]
    log = fleet.run().log
    assert [each.status for each in log.iteration_trace] == ["unreachable", "done"]
    assert trust(fleet) == [("COUNCIL_APPROVAL", "agent:b", True)]


@pytest.mark.parametrize(
    "answer",
    [
        {"unknown": 1},
        {"text": 5},
        {"confidence": 2},
        [1],
        None,
        {"wm": [{"type": "odd"}]},
        object(),
    ],
)
def test_an_answer_that_cannot_be_read_is_a_failure(fleet: Fleet, answer: object) -> None:
    fleet.answers(a=answer)
    log = fleet.run().log
    assert [each.status for each in log.iteration_trace] == ["exception", "done"]


@pytest.mark.req(47)
def test_a_private_job_calls_nobody_and_keeps_no_text(fleet: Fleet) -> None:
    fleet.answers()
    result = fleet.run("mail jane@example.com")
    assert (result.log.status, fleet.called) == ("privacy_blocked", [])
    assert [each.code for each in result.log.errors] == ["PRIVACY_BLOCKED"]
    assert all(b"jane" not in each.payload for each in fleet.entries(""))
    assert fleet.jobs.replay("job-1").is_identical


@pytest.mark.req(69, 354, 384)
def test_a_high_risk_job_becomes_a_request_and_calls_nobody(fleet: Fleet) -> None:
    fleet.answers()
    result = fleet.run("keep this", action_payload=NOTE)
    (name,) = result.log.action_requests
    assert (result.log.status, fleet.called, fleet.written()) == ("requested", [], 0)
    request = fleet.pointsman.approvals.state(name).request
    assert (request.action_type, request.origin.node_id) == ("sem_write", "agent:a")
    assert fleet.approve(name) == "executed"
    assert fleet.written() == 1
    assert fleet.jobs.replay("job-1").is_identical


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({}, "gives no `action_payload`"),
        ({"action_payload": {"namespace": "n"}}, "the request was refused"),
        ({"required_action": "self_modification"}, "no request can be made"),
    ],
)
def test_a_high_risk_job_that_cannot_be_asked_for_says_why(
    fleet: Fleet, more: dict[str, object], problem: str
) -> None:
    log = fleet.run("keep this", **more).log
    assert log.status == "needs_request"
    assert problem in log.warnings[0]
    assert fleet.jobs.replay("job-1").is_identical


@pytest.mark.req(353, 383, 384, 399)
def test_what_an_agent_wishes_is_asked_for_and_done_after_three_votes(fleet: Fleet) -> None:
    fleet.answers(a=WISH)
    log = fleet.run().log
    (name,) = log.action_requests
    assert (log.status, fleet.written()) == ("done", 0)
    assert fleet.pointsman.approvals.state(name).status == "pending"
    assert fleet.approve(name) == "executed"
    assert fleet.written() == 1


def test_a_wish_that_is_refused_is_told_and_the_job_goes_on(fleet: Fleet) -> None:
    wrong = {**ANSWER, "actions": [{"action_type": "sem_write", "payload": {"key": "only"}}]}
    fleet.answers(a=wrong)
    log = fleet.run().log
    assert (log.status, log.action_requests) == ("done", ())
    assert log.warnings == ("refused: sem_write of agent:a: input.document",)
    assert fleet.jobs.replay("job-1").is_identical


@pytest.mark.req(368)
def test_what_the_council_rejects_is_told_and_counts_against_the_agent(fleet: Fleet) -> None:
    fleet.answers(a={"text": "call me: +49 30 901820", "confidence": 0.9})
    result = fleet.run(brainstate=GOAL)
    log = result.log
    assert log.status == "rejected"
    assert log.final_output is not None
    assert log.final_output.speculative
    (vote,) = fleet.entries(VOTE)
    told = VOTE_ENTRY_FORM.decode(vote.payload)
    assert (told.vote.approve, told.vote.safety) == (False, 0)
    assert trust(fleet) == [("COUNCIL_APPROVAL", "agent:a", False)]
    state = fleet.agency.brainstate(log.brainstate_after)
    assert (state.goals[0].attempts, state.attention.reward_signal) == (1, 0)


@pytest.mark.req(401)
def test_without_a_council_nothing_is_approved_and_nobody_judged(fleet: Fleet) -> None:
    fleet.write({**FLEET, "council": {"voters": []}})
    fleet.answers()
    log = fleet.run().log
    assert (log.status, log.council_votes, trust(fleet)) == ("done", (), [])
    assert fleet.agency.brainstate(log.brainstate_after).attention.reward_signal == 0


def test_agents_may_vote_and_half_of_the_votes_is_a_deadlock(fleet: Fleet) -> None:
    voters = [{"id": "rules"}, {"id": "critic", "agent": "agent:c"}]
    run = {"agent:c": {"http": {"url": "http://127.0.0.1:1/"}}}
    fleet.write({**FLEET, "council": {"voters": voters}, "run": run})
    fleet.answers(c={"approve": False, "correctness": "0.25", "explain": "ask jane@example.com"})
    log = fleet.run().log
    assert [(each.voter, each.approve) for each in log.council_votes] == [
        ("rules", True),
        ("critic", False),
    ]
    assert (log.status, log.errors[-1].code) == ("rejected", "COUNCIL_DEADLOCK")
    assert all(b"jane" not in each.payload for each in fleet.entries(VOTE))
    asked = dict(fleet.called)["agent:c"]
    assert isinstance(asked["output"], dict)
    assert asked["output"]["text"] == ANSWER["text"]
    assert fleet.jobs.replay("job-1").is_identical


@pytest.mark.parametrize(
    "vote", ['I think {"approve": true} is right', {"text": '{"approve": true}'}, {"approve": True}]
)
def test_a_vote_may_stand_in_words(fleet: Fleet, vote: object) -> None:
    run = {"agent:c": {"http": {"url": "http://127.0.0.1:1/"}}}
    fleet.write({**FLEET, "council": {"voters": [{"id": "c", "agent": "agent:c"}]}, "run": run})
    fleet.answers(c=vote)
    assert [each.approve for each in fleet.run().log.council_votes] == [True]


@pytest.mark.parametrize("vote", ["no vote", {"approve": "maybe"}, None])
def test_a_voter_who_fails_does_not_vote(fleet: Fleet, vote: object) -> None:
    run = {"agent:c": {"http": {"url": "http://127.0.0.1:1/"}}}
    voters = [{"id": "rules"}, {"id": "c", "agent": "agent:c"}, {"id": "f", "python": "no:where"}]
    fleet.write({**FLEET, "council": {"voters": voters}, "run": run})
    fleet.answers(c=vote)
    log = fleet.run().log
    assert [each.voter for each in log.council_votes] == ["rules"]
    assert [each.partition(":")[0] for each in log.warnings] == ["c did not vote", "f did not vote"]
    assert fleet.jobs.replay("job-1").is_identical


def test_the_reason_of_a_failure_holds_nothing_personal(fleet: Fleet) -> None:
    fleet.answers(failing={"a": ValueError("no answer from jane@example.com")})
    log = fleet.run().log
    assert "jane" not in log.iteration_trace[0].reason
    assert "email" in log.iteration_trace[0].reason
    assert all(b"jane" not in each.payload for each in fleet.entries(""))


def test_memory_of_an_agent_comes_into_the_state(fleet: Fleet) -> None:
    fleet.answers(a={**ANSWER, "wm": [{"type": "fact", "value": {"n": 1}}], "tokens_used": 7})
    state = fleet.agency.brainstate(fleet.run().log.brainstate_after)
    assert ([each.value for each in state.wm], state.tokens_consumed) == (['{"n":1}'], 7)


@pytest.mark.req(2)
def test_a_job_runs_on_its_snapshots_whatever_is_live(fleet: Fleet) -> None:
    fleet.answers()
    selfrep, mind = fleet.agency.keep_selfrep().id, fleet.state()
    fleet.write({"modules": {"agent:c": {"apt": "0.9", "status": "healthy"}}})
    names = {"selfrep_snapshot_id": selfrep, "brainstate_snapshot_id": mind}
    assert fleet.run(**names).log.agents_invoked == ("agent:a",)
    assert fleet.run().log.agents_invoked == ("agent:c",)


@pytest.mark.req(41, 44)
@pytest.mark.parametrize("at", [STARTED, "decision.agent", OUTPUT, VOTE, TRUST, TICK, ITERATION])
def test_a_job_that_was_cut_short_anywhere_is_gone_on_with(folder: Path, at: str) -> None:
    with opened(folder) as whole:
        whole.answers(a=WISH)
        whole_log = whole.run(brainstate=GOAL).log
        wanted = kinds(whole)
    with opened(folder.with_name("cut")) as fleet:
        fleet.answers(a=WISH)
        _die_after(fleet, at)
        with pytest.raises(Crash):
            fleet.run(brainstate=GOAL)
    with opened(folder.with_name("cut")) as again:
        # Ids count from the start in every process here: these must not meet those before.
        again.ids._count = 500
        again.answers(a=WISH)
        (listed,) = again.jobs.listed()
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


def _die_after(fleet: Fleet, at: str) -> None:
    """Have the process die once an entry of this kind is durable."""
    recorder = fleet.pointsman.desk.recorder()
    append, hand_in = recorder.append, recorder.decide

    def appending(draft: object) -> object:
        found = append(draft)  # type: ignore[arg-type] # whatever is recorded
        if draft.kind.startswith(at):  # type: ignore[attr-defined] # as above
            found.result()
            raise Crash
        return found

    def deciding(*given: object) -> None:
        hand_in(*given)  # type: ignore[arg-type] # as above
        if at == "decision.agent":
            raise Crash

    recorder.append = appending  # type: ignore[assignment, method-assign] # the ledger itself stays real
    recorder.decide = deciding  # type: ignore[assignment, method-assign] # as above


def test_the_same_request_goes_on_with_its_run_and_another_begins_its_own(folder: Path) -> None:
    names: dict[str, object] = {}
    with opened(folder) as fleet:
        fleet.answers()
        names["selfrep_snapshot_id"] = fleet.agency.keep_selfrep().id
        names["brainstate_snapshot_id"] = fleet.state()
        _die_after(fleet, OUTPUT)
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
        assert fleet.jobs.shown("job-1").text is None
        verdict = fleet.jobs.replay("job-1")
        assert (verdict.code, verdict.is_identical) == ("MISSING_SNAPSHOT", False)
        _die_after(fleet, OUTPUT)
        with pytest.raises(Crash):
            fleet.run(job_id="job-2")
    with opened(folder) as again:
        again.ids._count = 500
        with pytest.raises(MissingSnapshot):
            again.jobs.resume("job-2")
        with pytest.raises(InputError, match="was given up"):
            again.jobs.resume("job-2")
        assert [each.status for each in again.jobs.listed()] == ["abandoned", "done"]
        assert again.jobs.replay("job-2").code == "FORCE_CONTINUE_REQUIRED"


def test_one_process_at_a_time_has_a_job(fleet: Fleet) -> None:
    def twice(_work: object) -> object:
        with pytest.raises(ChainHeld, match="another process has the job"):
            fleet.jobs.resume("job-1")
        return ANSWER

    fleet.answers()
    fleet.jobs.here["agent:a"] = twice
    assert fleet.run().log.status == "done"


def test_a_log_tells_everything_and_no_words(fleet: Fleet) -> None:
    fleet.answers()
    result = fleet.run()
    (entry,) = fleet.entries(FINISHED)
    assert LOG_FORM.decode(entry.payload) == result.log
    assert (entry.prev.hex(), entry.hash.hex()) == (result.prev_hash, result.hash)
    assert b"sky" not in entry.payload
    assert result.log.query_text_hash.startswith("hmac-sha256:")
    assert result.log.snapshot_ids.keys() == {"selfrep", "brainstate", "router"}
    assert fleet.jobs.shown(result.log.log_id).log == result.log


def test_unknown_and_unfinished_jobs_are_told_so(fleet: Fleet) -> None:
    with pytest.raises(NotFound, match="no job was ever run"):
        fleet.jobs.shown("job-1")
    fleet.answers()
    fleet.run()
    with pytest.raises(NotFound, match="no job is recorded as `nothing`"):
        fleet.jobs.replay("nothing")
    _die_after(fleet, STARTED)
    with pytest.raises(Crash):
        fleet.run(job_id="job-2")
    with pytest.raises(NotFound, match="has not ended"):
        fleet.jobs.shown("job-2")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"query_text": " "}, "asks for something"),
        ({"query_text": "x", "unknown": 1}, "unknown"),
        ({"query_text": "x", "selfrep": {"modules": {"a b": {}}}}, "no module id"),
        (
            {"query_text": "x", "selfrep": {"modules": {}, "edges": EDGES}},
            "no module `a`",
        ),
        ({"query_text": "x", "brainstate": {"goals": [{"goal_id": "g", "type": "odd"}]}}, "type"),
    ],
)
def test_a_request_is_read_strictly(given: dict[str, object], message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        read_job_request(read_json(json.dumps(given).encode(), "request"))


def test_snapshots_are_given_by_id_or_by_body_not_both(fleet: Fleet) -> None:
    for more in (
        {"selfrep": {"modules": {}}, "selfrep_snapshot_id": "x"},
        {"brainstate": {}, "brainstate_snapshot_id": "x"},
    ):
        with pytest.raises(InputError, match="not both"):
            fleet.run(**more)


def test_a_goal_in_words_is_a_job(fleet: Fleet) -> None:
    fleet.answers()
    log = fleet.jobs.run(goal_request("what colour is the sky"), a_caller()).log
    assert (log.status, log.trace_id) == ("done", "trace-1")
    state = fleet.agency.brainstate(log.brainstate_before)
    assert [(each.type, each.priority) for each in state.goals] == [("answer", 800_000_000)]


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
        log_id = fleet.jobs.shown("job-1").log.log_id
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
        patched.setattr(job_replay, "ticked", lambda state, _given: ticked(state, Inputs()))
        verdict = fleet.jobs.replay("job-1")
        assert (verdict.code, verdict.verdict) == ("REPLAY_DIVERGENCE", Verdict.DIVERGED)
        assert verdict.reason == "the state after attempt 1 is another one"
    with monkeypatch.context() as patched:
        rules = CouncilRules((), Decimal(0))
        patched.setattr(job_replay, "RuleVoter", lambda _rules: RuleVoter(rules))
        assert fleet.jobs.replay("job-1").reason == "the vote of `rules` is not what was recorded"
    with monkeypatch.context() as patched:
        otherwise = msgspec.structs.replace(fleet.jobs.shown("job-1").log, status="rejected")
        patched.setattr(job_replay, "reflected", lambda _plan, _doing: otherwise)
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


def test_confidence_is_the_agents_word_or_the_councils_mark(fleet: Fleet) -> None:
    fleet.write({**FLEET, "council": {"rules": [], "approve_at": "0"}})
    fleet.answers(a={"text": "words alone"})
    goal = {"goals": [{"goal_id": "g1", "type": "plan", "priority": "0.5"}]}
    state = fleet.agency.brainstate(fleet.run(brainstate=goal).log.brainstate_after)
    assert (state.goals[0].status, state.goals[0].final_confidence) == ("succeeded", 10**9)


def test_the_ledger_of_jobs_is_whole_and_every_choice_replays(fleet: Fleet) -> None:
    fleet.answers(failing={"a": TimeoutError()})
    fleet.run()
    fleet.run("keep this")
    assert fleet.pointsman.replay_all().is_clean
    assert fleet.pointsman.verify().fault is None
    with closing(LedgerReader(fleet.pointsman.home.database)) as ledger:
        assert len(list(ledger.of_kind(STARTED))) == 2
