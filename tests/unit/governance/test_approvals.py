"""Requests over a real ledger: recorded first, voted on, told when they cannot be."""

from contextlib import closing

import pytest
from msgspec import Raw
from msgspec.structs import replace
from tests.unit.governance.chamber import ANN, COUNCIL, NOTE, ROOT, Chamber

from pointsman.access.actors import OWNER, actor_of
from pointsman.access.keys import ADMIN, ANONYMOUS, Principal
from pointsman.agents.modules.event import (
    MODULE_REGISTERED,
    SELFREP,
    ModuleAdded,
    ModuleAptSet,
    ModulePolicySet,
    ModuleStatusSet,
    RouterConfigSet,
    read_selfrep,
)
from pointsman.approvals.effects import Effects
from pointsman.approvals.proposal import ActionProposal, wish_proposal
from pointsman.brainstate.trace import ActionWish
from pointsman.errors import (
    ActionRefused,
    DocumentError,
    InputError,
    NotAuthenticated,
    NotFound,
    SemNotFound,
    VoteDenied,
)
from pointsman.governance.action import QUORUM, VOTE_WINDOW, ActionRefusal, Actor, RequestOrigin
from pointsman.kernel.canonical import content_id
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import SECOND, Instant


def kinds(chamber: Chamber) -> list[str]:
    return [each.kind.removeprefix("event.action.") for each in chamber.entries("event.action.")]


@pytest.mark.req(353, 354, 360, 383, 384, 399)
def test_a_write_is_requested_and_not_done_before_the_council_approved_it(chamber: Chamber) -> None:
    wish = ActionWish(
        action_id="a" * 64,
        origin="agent:scribe",
        action_type="sem_write",
        payload='{"key":"sky","namespace":"facts","value":"d:0.5"}',
        justification="`agent:scribe` wishes `sem_write` at tick 3",
        timestamp_seeded=Instant(1_735_689_600 * SECOND),
    )
    wanted = wish_proposal(wish, "job-1", "seed-1", "trace-1")
    state = chamber.approvals.request(wanted, ANN)
    assert state.request.request_id == wish.action_id
    assert state.request.origin == RequestOrigin(
        "brainstate", "agent:scribe", "job-1", "seed-1", "trace-1"
    )
    assert state.request.seeded_at == wish.timestamp_seeded
    assert (state.request.justification, state.status) == (wish.justification, "pending")
    assert kinds(chamber) == ["requested"]
    for count, by in enumerate(COUNCIL[:QUORUM], 1):
        assert chamber.written() == 0, f"nothing is written after {count - 1} votes"
        state = chamber.vote(state, by)
    assert state.status == "executed"
    assert kinds(chamber) == ["requested", *["voted"] * 3, "approved", "claimed", "executed"]
    with closing(chamber.memory()) as memory:
        entry = memory.get("facts", "sky")
    assert entry.value == b'"d:0.5"'
    assert entry.provenance.request_id == wish.action_id
    assert entry.provenance.approved_by == tuple(each.id for each in COUNCIL[:QUORUM])


@pytest.mark.req(383)
def test_a_job_that_is_run_again_asks_for_nothing_twice(chamber: Chamber) -> None:
    wanted = ActionProposal("sem_write", NOTE, request_id="job-1/1")
    first = chamber.approvals.request(wanted, ANN)
    chamber.clock.advance(seconds=5)
    assert chamber.approvals.request(wanted, ANN).request == first.request
    assert kinds(chamber) == ["requested"]
    other = replace(wanted, payload={**NOTE, "value": 2})  # type: ignore[dict-item]
    with pytest.raises(ActionRefused, match="another request"):
        chamber.approvals.request(other, ANN)


@pytest.mark.req(385)
def test_a_payload_is_attached_under_its_content(chamber: Chamber) -> None:
    state = chamber.asked()
    record = chamber.approvals.record(state.request.request_id)
    assert content_id(record.payload) == state.request.payload_id
    assert record.payload == (
        b'{"key":"sky","namespace":"facts","value":{"colour":"blue","share":1}}'
    )


def test_the_ledger_of_a_chamber_verifies(chamber: Chamber) -> None:
    chamber.carried(chamber.asked())
    assert all(each.fault is None for each in chamber.pointsman.verify().chains)


@pytest.mark.parametrize(
    ("by", "reason", "error"),
    [
        (replace(ANN, role="council"), ActionRefusal.OWN_REQUEST, VoteDenied),
        (Actor("another key", "ann", "council"), ActionRefusal.OWN_REQUEST, VoteDenied),
        (ROOT, ActionRefusal.NOT_A_VOTER, VoteDenied),
        (COUNCIL[0], ActionRefusal.ALREADY_VOTED, ActionRefused),
        (
            Actor("another key", COUNCIL[0].name, "council"),
            ActionRefusal.ALREADY_VOTED,
            ActionRefused,
        ),
    ],
)
def test_a_vote_that_does_not_count_is_refused_and_not_recorded(
    chamber: Chamber, by: Actor, reason: str, error: type[ActionRefused]
) -> None:
    state = chamber.vote(chamber.asked(), COUNCIL[0])
    with pytest.raises(error) as raised:
        chamber.vote(state, by)
    assert raised.value.reason == reason
    assert kinds(chamber) == ["requested", "voted"]


@pytest.mark.parametrize("named", ["", "sha256:" + "0" * 64])
def test_a_vote_for_another_action_is_refused(chamber: Chamber, named: str) -> None:
    state = chamber.asked()
    with pytest.raises(ActionRefused) as raised:
        chamber.approvals.vote(state.request.request_id, "approve", named, COUNCIL[0])
    assert raised.value.reason == ActionRefusal.OTHER_HASH


def test_an_approval_of_one_request_is_none_of_another_that_wants_the_same(
    chamber: Chamber,
) -> None:
    first, second = chamber.asked(), chamber.asked()
    assert first.request.subject == second.request.subject
    with pytest.raises(ActionRefused) as raised:
        chamber.approvals.vote(
            second.request.request_id, "approve", first.request.action_hash, COUNCIL[0]
        )
    assert raised.value.reason == ActionRefusal.OTHER_HASH


def test_after_its_time_a_request_takes_no_vote_and_is_not_carried_out(chamber: Chamber) -> None:
    state = chamber.vote(chamber.vote(chamber.asked(), COUNCIL[0]), COUNCIL[1])
    chamber.clock.advance(microseconds=VOTE_WINDOW)
    with pytest.raises(ActionRefused) as raised:
        chamber.vote(state, COUNCIL[2])
    assert raised.value.reason == ActionRefusal.TOO_LATE
    assert chamber.approvals.state(state.request.request_id).status == "expired"
    assert chamber.approvals.expire() == [state.request.request_id]
    assert chamber.approvals.expire() == []
    with pytest.raises(ActionRefused):
        chamber.approvals.execute(state.request.request_id, ROOT)
    assert chamber.written() == 0
    assert kinds(chamber) == ["requested", "voted", "voted", "expired"]


def test_a_clock_set_back_does_not_open_a_request_again(chamber: Chamber) -> None:
    state = chamber.asked()
    chamber.clock.advance(microseconds=VOTE_WINDOW)
    chamber.approvals.expire()
    chamber.clock.advance(microseconds=-VOTE_WINDOW)
    with pytest.raises(ActionRefused) as raised:
        chamber.vote(state, COUNCIL[0])
    assert raised.value.reason == ActionRefusal.NOT_OPEN


def test_the_instant_of_the_ledger_decides_not_the_clock(chamber: Chamber) -> None:
    state = chamber.asked()
    chamber.clock.advance(microseconds=VOTE_WINDOW)
    other = chamber.asked({**NOTE, "value": 3})  # type: ignore[dict-item] # the chain is later now
    chamber.clock.advance(microseconds=-VOTE_WINDOW)
    with pytest.raises(ActionRefused) as raised:
        chamber.vote(state, COUNCIL[0])
    assert raised.value.reason == ActionRefusal.TOO_LATE, "recorded after its time, so it is void"
    assert chamber.approvals.record(state.request.request_id).state.votes == ()
    assert other.request.created_at == state.request.created_at + VOTE_WINDOW


def test_a_rejected_request_stays_rejected(chamber: Chamber) -> None:
    state = chamber.asked()
    for by in COUNCIL[:QUORUM]:
        state = chamber.vote(state, by, "reject")
    assert state.status == "rejected"
    for attempt in (
        lambda: chamber.vote(state, COUNCIL[3]),
        lambda: chamber.approvals.execute(state.request.request_id, ROOT),
        lambda: chamber.approvals.cancel(state.request.request_id, ANN),
    ):
        with pytest.raises(ActionRefused):
            attempt()
    assert chamber.written() == 0


def test_a_cancelled_request_is_not_carried_out(chamber: Chamber) -> None:
    state = chamber.vote(chamber.asked(), COUNCIL[0])
    with pytest.raises(ActionRefused) as raised:
        chamber.approvals.cancel(state.request.request_id, COUNCIL[1])
    assert raised.value.reason == ActionRefusal.NOT_ALLOWED
    assert chamber.approvals.cancel(state.request.request_id, ANN).status == "cancelled"
    with pytest.raises(ActionRefused):
        chamber.vote(state, COUNCIL[1])


def test_an_admin_sets_trust_and_the_council_is_told_first(chamber: Chamber) -> None:
    state = chamber.asked({"node_id": "agent:a", "apt": 1, "reason": "proven"}, "set_module_apt")
    assert chamber.vote(state, ROOT).status == "executed"
    wanted = ["requested", "voted", "noticed", "approved", "claimed", "executed"]
    assert kinds(chamber) == wanted


def test_an_admin_does_not_approve_what_the_same_admin_wants(chamber: Chamber) -> None:
    state = chamber.asked({"node_id": "agent:a", "apt": 1}, "set_module_apt", by=ROOT)
    with pytest.raises(VoteDenied):
        chamber.vote(state, ROOT)


def test_an_unknown_request_is_told_so(chamber: Chamber) -> None:
    with pytest.raises(NotFound):
        chamber.approvals.state("nothing")
    chamber.asked()
    with pytest.raises(NotFound):
        chamber.approvals.state("nothing")


@pytest.mark.parametrize(
    "payload",
    [
        {"namespace": "facts"},
        {"namespace": "", "key": "k", "value": 1},
        {"namespace": "n", "key": "k", "value": 1, "more": 2},
        [],
        "text",
    ],
)
def test_a_payload_that_could_never_be_carried_out_is_refused_at_once(
    chamber: Chamber, payload: object
) -> None:
    with pytest.raises(InputError):
        chamber.approvals.request(ActionProposal("sem_write", payload), ANN)  # type: ignore[arg-type]
    assert not chamber.pointsman.home.database.exists()


@pytest.mark.parametrize("window", [0, -1, 31 * 24 * 3600 * SECOND])
def test_a_window_has_limits(chamber: Chamber, window: int) -> None:
    with pytest.raises(InputError):
        chamber.approvals.request(ActionProposal("sem_write", NOTE, window=window), ANN)


def test_weights_are_checked_when_they_are_asked_for(chamber: Chamber) -> None:
    for changes in ({"weight_avail": 2}, {"no_such_weight": 1}, {}):
        with pytest.raises(DocumentError):
            chamber.asked({"changes": changes}, "set_router_config")


@pytest.mark.parametrize(
    ("kind", "payload", "wanted"),
    [
        (
            "set_module_status",
            {"node_id": "agent:a", "status": "quarantined", "reason": "lies"},
            ModuleStatusSet("", "agent:a", "quarantined", "lies"),
        ),
        (
            "set_module_policy",
            {"node_id": "agent:a", "policy": {"forbidden_actions": ["sem_write"]}},
            ModulePolicySet("", "agent:a", (), ("sem_write",)),
        ),
        (
            "set_router_config",
            {"changes": {"top_n": 5}},
            RouterConfigSet("", Raw(b'{"top_n":5}')),
        ),
    ],
)
def test_the_self_representation_is_told_by_an_event(
    chamber: Chamber, kind: str, payload: dict[str, object], wanted: ModuleStatusSet
) -> None:
    state = chamber.asked(payload, kind)  # type: ignore[arg-type]
    assert chamber.entries(SELFREP) == []
    assert chamber.carried(state).status == "executed"
    (entry,) = chamber.entries(SELFREP)
    found = read_selfrep(entry.kind, entry.payload)
    assert entry.ref == state.request.request_id
    assert found == replace(wanted, request_id=state.request.request_id)


def test_a_module_is_registered_whole(chamber: Chamber) -> None:
    payload = {
        "node_id": "agent:new",
        "type": "tool",
        "capabilities": ["answer"],
        "policy": {"allowed_actions": ["read"]},
        "dependencies": [{"to": "memory:db"}, {"to": "agent:b", "required": False}],
    }
    chamber.carried(chamber.asked(payload, "register_module"))
    (entry,) = chamber.entries(MODULE_REGISTERED)
    found = read_selfrep(entry.kind, entry.payload)
    assert isinstance(found, ModuleAdded)
    assert found.registered_by == ANN.id
    assert (found.module.apt, found.module.allowed_actions) == (500_000_000, ("read",))
    assert [(each.to, each.required) for each in found.module.dependencies] == [
        ("memory:db", True),
        ("agent:b", False),
    ]


def test_trust_is_recorded_in_billionths(chamber: Chamber) -> None:
    chamber.vote(chamber.asked({"node_id": "agent:a", "apt": "0.25"}, "set_module_apt"), ROOT)
    (entry,) = chamber.entries(SELFREP)
    assert read_selfrep(entry.kind, entry.payload) == ModuleAptSet(
        chamber.entries("event.action.requested")[0].id, "agent:a", 250_000_000, ""
    )
    assert read_selfrep("event.feedback.given", b"{}") is None


def test_what_the_self_representation_cannot_take_is_refused_when_asked_for(
    chamber: Chamber,
) -> None:
    def check(event: object) -> None:
        raise InputError("there is no such module")

    pointsman = chamber.pointsman
    sources = (pointsman.clock, pointsman.ids)
    effects = Effects(pointsman.home, pointsman.decision_recorder, sources, check)
    chamber.approvals._effects = effects
    with pytest.raises(InputError, match="no such module"):
        chamber.asked({"node_id": "agent:a", "status": "offline"}, "set_module_status")


def test_removing_what_is_not_there_fails_and_says_so(chamber: Chamber) -> None:
    state = chamber.carried(chamber.asked({"namespace": "facts", "key": "sky"}, "sem_delete"))
    assert (state.status, state.note) == (
        "failed",
        "SEM_NOT_FOUND: nothing is kept as `sky` in `facts`",
    )


def test_a_key_is_removed_and_its_history_stays(chamber: Chamber) -> None:
    chamber.carried(chamber.asked())
    chamber.carried(chamber.asked({"namespace": "facts", "key": "sky"}, "sem_delete"))
    with closing(chamber.memory()) as memory:
        assert [each.value is None for each in memory.history("facts", "sky")] == [False, True]
        with pytest.raises(SemNotFound):
            memory.get("facts", "sky")


def test_a_disputed_request_takes_nothing_more(chamber: Chamber) -> None:
    state = chamber.vote(chamber.asked(), COUNCIL[0])
    voted = chamber.entries("event.action.voted")[0]
    recorder = chamber.pointsman.decision_recorder.recorder()
    forged = Draft(voted.kind, "forged", voted.ref, voted.at, voted.payload)
    recorder.record(forged)
    assert chamber.approvals.state(state.request.request_id).status == "disputed"
    for by in COUNCIL[1:]:
        with pytest.raises(ActionRefused, match="disputed"):
            chamber.vote(state, by)


def test_requests_are_listed_as_they_stand_now(chamber: Chamber) -> None:
    chamber.carried(chamber.asked())
    chamber.asked()
    assert [each.status for each in chamber.approvals.list_since()] == ["executed", "pending"]
    chamber.clock.advance(microseconds=VOTE_WINDOW)
    assert [each.status for each in chamber.approvals.list_since()] == ["executed", "expired"]


def test_who_acts_is_who_called() -> None:
    key = Principal("k1", "kim", ("read", "act"), role="council")
    assert actor_of(key) == Actor("k1", "kim", "council")
    assert actor_of(ADMIN) == Actor("admin", "admin", "admin")
    assert actor_of(Principal("k2", "lee", ("act",))).role == "operator"
    assert OWNER.role == "admin"
    with pytest.raises(NotAuthenticated):
        actor_of(ANONYMOUS)
