"""Requests for actions over HTTP: who may ask and vote, what is done and when, and what is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from tests.gateway.house import Running, eventually, running, write_home
from tests.gateway.test_keys_over_http import bearer, made

from pointsman.app import Pointsman
from pointsman.approvals.proposal import ActionProposal
from pointsman.approvals.record import step_draft
from pointsman.governance.action import QUORUM, Actor
from pointsman.governance.state import ActionState, ActionStep
from pointsman.jobs.entries import CALL, CALL_FORM, CallEntry
from pointsman.kernel.instant import SECOND, Instant
from pointsman.testing import FrozenClock

NOTE = {"namespace": "facts", "key": "sky", "value": {"colour": "blue", "share": 0.1}}
WANTED = {"action_type": "sem_write", "payload": NOTE, "justification": "it is so"}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def live(tmp_path: Path, serve: Callable[[Path], Running]) -> Running:
    return serve(write_home(tmp_path / "home"))


class Chamber:
    """A council of keys, and somebody who asks."""

    def __init__(self, live: Running) -> None:
        self.live = live
        self.council = [made(live, name=f"member {n}", role="council") for n in range(QUORUM + 1)]
        self.ann = made(live, name="ann", role="operator")
        self.admin = bearer(live.admin)

    def asked(self, **changes: Any) -> dict[str, Any]:
        told = self.live.post("/actions", {**WANTED, **changes}, **self.ann)
        assert told.status_code == 200, told.text
        return told.json()

    def vote(
        self, request: dict[str, Any], by: dict[str, str], vote: str = "approve", **changes: Any
    ) -> httpx.Response:
        body = {"vote": vote, "action_hash": request["action_hash"], **changes}
        return self.live.post(f"/actions/{request['request_id']}/votes", body, **by)

    def carried(self, request: dict[str, Any]) -> dict[str, Any]:
        for by in self.council[:QUORUM]:
            told = self.vote(request, by)
            assert told.status_code == 200, told.text
        return told.json()

    def sky(self) -> httpx.Response:
        return self.live.get("/sem/facts/sky", **self.admin)


@pytest.fixture
def chamber(live: Running) -> Chamber:
    return Chamber(live)


def calls(live: Running) -> list[CallEntry]:
    return [CALL_FORM.decode(each.payload) for each in live.entries(CALL)]


@pytest.mark.req(354, 360, 383, 384, 399)
def test_a_write_is_asked_for_voted_on_and_done_once_the_quorum_is_there(chamber: Chamber) -> None:
    request = chamber.asked()
    assert (request["status"], request["required_approval_type"]) == ("pending", "council_quorum")
    assert request["payload"] == NOTE
    for count, by in enumerate(chamber.council[:QUORUM], 1):
        assert chamber.sky().status_code == 400
        told = chamber.vote(request, by).json()
        assert told["tally"]["approve"] == count
    assert told["status"] == "executed"
    found = chamber.sky().json()
    assert found["value"] == {"colour": "blue", "share": 0.1}
    assert found["provenance"]["request_id"] == request["request_id"]
    assert found["provenance"]["action_hash"] == request["action_hash"]
    kinds = [each.kind for each in chamber.live.entries("event.action.")]
    order = ["requested", *["voted"] * QUORUM, "approved", "claimed", "executed"]
    assert [each.removeprefix("event.action.") for each in kinds] == order


def test_votes_at_the_same_moment_carry_a_request_once(chamber: Chamber) -> None:
    request = chamber.asked()
    with ThreadPoolExecutor(len(chamber.council)) as threads:
        told = list(threads.map(lambda by: chamber.vote(request, by), chamber.council))
    assert sorted(each.status_code for each in told) == [*[200] * QUORUM, 409]
    assert len(chamber.live.entries("event.action.executed")) == 1
    assert chamber.sky().json()["version"] == 1


def test_nothing_is_counted_after_the_end(chamber: Chamber) -> None:
    request = chamber.asked()
    chamber.carried(request)
    told = chamber.vote(request, chamber.council[QUORUM])
    assert (told.status_code, told.json()["error_code"]) == (409, "action.refused")
    again = chamber.live.post(f"/actions/{request['request_id']}/execute", b"", **chamber.admin)
    assert again.status_code == 409
    assert chamber.sky().json()["version"] == 1


def test_a_vote_names_the_action_it_is_about(chamber: Chamber) -> None:
    request, other = chamber.asked(), chamber.asked()
    told = chamber.vote(request, chamber.council[0], action_hash=other["action_hash"])
    assert told.status_code == 409
    assert told.json()["developer_message"].startswith("action.other_hash: ")
    assert chamber.vote(request, chamber.council[0]).status_code == 200


def test_whoever_asks_has_no_vote(chamber: Chamber) -> None:
    own = chamber.council[0]
    request = chamber.live.post("/actions", WANTED, **own).json()
    told = chamber.vote(request, own)
    assert told.status_code == 403
    assert told.json()["developer_message"].startswith("action.own_request: ")


def test_a_second_key_of_one_name_is_no_second_vote(chamber: Chamber) -> None:
    request = chamber.asked()
    assert chamber.vote(request, chamber.council[0]).status_code == 200
    twin = made(chamber.live, name="member 0", role="council")
    told = chamber.vote(request, twin)
    assert told.status_code == 409
    assert told.json()["developer_message"].startswith("action.already_voted: ")


def test_an_admin_has_no_vote_where_the_council_must_agree(chamber: Chamber) -> None:
    told = chamber.vote(chamber.asked(), chamber.admin)
    assert (told.status_code, told.json()["error_code"]) == (403, "action.vote_denied")


@pytest.mark.parametrize("role", ["viewer", "operator", "auditor"])
def test_other_roles_cannot_vote_settle_or_execute(chamber: Chamber, role: str) -> None:
    request = chamber.asked()
    own = made(chamber.live, name=role, role=role)
    told = chamber.vote(request, own)
    assert (told.status_code, told.json()["error_code"]) == (403, "PERMISSION_DENIED")
    assert told.json()["user_message"] == "You are not allowed to do this."
    path = f"/actions/{request['request_id']}"
    assert chamber.live.post(f"{path}/settle", {"how": "off"}, **own).status_code == 403
    assert chamber.live.post(f"{path}/execute", b"", **own).status_code == 403


def asked_before(home: Path, *votes: str) -> ActionState:
    """Have something asked for ten minutes ago, by a process that died after these votes."""
    now = Pointsman(home).clock.now()
    with Pointsman(home, clock=FrozenClock(Instant(now - 600 * SECOND))) as pointsman:
        wanted = ActionProposal("sem_write", {"namespace": "facts", "key": "sky", "value": 1})
        state = pointsman.approvals.request(wanted, Actor("someone", "someone", "operator"))
        request = state.request
        for number, name in enumerate(votes, 1):
            by = Actor(name, name, "council")
            step = ActionStep(
                request.request_id, number, by, request.action_hash, "approve", "", ""
            )
            draft = step_draft("voted", f"vote-{name}", pointsman.clock.now(), step)
            pointsman.decision_recorder.recorder().record(draft)
    return state


def test_a_request_whose_time_is_over_takes_no_vote(
    tmp_path: Path, serve: Callable[[Path], Running]
) -> None:
    home = write_home(tmp_path / "home")
    now = Pointsman(home).clock.now()
    with Pointsman(home, clock=FrozenClock(Instant(now - 600 * SECOND))) as pointsman:
        wanted = ActionProposal(
            "sem_write", {"namespace": "a", "key": "b", "value": 1}, window=SECOND
        )
        state = pointsman.approvals.request(wanted, Actor("someone", "someone", "operator"))
    live = serve(home)
    path = f"/actions/{state.request.request_id}"
    body = {"vote": "approve", "action_hash": state.request.action_hash}
    assert live.post(f"{path}/votes", body, **made(live, role="council")).status_code == 409
    assert live.get(path, **bearer(live.admin)).json()["status"] == "expired"
    eventually(lambda: live.entries("event.action.expired"))


def test_what_the_votes_had_come_to_when_a_process_died_is_done_by_the_next_gateway(
    tmp_path: Path, serve: Callable[[Path], Running]
) -> None:
    home = write_home(tmp_path / "home")
    state = asked_before(home, "kim", "lee", "max")
    live = serve(home)
    eventually(lambda: live.entries("event.action.executed"))
    told = live.get(f"/actions/{state.request.request_id}", **bearer(live.admin)).json()
    assert told["status"] == "executed"
    assert live.get("/sem/facts/sky", **bearer(live.admin)).json()["value"] == 1


def test_what_is_short_of_a_vote_stays_open_over_a_restart(
    tmp_path: Path, serve: Callable[[Path], Running]
) -> None:
    home = write_home(tmp_path / "home")
    state = asked_before(home, "kim", "lee")
    live = serve(home)
    path = f"/actions/{state.request.request_id}"
    assert live.get(path, **bearer(live.admin)).json()["status"] == "pending"
    body = {"vote": "approve", "action_hash": state.request.action_hash}
    told = live.post(f"{path}/votes", body, **made(live, name="max", role="council"))
    assert told.json()["status"] == "executed"


def test_its_requester_or_an_admin_calls_a_request_off(chamber: Chamber) -> None:
    request, second = chamber.asked(), chamber.asked()
    keys = chamber.live.get("/api/keys", **chamber.admin).json()["keys"]
    ours = next(each["tenant"] for each in keys if each["id"] == request["requester"])
    path = f"/actions/{request['request_id']}/cancel"
    for tenant, status in ((ours, 409), ("globex", 404)):
        other = made(chamber.live, name=f"bob of {status}", role="operator", tenant=tenant)
        assert chamber.live.post(path, b"", **other).status_code == status
    told = chamber.live.post(path, {"note": "not now"}, **chamber.ann).json()
    assert (told["status"], told["note"]) == ("cancelled", "not now")
    path = f"/actions/{second['request_id']}/cancel"
    assert chamber.live.post(path, b"", **chamber.admin).json()["status"] == "cancelled"


def test_only_what_somebody_began_is_settled(chamber: Chamber) -> None:
    path = f"/actions/{chamber.asked()['request_id']}/settle"
    told = chamber.live.post(path, {"how": "again"}, **chamber.admin)
    assert told.status_code == 409
    assert told.json()["developer_message"].startswith("action.not_claimed: ")


@pytest.mark.req(386, 388)
def test_personal_data_is_withheld_from_what_is_kept(chamber: Chamber) -> None:
    value = {"contact": "write to kim.lee@example.org"}
    request = chamber.asked(payload={**NOTE, "value": value})
    assert "kim.lee" not in json.dumps(request)
    assert request["withheld"][0]["type"] == "pii.email"
    chamber.carried(request)
    assert "kim.lee" not in chamber.sky().text


@pytest.mark.req(387, 388)
def test_what_was_kept_by_opt_in_is_shown_in_full_to_admins_and_the_council_alone(
    chamber: Chamber,
) -> None:
    value = {"contact": "write to kim.lee@example.org"}
    request = chamber.asked(payload={**NOTE, "value": value}, opt_in="kim agreed")
    chamber.carried(request)
    for own in (chamber.admin, chamber.council[0]):
        told = chamber.live.get("/sem/facts/sky", **own).json()
        assert (told["value"], told["redacted"]) == (value, False)
        assert "kim.lee" in chamber.live.get("/sem/facts", **own).text
        assert "kim.lee" in chamber.live.get(f"/actions/{request['request_id']}", **own).text
    for role in ("operator", "auditor"):
        own = made(chamber.live, name=role, role=role)
        told = chamber.live.get("/sem/facts/sky", **own)
        assert (told.status_code, told.json()["redacted"]) == (200, True)
        paths = ("/sem/facts/sky", "/sem/facts", "/actions", f"/actions/{request['request_id']}")
        for path in paths:
            assert "kim.lee" not in chamber.live.get(path, **own).text
    viewer = made(chamber.live, name="viewer", role="viewer")
    assert chamber.live.get("/sem/facts/sky", **viewer).status_code == 403
    assert "kim.lee" not in chamber.live.get("/actions", **viewer).text


def test_requests_are_listed_the_newest_first(chamber: Chamber) -> None:
    first, second = chamber.asked(), chamber.asked()
    told = chamber.live.get("/actions?limit=1", **chamber.admin).json()["actions"]
    assert [each["request_id"] for each in told] == [second["request_id"]]
    chamber.live.post(f"/actions/{second['request_id']}/cancel", b"", **chamber.ann)
    told = chamber.live.get("/actions?status=pending", **chamber.admin).json()["actions"]
    assert [each["request_id"] for each in told] == [first["request_id"]]


def test_this_machine_may_ask_before_the_first_key_and_nothing_more(live: Running) -> None:
    told = live.post("/actions", WANTED)
    assert told.status_code == 200, told.text
    request = told.json()
    assert request["requester"] == "local"
    assert live.get(f"/actions/{request['request_id']}").json()["payload"] is None
    body = {"vote": "approve", "action_hash": request["action_hash"]}
    assert live.post(f"/actions/{request['request_id']}/votes", body).status_code == 401
    assert live.get("/sem/facts").status_code == 401
    made(live, name="ann", role="operator")
    assert live.post("/actions", WANTED).status_code == 401


@pytest.mark.req(392)
def test_every_call_leaves_an_entry_with_its_trace(chamber: Chamber) -> None:
    live = chamber.live
    request = chamber.asked(trace_id="trace-of-the-body")
    path = f"/actions/{request['request_id']}"
    live.client.get(path, headers={**chamber.ann, "traceparent": TRACE})
    live.get("/actions/unheard-of", **chamber.ann)
    live.post("/actions", {"action_type": "sem_write"}, **chamber.ann)
    chamber.vote(request, chamber.ann)
    found = calls(live)
    assert [(each.call, each.result) for each in found] == [
        ("actions.request", "done"),
        ("actions.get", "done"),
        ("actions.get", "input.not_found"),
        ("actions.request", "input.document"),
        ("actions.vote", "PERMISSION_DENIED"),
    ]
    assert [each.trace_id for each in found[:2]] == ["trace-of-the-body", TRACE.split("-")[1]]
    assert all(each.trace_id and each.by.id and each.by.role == "operator" for each in found)
    assert found[0].subject == found[1].subject == request["request_id"]


def test_a_key_without_the_scope_is_named_where_it_was_refused(chamber: Chamber) -> None:
    viewer = made(chamber.live, name="vic", role="viewer")
    told = chamber.live.post("/actions", WANTED, **viewer)
    assert (told.status_code, told.json()["error_code"]) == (403, "PERMISSION_DENIED")
    (call,) = calls(chamber.live)
    assert (call.by.name, call.by.role, call.result) == ("vic", "viewer", "PERMISSION_DENIED")


def test_whoever_cannot_say_who_they_are_leaves_no_entry(chamber: Chamber) -> None:
    before = len(chamber.live.entries())
    assert chamber.live.post("/actions", WANTED, **bearer("pk_nobody")).status_code == 401
    assert len(chamber.live.entries()) == before


HOSTILE = [
    b"",
    b"[]",
    b"null",
    b'"text"',
    b'{"action_type": ',
    b"[" * 10_000,
    b'{"action_type": "sem_write", "payload": ' + b'{"a":' * 500 + b"1" + b"}" * 501,
    json.dumps({**WANTED, "unknown": 1}).encode(),
    json.dumps({**WANTED, "payload": {**NOTE, "unknown": 1}}).encode(),
    json.dumps({**WANTED, "payload": [1]}).encode(),
    json.dumps({**WANTED, "action_type": "launch"}).encode(),
    json.dumps({**WANTED, "window_s": 0}).encode(),
    json.dumps({**WANTED, "window_s": "1"}).encode(),
    json.dumps({**WANTED, "trace_id": "x" * 201}).encode(),
    json.dumps({**WANTED, "trace_id": 7}).encode(),
    b'{"action_type": "sem_write", "payload": {"namespace": "a", "key": "b", "value": 1e400}}',
    b'{"action_type": "sem_write", "payload": {"namespace": "a", "key": "b", "value": NaN}}',
    b'{"action_type": "set_module_apt", "payload": {"node_id": "a", "apt": 1e400}}',
    b"\xff\xfe",
]


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway that bears with everybody."""
    with running(tmp_path_factory.mktemp("patient") / "home") as found:
        yield found


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_a_body_that_cannot_be_used_is_told_in_one_clear_error(
    patient: Running, body: bytes
) -> None:
    told = patient.post("/actions", body)
    assert told.status_code == 400, told.text
    value = told.json()
    assert value["error_code"].startswith("input.")
    assert (value["status"], value["severity"]) == (400, "warning")
    assert value["user_message"]
    assert value["meta"]["trace_id"]
    assert patient.entries("event.action.") == []
