"""What routing reads of a BrainState, and requests as they are read."""

import json
from typing import Any

import pytest
from tests.models.agents_jobs import a_router

from pointsman.agents.decide import decide
from pointsman.agents.facts import GoalView, PrivacyVerdict, facts_of, mind_view, read_facts
from pointsman.brainstate.events import NewGoal
from pointsman.brainstate.hints import routing_hints
from pointsman.brainstate.reading import StartingAttention, create_state
from pointsman.brainstate.state import BrainState, ResourceBudget
from pointsman.errors import DocumentError
from pointsman.kernel.json_text import read_json
from pointsman.kernel.number import billionths

REQUEST = {
    "job_id": "j",
    "job_seed": "s",
    "query_text": "  hello   world ",
    "selfrep_snapshot_id": "sha256:1",
    "brainstate_snapshot_id": "sha256:2",
    "candidate_list": ["b", "a", "b"],
    "trace_id": "t",
}


def a_state(attention: str = "0.4", depth: int = 3, **constants: int) -> BrainState:
    goal = NewGoal("g1", "verify", "user", priority=billionths("0.8"))
    start = StartingAttention(billionths(attention), billionths("0.2"))
    state, _ = create_state("seed", [goal], start, ResourceBudget(2048, depth), constants)
    return state


@pytest.mark.req(13, 32)
def test_depth_is_scaled_by_attention_once() -> None:
    state = a_state("0.4", 3)
    assert routing_hints(state).max_depth_allowed == 1
    view = mind_view(state)
    assert view.max_depth_allowed == 3
    router = a_router({"modules": {"a": {"apt": "0.9", "status": "healthy"}}})
    given = read_facts(read_json(json.dumps(REQUEST).encode(), "body"))
    facts = facts_of(given, view)
    outcome, _ = decide(router, _about(facts, router))
    assert outcome.depth == 1


def test_a_mind_is_seen_with_its_goals_and_its_own_thresholds() -> None:
    view = mind_view(a_state("0.6"))
    assert view.goals == (GoalView("g1", billionths("0.8"), "verify", "active"),)
    assert (view.attention_gain, view.explore_bias) == (billionths("0.6"), billionths("0.2"))
    assert (view.prefer_high_apt, view.allow_explore) == (True, True)
    assert (view.token_budget, view.min_token_threshold) == (2048, 128)
    assert view.quick_answer_below == billionths("0.2")
    assert not mind_view(a_state("0.599999999")).prefer_high_apt


@pytest.mark.req(49)
def test_a_request_has_the_documents_seven_fields_and_four_of_ours() -> None:
    more = {"user_role": "operator", "intent": "math", "required_action": "read"}
    given = read_facts(read_json(json.dumps(REQUEST | more).encode(), "body"))
    verdict = PrivacyVerdict(is_blocked=True, reason="pii")
    facts = facts_of(given, mind_view(a_state()), permitted=["z", "a"], privacy=verdict)
    assert (facts.job_id, facts.job_seed, facts.query) == ("j", "s", "hello world")
    assert facts.candidate_list == ("a", "b")
    assert (facts.selfrep_id, facts.brainstate_id) == ("sha256:1", "sha256:2")
    assert (facts.user_role, facts.intent, facts.required_action) == ("operator", "math", "read")
    assert (facts.permitted, facts.privacy) == (("a", "z"), verdict)
    assert (facts.attempt, facts.excluded) == (1, ())


@pytest.mark.req(8)
@pytest.mark.parametrize("name", ["job_id", "job_seed", "query_text"])
def test_a_request_without_what_it_needs_is_refused(name: str) -> None:
    given: dict[str, Any] = {key: value for key, value in REQUEST.items() if key != name}
    with pytest.raises(DocumentError, match=f"missing_key.*{name}"):
        read_facts(read_json(json.dumps(given).encode(), "body"))


@pytest.mark.parametrize("name", ["selfrep_snapshot_id", "brainstate_snapshot_id"])
def test_a_request_without_a_snapshot_id_names_no_snapshot(name: str) -> None:
    """No snapshot has the empty id: the job ends with ROUTER_NO_SNAPSHOT."""
    given = {key: value for key, value in REQUEST.items() if key != name}
    found = read_facts(read_json(json.dumps(given).encode(), "body"))
    assert getattr(found, name) == ""


@pytest.mark.parametrize("wrong", [{"mood": 1}, {"candidate_list": "a"}, {"job_id": ""}])
def test_a_request_with_anything_else_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DocumentError):
        read_facts(read_json(json.dumps(REQUEST | wrong).encode(), "body"))


@pytest.mark.req(9)
@pytest.mark.parametrize("given", [{}, {"candidate_list": None}, {"candidate_list": []}])
def test_no_candidates_and_an_empty_list_of_them_are_the_same(given: dict[str, Any]) -> None:
    request = {key: value for key, value in REQUEST.items() if key != "candidate_list"} | given
    facts = facts_of(read_facts(read_json(json.dumps(request).encode(), "b")), mind_view(a_state()))
    assert facts.candidate_list == ()


def _about(facts: Any, router: Any) -> Any:
    values = {name: getattr(facts, name) for name in facts.__struct_fields__}
    return type(facts)(**values | {"selfrep_id": router.selfrep_id, "candidate_list": ()})
