"""A workflow goes where a guardrail wants approval once it has it: once, and for those values."""

import threading
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.governance.chamber import ANN, COUNCIL, ROOT, Chamber

from pointsman.access.actors import OWNER
from pointsman.app import Pointsman
from pointsman.branches.facts import FACTS_FORM, Approval, RecordedFacts
from pointsman.errors import VoteDenied
from pointsman.governance.action import VOTE_WINDOW
from pointsman.governance.state import ActionState
from pointsman.storage.policies.settings import read_settings
from pointsman.storage.stores.entries import LedgerReader
from pointsman.testing import CountedIds, FrozenClock
from pointsman.workflows.branching import BranchEvaluation, EvaluationRequest
from pointsman.workflows.workflow import WorkflowRunner, WorkflowText

GUARDED = """
decisions:
  - id: gate
    type: switch
    input: "{{ kind }}"
    cases: [{condition: "input == 'a'", target: deploy, label: A}]
    default: {target: rest}
    guardrails:
      - type: requires_approval
        targets: [deploy]
        action_on_fail: block
        escalation_target: human
  - id: both
    type: rule_table
    hit_policy: collect
    input: "{{ kind }}"
    cases:
      - {condition: "input == 'a'", target: deploy, label: A}
      - {condition: "input == 'a'", target: tell, label: B}
    default: {target: rest}
    guardrails: [{type: requires_approval, targets: [deploy, tell]}]
  - id: shut
    type: switch
    input: "{{ kind }}"
    cases: [{condition: "input == 'a'", target: deploy, label: A}]
    default: {target: rest}
    guardrails:
      - {type: requires_approval, targets: [deploy]}
      - {type: no_disabled_targets, disabled_stages: [deploy], escalation_target: human}
  - id: quick
    type: switch
    input: "{{ kind }}"
    cases: [{condition: "input == 'a'", target: deploy, label: A}]
    default: {target: rest}
    cache: {enabled: true, ttl: 1h}
    guardrails: [{type: requires_approval, targets: [deploy], action_on_fail: block}]
"""
FLOW = """
workflow:
  id: flow
  stages:
    - {id: start, decision: gate}
    - {id: deploy}
    - {id: rest}
    - {id: human}
"""


@pytest.fixture
def gate(chamber: Chamber) -> Chamber:
    folder = chamber.path / "decisions"
    folder.mkdir()
    (folder / "guarded.yaml").write_text(GUARDED)
    return chamber


def evaluated(gate: Chamber, name: str = "gate", **context: object) -> BranchEvaluation:
    return gate.pointsman.branching.evaluate(
        name, {"kind": "a", **context}, EvaluationRequest(by=ANN)
    )


def request_of(gate: Chamber, number: int = -1) -> ActionState:
    return gate.approvals.list_since()[number]


def facts_of(gate: Chamber, made: BranchEvaluation) -> RecordedFacts:
    with closing(LedgerReader(gate.pointsman.home.database)) as ledger:
        (stored,) = ledger.with_id(made.evaluation_id)
        return FACTS_FORM.decode(ledger.attachments(stored)[0])


def test_it_stays_blocked_and_asks_once(gate: Chamber) -> None:
    first, second = evaluated(gate), evaluated(gate)
    (state,) = gate.approvals.list_since()
    request = state.request
    for made in (first, second):
        assert made.outcome.blocked
        assert made.outcome.selected_targets == ("human",)
        assert made.outcome.approval_required == ("deploy",)
        (check,) = made.outcome.guardrails
        assert check.message == (
            f"target `deploy` needs approval: request `{request.request_id}` is pending"
            ": goes to `human`"
        )
    assert (request.action_type, request.requester) == ("workflow_branch", ANN)
    assert (request.required_approval_type, request.origin.source) == ("admin_single", "workflow")


def test_approved_it_goes_through_once(gate: Chamber) -> None:
    evaluated(gate)
    state = request_of(gate)
    assert gate.vote(state, ROOT).status == "approved", "the workflow carries it out, not the vote"
    made = evaluated(gate)
    assert not made.outcome.approval_required
    assert made.outcome.selected_targets == ("deploy",)
    (check,) = made.outcome.guardrails
    name = state.request.request_id
    assert check.message == f"target `deploy` was approved by request `{name}`"
    assert facts_of(gate, made).approvals == (Approval("deploy", name, "approved"),)
    ended = gate.approvals.state(name)
    assert (ended.status, ended.claim) == ("executed", made.evaluation_id)
    again = evaluated(gate)
    assert again.outcome.blocked
    assert [each.status for each in gate.approvals.list_since()] == ["executed", "pending"]


def test_an_approval_is_for_the_values_it_was_asked_for(gate: Chamber) -> None:
    gate.pointsman.branching.evaluate("both", {"kind": "a"}, EvaluationRequest(by=ANN))
    evaluated(gate)
    gate.vote(request_of(gate), ROOT)
    assert not evaluated(gate, extra=1).outcome.approval_required, (
        "what the decision does not look at is no part of it"
    )
    path = gate.path / "decisions" / "guarded.yaml"
    evaluated(gate)
    gate.vote(request_of(gate), ROOT)
    path.write_text(GUARDED.replace("label: A", "label: Other"))
    assert evaluated(gate).outcome.approval_required, "another definition is another decision"


def test_whoever_asked_does_not_approve(gate: Chamber) -> None:
    gate.pointsman.branching.evaluate("gate", {"kind": "a"})
    state = request_of(gate)
    assert state.request.requester == OWNER
    with pytest.raises(VoteDenied):
        gate.vote(state, OWNER)
    with pytest.raises(VoteDenied):
        gate.vote(state, COUNCIL[0])


def test_an_approval_does_not_last_past_its_time(gate: Chamber) -> None:
    evaluated(gate)
    gate.vote(request_of(gate), ROOT)
    gate.clock.advance(microseconds=VOTE_WINDOW)
    assert evaluated(gate).outcome.blocked
    assert [each.status for each in gate.approvals.list_since()] == ["expired", "pending"]


def test_what_was_rejected_is_not_asked_again_before_its_time(gate: Chamber) -> None:
    evaluated(gate)
    gate.vote(request_of(gate), ROOT, "reject")
    made = evaluated(gate)
    assert "is rejected" in made.outcome.guardrails[0].message
    assert len(gate.approvals.list_since()) == 1
    gate.clock.advance(microseconds=VOTE_WINDOW)
    evaluated(gate)
    assert [each.status for each in gate.approvals.list_since()] == ["rejected", "pending"]


def test_several_targets_go_through_together_or_not_at_all(gate: Chamber) -> None:
    evaluated(gate, "both")
    first, second = gate.approvals.list_since()
    gate.vote(first, ROOT)
    made = evaluated(gate, "both")
    assert made.outcome.approval_required == ("tell",)
    assert gate.approvals.state(first.request.request_id).status == "approved", "not used up yet"
    gate.vote(second, ROOT)
    assert not evaluated(gate, "both").outcome.approval_required
    assert [each.status for each in gate.approvals.list_since()] == ["executed", "executed"]


def test_an_approval_is_not_used_up_by_a_choice_another_guardrail_stops(gate: Chamber) -> None:
    evaluated(gate, "shut")
    gate.vote(request_of(gate), ROOT)
    made = evaluated(gate, "shut")
    assert made.outcome.blocked
    assert request_of(gate).status == "approved"


def test_an_answer_that_was_approved_is_not_kept_for_the_next(gate: Chamber) -> None:
    evaluated(gate, "quick")
    gate.vote(request_of(gate), ROOT)
    assert not evaluated(gate, "quick").outcome.approval_required
    again = evaluated(gate, "quick")
    assert again.outcome.approval_required
    assert not again.is_cached
    assert not evaluated(gate, "quick", kind="b").outcome.approval_required
    assert evaluated(gate, "quick", kind="b").is_cached


def test_the_owner_may_still_approve_with_the_call_itself(gate: Chamber) -> None:
    asked = EvaluationRequest(approved=("deploy",))
    made = gate.pointsman.branching.evaluate("gate", {"kind": "a"}, asked)
    assert not made.outcome.approval_required
    assert made.outcome.guardrails[0].message == "target `deploy` was approved"
    assert gate.approvals.list_since() == []


def test_facts_that_knew_no_requests_keep_their_bytes() -> None:
    old = b'{"approved":["x"],"context":{"kind":"a"},"decision_id":"gate"}'
    assert FACTS_FORM.encode(FACTS_FORM.decode(old)) == old


def test_every_evaluation_replays_to_the_byte(gate: Chamber) -> None:
    evaluated(gate)
    gate.vote(request_of(gate), ROOT)
    for _ in range(2):
        evaluated(gate)
    evaluated(gate, "both")
    report = gate.pointsman.replay_all()
    assert (report.identical, report.diverged, report.unable) == (4, 0, 0)


def at_once(gate: Chamber) -> list[bool]:
    """Evaluate in two threads, on two chains; tell which may act."""
    found: list[bool] = []
    barrier = threading.Barrier(2)

    def go(who: Pointsman) -> None:
        barrier.wait()
        made = who.branching.evaluate("gate", {"kind": "a"}, EvaluationRequest(by=ANN))
        found.append(not made.outcome.approval_required)

    with Pointsman(gate.path, clock=FrozenClock(), ids=CountedIds("other")) as second:
        # The race is for the request, not for who makes the ledger.
        for who in (gate.pointsman, second):
            who.decision_recorder.recorder()
        threads = [threading.Thread(target=go, args=(who,)) for who in (gate.pointsman, second)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    return sorted(found)


def test_two_that_race_for_one_approval_get_one(gate: Chamber) -> None:
    evaluated(gate)
    gate.vote(request_of(gate), ROOT)
    assert at_once(gate) == [False, True]


def test_two_that_ask_at_once_make_one_request(gate: Chamber) -> None:
    assert at_once(gate) == [False, False]
    assert len(gate.approvals.list_since()) == 1


def test_a_run_that_waits_goes_on_when_the_request_is_approved(gate: Chamber) -> None:
    pointsman = gate.pointsman
    sources = (pointsman.clock, pointsman.ids)
    runner = WorkflowRunner(
        pointsman.home, pointsman.decision_recorder, pointsman.branching, sources
    )
    settings = read_settings(b"", "pointsman.yaml").workflow
    text = WorkflowText(FLOW.encode(), "flow.yaml", Path("/"))

    def run() -> str:
        return runner.run(text, settings, "run-1", {"kind": "a"}).status

    assert run() == "waiting"
    assert run() == "waiting"
    assert len(gate.entries("decision.branch")) == 1, "asking again is not deciding again"
    gate.vote(request_of(gate), ROOT)
    assert run() == "done"
    assert len(gate.entries("decision.branch")) == 2
    assert [each.status for each in gate.approvals.list_since()] == ["executed"]
