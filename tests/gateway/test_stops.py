"""Orders to stop: obeyed by every process, told to callers, signed, and lifted by two."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import ADMIN_TOKEN, Running, eventually, running, stalls, write_home

from pointsman.app import Pointsman
from pointsman.approvals.proposal import ActionProposal
from pointsman.errors import ActionRefused, InputError, NotFound
from pointsman.governance.action import Actor
from pointsman.kernel.entry import Draft
from pointsman.recording.stops import EVENTS, ORDERED, STOP_TEXT, StopOrder
from pointsman.storage.stores.entries import LedgerReader
from pointsman.testing import calls

ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}"}
ALICE = Actor("k1", "alice", "admin")
BOB = Actor("k2", "bob", "admin")


def order(live: Running, **given: Any) -> Any:
    told = live.post("/api/stops", {"scope": "all", "reason": "a leak", **given}, **ADMIN)
    assert told.status_code == 201, told.text
    return told.json()


def lift(pointsman: Pointsman, stop_id: str, by: Actor = ALICE) -> Any:
    """Ask that a stop ends."""
    wanted = ActionProposal("lift_stop", {"stop_id": stop_id, "reason": "it is over"})
    return pointsman.approvals.request(wanted, by).request


def agree(pointsman: Pointsman, request: Any, by: Actor = BOB) -> Any:
    return pointsman.approvals.vote(request.request_id, "approve", request.action_hash, by)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_a_stopped_turn_is_refused_for_good_and_says_why(town: Town, serve: Any, path: str) -> None:
    live = serve(town.home)
    stop = order(live)
    body = {"model": "auto", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
    told = live.post(path, body)
    assert (told.status_code, told.headers["x-should-retry"]) == (503, "false")
    assert f"every call stopped by admin: a leak (stop {stop['id']})" in told.text
    turn = live.get(f"/api/turns/{told.headers['x-pointsman-turn']}").text
    assert "stopped by admin: a leak" in turn
    assert not town.openai.requests
    (row,) = live.get("/api/stops").json()["stops"]
    assert (row["id"], row["scope"], row["by"], row["reason"]) == (
        stop["id"],
        "all",
        "admin",
        "a leak",
    )
    assert "stopped by admin" in live.get("/api/overview").json()["stops"][0]


def test_only_the_tenant_that_is_stopped_is_stopped(town: Town, serve: Any) -> None:
    live = serve(town.home)
    keys = {}
    for name in ("acme", "zeta"):
        wish = {"name": name, "tenant": name, "scopes": ["models", "read"]}
        made = live.post("/api/keys", wish, **ADMIN).json()["key"]
        keys[name] = {"authorization": f"Bearer {made}"}
    order(live, scope="tenant", name="acme")
    assert live.chat(headers=keys["acme"]).status_code == 503
    assert live.chat(headers=keys["zeta"]).status_code == 200
    assert len(live.get("/api/stops", **keys["acme"]).json()["stops"]) == 1
    assert live.get("/api/stops", **keys["zeta"]).json()["stops"] == []
    refused = live.post("/api/stops", {"scope": "all", "reason": "mine"}, **keys["acme"])
    assert refused.status_code == 403


def test_another_process_orders_and_lifts_and_the_gateway_obeys_within_a_second(
    town: Town, serve: Any
) -> None:
    live = serve(town.home)
    with Pointsman(town.home) as beside:
        made = beside.order_stop("provider", "open", "a drill", "bob")
        eventually(lambda: live.chat(model="open:small").status_code == 503, seconds=1)
        request = lift(beside, made.id)
        with pytest.raises(ActionRefused):
            agree(beside, request, ALICE)
        assert agree(beside, request).status == "executed"
        eventually(lambda: live.chat(model="open:small").status_code == 200, seconds=1)
        with pytest.raises(NotFound):
            lift(beside, made.id)


def test_a_turn_that_goes_on_after_a_tool_is_stopped_at_the_door(town: Town, serve: Any) -> None:
    live = serve(town.home)
    town.openai.then(calls(("look", {})))
    first = live.chat("look at it", model="open:small")
    message = first.json()["choices"][0]["message"]
    order(live, scope="provider", name="open")
    history = [{"role": "user", "content": "look at it"}, message,
               {"role": "tool", "tool_call_id": "call_1", "content": "x"}]  # fmt: skip
    before = len(town.openai.requests)
    told = live.post("/v1/chat/completions", {"model": "open:small", "messages": history})
    assert told.status_code == 503
    assert "stopped by admin" in told.text
    assert len(town.openai.requests) == before
    assert live.outcomes(2)[-1]["error_class"] == "stopped"


@pytest.mark.parametrize("is_stream", [False, True])
def test_calls_under_way_are_cut_where_the_order_says_so(
    town: Town, serve: Any, is_stream: bool
) -> None:
    live = serve(town.home)
    town.openai.then(stalls("first words"))
    answers: list[Any] = []
    asking = threading.Thread(
        target=lambda: answers.append(live.chat(model="open:small", stream=is_stream))
    )
    asking.start()
    eventually(lambda: town.openai.requests)
    order(live, scope="provider", name="open", reason="let it end")
    assert live.chat(model="open:small").status_code == 503
    assert asking.is_alive()
    order(live, scope="provider", name="open", reason="at once", cut=True)
    asking.join(10)
    (answer,) = answers
    assert "stopped by admin: at once" in answer.text
    assert answer.status_code == (200 if is_stream else 503)
    ends = [each["error_class"] for each in live.outcomes(1)]
    assert ends == ["stopped"]
    health = live.parts.health.peek()
    assert health == {}, "a call that was cut says nothing of its provider"


def test_a_stop_that_no_key_of_the_home_signed_counts_nothing(town: Town) -> None:
    with Pointsman(town.home) as pointsman:
        made = pointsman.order_stop("provider", "open", "a drill", "bob")
        recorder = pointsman.decision_recorder.recorder()
        forged = StopOrder("forged", "all", "", "mine", "mallory", False, made.at)
        told = STOP_TEXT.encode(forged)
        with closing(LedgerReader(pointsman.home.database)) as reader:
            (true,) = reader.of_kind(EVENTS)
        recorder.record(Draft(ORDERED, "forged", true.entry.ref, made.at, told))
        recorder.record(Draft(ORDERED, "forged-too", "sha256:" + "0" * 64, made.at, told))
        pointsman.stops.look()
        assert [each.id for each in pointsman.stops.in_force()] == [made.id]
        assert len(pointsman.stops.refused) == 2
        assert pointsman.verify().is_intact


@pytest.mark.parametrize(
    ("scope", "name"),
    [("provider", "nobody"), ("provider", "open:small"), ("tenant", ""), ("all", "x")],
)
def test_an_order_that_names_nothing_is_refused(town: Town, scope: Any, name: str) -> None:
    with Pointsman(town.home) as pointsman, pytest.raises((InputError, NotFound)):
        pointsman.order_stop(scope, name, "a drill", "bob")


def test_replicas_on_postgresql_obey_within_a_second(
    town: Town, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POINTSMAN_STORE", postgres_url)
    with running(town.home) as one, running(town.home) as other:
        assert other.chat("one").status_code == 200
        order(one)
        eventually(lambda: other.chat("two").status_code == 503, seconds=1)


def test_stopped_turns_replay(town: Town) -> None:
    write_home(town.home)
    with Pointsman(town.home) as pointsman:
        pointsman.order_stop("all", "", "a drill", "bob")
        shown = pointsman.route(pointsman.facts("hello"))
        assert shown.outcome.chosen_model == ""
        report = pointsman.replay([shown.turn_id])
        assert report.identical == report.total > 0
