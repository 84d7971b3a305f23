"""Jobs over a real ledger: routed, called, rerouted, and told."""

import json

import pytest
from tests.unit.agency.fleet import ANSWER, FLEET, Fleet, a_caller
from tests.unit.agency.job_entries import GOAL, Crash, die_after, kinds, trust

from pointsman.errors import DocumentError, InputError, NotFound
from pointsman.jobs.entries import TICK
from pointsman.jobs.log import (
    FINISHED,
    ITERATION,
    ITERATION_FORM,
    LOG_FORM,
    OUTPUT,
    STARTED,
    VOTE,
)
from pointsman.jobs.request import goal_request, read_job_request
from pointsman.kernel.json_text import read_json

EDGES = [{"from": "a", "to": "b"}]


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
    selfrep, mind = fleet.agency.record_selfrep().id, fleet.state()
    fleet.write({"modules": {"agent:c": {"apt": "0.9", "status": "healthy"}}})
    names = {"selfrep_snapshot_id": selfrep, "brainstate_snapshot_id": mind}
    assert fleet.run(**names).log.agents_invoked == ("agent:a",)
    assert fleet.run().log.agents_invoked == ("agent:c",)


def test_a_log_tells_everything_and_no_words(fleet: Fleet) -> None:
    fleet.answers()
    result = fleet.run()
    (entry,) = fleet.entries(FINISHED)
    assert LOG_FORM.decode(entry.payload) == result.log
    assert (entry.prev.hex(), entry.hash.hex()) == (result.prev_hash, result.hash)
    assert b"sky" not in entry.payload
    assert result.log.query_text_hash.startswith("hmac-sha256:")
    assert result.log.snapshot_ids.keys() == {"selfrep", "brainstate", "router"}
    assert fleet.jobs.find_result(result.log.log_id).log == result.log


def test_unknown_and_unfinished_jobs_are_told_so(fleet: Fleet) -> None:
    with pytest.raises(NotFound, match="no job was ever run"):
        fleet.jobs.find_result("job-1")
    fleet.answers()
    fleet.run()
    with pytest.raises(NotFound, match="no job is recorded as `nothing`"):
        fleet.jobs.replay("nothing")
    die_after(fleet, STARTED)
    with pytest.raises(Crash):
        fleet.run(job_id="job-2")
    with pytest.raises(NotFound, match="has not ended"):
        fleet.jobs.find_result("job-2")


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


def test_confidence_is_the_agents_word_or_the_councils_mark(fleet: Fleet) -> None:
    fleet.write({**FLEET, "council": {"rules": [], "approve_at": "0"}})
    fleet.answers(a={"text": "words alone"})
    goal = {"goals": [{"goal_id": "g1", "type": "plan", "priority": "0.5"}]}
    state = fleet.agency.brainstate(fleet.run(brainstate=goal).log.brainstate_after)
    assert (state.goals[0].status, state.goals[0].final_confidence) == ("succeeded", 10**9)
