"""Jobs whose effects need votes: requests, wishes, the council and its marks."""

import pytest
from tests.unit.agency.fleet import ANSWER, FLEET, NOTE, WISH, Fleet
from tests.unit.agency.job_entries import GOAL, trust

from pointsman.jobs.log import VOTE, VOTE_ENTRY_FORM


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
