"""What becomes of a request follows from its events and nothing else."""

import random
from typing import get_args

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.governance.chamber import ANN, COUNCIL, ROOT, Story, a_request

from pointsman.governance.action import (
    ACTIONS,
    BY_USER,
    REQUEST_FORM,
    VOTE_WINDOW,
    ActionRefusal,
    ActionType,
    Actor,
    RequestOrigin,
    action_hash,
    approval_of,
)
from pointsman.governance.state import fold_action, refusal
from pointsman.kernel.canonical import ContentId
from pointsman.kernel.instant import Instant


def status(story: Story) -> str:
    return fold_action(story.request, story.events).status


def voided(story: Story) -> list[str]:
    return [each.reason for each in fold_action(story.request, story.events).void]


@pytest.mark.req(385)
def test_a_request_cannot_be_changed() -> None:
    request = a_request()
    with pytest.raises(AttributeError):
        request.target = "sem:facts/sea"  # type: ignore[misc]


def test_a_request_is_recorded_byte_for_byte() -> None:
    request = a_request()
    assert REQUEST_FORM.decode(REQUEST_FORM.encode(request)) == request


@pytest.mark.parametrize(
    "change",
    [
        {"action_type": "sem_delete"},
        {"target": "sem:facts/sea"},
        {"payload_id": ContentId("sha256:" + "1" * 64)},
        {"requester": Actor("key-bob", "bob", "operator")},
        {"request_id": "r-2"},
        {"required_approval_type": "admin_single"},
        {"quorum": 1},
        {"expires_at": Instant(2**50)},
    ],
)
def test_the_hash_binds_everything_an_approval_is_about(change: dict[str, object]) -> None:
    request = a_request()
    assert action_hash(replace(request, **change)) != request.action_hash
    changed = replace(request, **change)
    assert fold_action(changed, ()).status == "disputed", (
        "a request that is not what it was named by"
    )


@pytest.mark.req(354)
@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("sem_write", "council_quorum"),
        ("sem_delete", "council_quorum"),
        ("register_module", "council_quorum"),
        ("set_module_status", "council_quorum"),
        ("set_module_policy", "council_quorum"),
        ("set_router_config", "council_quorum"),
        ("set_module_apt", "admin_plus_council_notice"),
        ("workflow_branch", "admin_single"),
    ],
)
def test_each_type_needs_the_approval_of_the_table(kind: str, wanted: str) -> None:
    assert approval_of(kind, "x", BY_USER) == wanted  # type: ignore[arg-type]
    assert ACTIONS[kind].is_high_risk == (wanted == "council_quorum")  # type: ignore[index]


def test_what_a_module_wants_done_to_itself_is_for_the_council() -> None:
    origin = RequestOrigin("agent", "agent:a", "", "", "")
    assert approval_of("set_module_apt", "agent:a", origin) == "council_quorum"
    assert approval_of("set_module_apt", "agent:b", origin) == "admin_plus_council_notice"


@pytest.mark.req(384)
def test_three_approvals_of_the_council_carry_a_request() -> None:
    story = Story(a_request()).votes("approve", "approve", "approve")
    assert status(story) == "pending", "the approval itself is not logged yet"
    assert status(story.then("approved")) == "approved"


def test_a_quorum_counts_approvals_and_rejections_together() -> None:
    story = Story(a_request()).votes("approve", "reject", "approve")
    assert status(story.then("approved")) == "approved"


def test_a_majority_against_rejects() -> None:
    story = Story(a_request()).votes("reject", "approve", "reject")
    assert status(story.then("rejected")) == "rejected"
    assert voided(Story(a_request()).votes("reject", "approve", "reject").then("approved")) == [
        ActionRefusal.NOT_DECIDED
    ]


def test_a_tie_rejects() -> None:
    story = Story(a_request(quorum=4)).votes("approve", "reject", "approve", "reject")
    assert fold_action(story.request, story.events).tally.result == "rejected"


def test_an_abstention_is_counted_apart_and_decides_nothing() -> None:
    story = Story(a_request()).votes("approve", "abstain", "approve", "abstain", "abstain")
    found = fold_action(story.request, story.events).tally
    assert (found.approve, found.abstain, found.result) == (2, 3, "open")
    assert voided(story.then("approved")) == [ActionRefusal.NOT_DECIDED]


def test_a_majority_of_too_few_is_no_approval_at_the_deadline() -> None:
    story = Story(a_request()).votes("approve", "approve").wait(VOTE_WINDOW)
    assert voided(story.then("approved")) == [ActionRefusal.TOO_LATE]
    assert status(story.then("expired")) == "expired"


def test_whoever_asks_has_no_vote() -> None:
    member = replace(COUNCIL[0])
    story = Story(a_request(requester=member)).then("voted", member, choice="approve")
    assert voided(story) == [ActionRefusal.OWN_REQUEST]


def test_nobody_votes_twice() -> None:
    story = Story(a_request()).then("voted", COUNCIL[0], choice="abstain")
    story.then("voted", COUNCIL[0], choice="approve")
    assert voided(story) == [ActionRefusal.ALREADY_VOTED]


def test_two_keys_of_one_name_are_one_person() -> None:
    again = Actor("another key", COUNCIL[0].name, "council")
    story = Story(a_request()).then("voted", COUNCIL[0], choice="approve")
    assert voided(story.then("voted", again, choice="approve")) == [ActionRefusal.ALREADY_VOTED]
    own = Actor("another key", ANN.name, "council")
    assert voided(Story(a_request()).then("voted", own, choice="approve")) == [
        ActionRefusal.OWN_REQUEST
    ]


def test_two_keys_of_two_names_are_two_people_whoever_holds_them() -> None:
    story = Story(a_request()).votes("approve", "approve", "approve")
    assert voided(story) == []


@pytest.mark.parametrize("role", ["viewer", "operator", "admin", "auditor", ""])
def test_only_the_council_votes_where_the_council_must(role: str) -> None:
    story = Story(a_request()).then("voted", Actor("k", "kim", role), choice="approve")
    assert voided(story) == [ActionRefusal.NOT_A_VOTER]


def test_only_an_admin_votes_where_an_admin_must() -> None:
    story = Story(a_request("workflow_branch")).then("voted", COUNCIL[0], choice="approve")
    assert voided(story) == [ActionRefusal.NOT_A_VOTER]
    story = Story(a_request("workflow_branch")).then("voted", ROOT, choice="approve")
    assert status(story.then("approved")) == "approved"


def test_a_vote_names_what_it_approves() -> None:
    other = a_request(target="sem:facts/sea").action_hash
    story = Story(a_request()).then("voted", COUNCIL[0], choice="approve", action_hash=other)
    assert voided(story) == [ActionRefusal.OTHER_HASH]


def test_a_vote_without_a_choice_is_none() -> None:
    assert voided(Story(a_request()).then("voted", COUNCIL[0])) == [ActionRefusal.NO_CHOICE]


def test_the_last_microsecond_counts_and_the_deadline_does_not() -> None:
    story = Story(a_request()).wait(VOTE_WINDOW - 1).then("voted", COUNCIL[0], choice="approve")
    assert voided(story) == []
    assert voided(story.wait(1).then("voted", COUNCIL[1], choice="approve")) == [
        ActionRefusal.TOO_LATE
    ]


def test_an_admin_alone_is_not_enough_until_the_council_was_told() -> None:
    story = Story(a_request("set_module_apt")).then("voted", ROOT, choice="approve")
    assert voided(story.then("approved")) == [ActionRefusal.NOT_NOTICED]
    assert status(story.then("noticed").then("approved")) == "approved"


@pytest.mark.req(384)
def test_nothing_is_begun_before_it_is_approved() -> None:
    story = Story(a_request()).votes("approve", "approve").then("claimed", claim="a")
    assert voided(story) == [ActionRefusal.NOT_APPROVED]
    story = Story(a_request()).votes("approve", "approve", "approve").then("claimed", claim="a")
    assert voided(story) == [ActionRefusal.NOT_APPROVED], "the approval is not logged yet"


def approved() -> Story:
    return Story(a_request()).votes("approve", "approve", "approve").then("approved")


def test_a_claim_is_let_in_once() -> None:
    story = approved().then("claimed", claim="a").then("claimed", claim="b")
    assert voided(story) == [ActionRefusal.OTHER_CLAIM]
    assert fold_action(story.request, story.events).claim == "a"


def test_what_was_carried_out_or_failed_is_not_begun_again() -> None:
    for kind in ("executed", "failed"):
        story = approved().then("claimed", claim="a").then(kind, claim="a")  # type: ignore[arg-type]
        assert status(story) == kind
        assert voided(story.then("claimed", claim="b")) == [ActionRefusal.OTHER_CLAIM]


def test_only_who_claimed_it_ends_it() -> None:
    story = approved().then("claimed", claim="a").then("executed", claim="b")
    assert voided(story) == [ActionRefusal.OTHER_CLAIM]
    assert voided(approved().then("executed", claim="")) == [ActionRefusal.NOT_CLAIMED]


def test_an_approval_does_not_outlive_its_time() -> None:
    story = approved().wait(VOTE_WINDOW).then("claimed", claim="a")
    assert voided(story) == [ActionRefusal.TOO_LATE]
    assert fold_action(story.request, story.events).status_at(story.at) == "expired"


def test_what_was_begun_in_time_may_end_later() -> None:
    story = approved().then("claimed", claim="a").wait(VOTE_WINDOW).then("expired")
    assert voided(story) == [ActionRefusal.NOT_OPEN]
    assert status(story.then("executed", claim="a")) == "executed"


def test_nothing_expires_before_its_time() -> None:
    assert voided(Story(a_request()).then("expired")) == [ActionRefusal.TOO_EARLY]


def test_a_request_is_called_off_by_its_requester_or_an_admin_only() -> None:
    for by, wanted in ((ANN, "cancelled"), (ROOT, "cancelled"), (COUNCIL[0], "pending")):
        assert status(Story(a_request()).then("cancelled", by)) == wanted
    story = approved().then("cancelled", ANN).then("claimed", claim="a")
    assert voided(story) == [ActionRefusal.NOT_APPROVED]
    assert voided(approved().then("claimed", claim="a").then("cancelled", ANN)) == [
        ActionRefusal.NOT_OPEN
    ]


def test_the_order_of_events_is_their_numbers() -> None:
    story = approved().then("claimed", claim="a").then("executed", claim="a")
    wanted = fold_action(story.request, story.events)
    shuffled = story.events.copy()
    for seed in range(20):
        random.Random(seed).shuffle(shuffled)
        assert fold_action(story.request, shuffled) == wanted


def test_two_events_with_one_number_end_everything() -> None:
    story = approved().then("claimed", claim="a").then("claimed", claim="b", number=5)
    assert status(story) == "disputed"
    found = fold_action(story.request, story.events)
    event = replace(story.events[-1], step=replace(story.events[-1].step, number=found.events + 1))
    assert refusal(found, event) is not None


def test_a_missing_event_ends_everything() -> None:
    story = approved()
    del story.events[1]
    assert status(story) == "disputed"


def test_folding_changes_nothing_it_is_given() -> None:
    story = approved()
    before = [msgspec.json.encode(each) for each in story.events]
    fold_action(story.request, story.events)
    assert [msgspec.json.encode(each) for each in story.events] == before


def test_every_request_of_the_table_is_published_with_what_it_does() -> None:
    assert set(ACTIONS) == set(get_args(ActionType))
    assert all(rule.meaning and rule.meaning[0].islower() for rule in ACTIONS.values())


def test_a_vote_whose_key_is_revoked_before_the_quorum_counts_no_longer() -> None:
    story = Story(a_request()).votes("approve", "approve")
    story.then("withdrawn", claim=COUNCIL[0].id)
    state = fold_action(story.request, story.events)
    assert (state.tally.approve, [each.by for each in state.withdrawn]) == (1, [COUNCIL[0]])
    story.then("voted", COUNCIL[2], choice="approve").then("approved")
    assert (status(story), voided(story)) == ("pending", [ActionRefusal.NOT_DECIDED])


def test_who_lost_a_key_votes_again_with_another_of_the_same_name() -> None:
    story = Story(a_request()).votes("reject", "approve")
    story.then("withdrawn", claim=COUNCIL[0].id)
    story.then("voted", replace(COUNCIL[0], id="a new key"), choice="approve")
    story.then("voted", COUNCIL[2], choice="approve").then("approved")
    assert (status(story), voided(story)) == ("approved", [])


def test_what_votes_had_come_to_stands_when_a_key_is_revoked() -> None:
    story = Story(a_request()).votes("approve", "approve", "approve")
    story.then("withdrawn", claim=COUNCIL[0].id).then("approved")
    story.then("withdrawn", claim=COUNCIL[1].id)
    assert (status(story), voided(story)) == (
        "approved",
        [ActionRefusal.NOT_OPEN, ActionRefusal.NOT_OPEN],
    )


def test_only_a_vote_that_was_cast_can_be_withdrawn() -> None:
    story = Story(a_request()).votes("approve").then("withdrawn", claim=COUNCIL[3].id)
    assert voided(story) == [ActionRefusal.NO_VOTE]
