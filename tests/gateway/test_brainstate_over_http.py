"""`/brainstate` as document 004 §9 writes it, over a real port: made, read, ticked and asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pytest
from tests.gateway.house import Running, running
from tests.gateway.test_keys_over_http import bearer, made

from pointsman.governance.action import QUORUM
from pointsman.jobs.entries import CALL, CALL_FORM, TICK, TICK_FORM

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
BUDGET = {"token_budget": 2048, "max_depth_allowed": 3}
EMAIL = "write to kim.lee@example.org"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway of a home without any file and without any key."""
    with running(tmp_path_factory.mktemp("minds") / "home") as found:
        yield found


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, Any]]]:
    """A gateway with a key of every role."""
    with running(tmp_path_factory.mktemp("roles") / "home") as found:
        roles = ("viewer", "operator", "admin", "council", "auditor")
        yield found, {role: made(found, name=f"the {role}", role=role) for role in roles}


def started(live: Running, own: dict[str, str] | None = None, **more: Any) -> str:
    body = {"job_seed": "seed-1", "resource_budget": BUDGET, **more}
    told = live.post("/brainstate/create_snapshot", body, **(own or {}))
    assert told.status_code == 200, told.text
    return str(told.json()["brainstate_snapshot_id"])


def tick(
    live: Running, name: str, own: dict[str, str] | None = None, **inputs: Any
) -> httpx.Response:
    body = {"brainstate_snapshot_id": name, "inputs": inputs}
    return live.post("/brainstate/tick", body, **(own or {}))


@pytest.mark.req(389, 391, 400)
def test_a_start_is_kept_with_a_warning_for_each_default(live: Running) -> None:
    body = {
        "job_seed": "seed-xxxx",
        "goals": [
            {"goal_id": "g1", "priority": 0.8, "type": "answer", "status": "active",
             "origin": "user", "metadata": {}}
        ],
        "attention": {"explore_bias": 0.15, "reward_signal": 0.6},
        "resource_budget": {"token_budget": 2048, "max_depth_allowed": 2},
        "constants": {"DEFAULT_WM_TTL": 5},
    }  # fmt: skip
    told = live.post("/brainstate/create_snapshot", body).json()
    warn = {each["name"].rpartition(".")[2]: each["value"] for each in told["warnings"]}
    assert (warn["attention_gain"], warn["PROMOTION_WINDOW"]) == ("0.5", "4")
    assert {"DEFAULT_WM_TTL", "explore_bias"} & set(warn) == set()
    found = live.get(f"/brainstate/{told['brainstate_snapshot_id']}", **bearer(live.admin)).json()
    assert found["brainstate_id"] == told["brainstate_id"]
    assert (found["WM"], found["CWM"]["items"]) == ([], [])
    assert found["attention"] == {
        "attention_gain": 0.5, "explore_bias": 0.15, "reward_signal": 0.6
    }  # fmt: skip
    assert found["goals"][0]["priority"] == 0.8
    assert found["constants"]["DEFAULT_WM_TTL"] == 5
    assert found["redacted"] is False


@pytest.mark.req(378, 397)
def test_the_hint_is_the_whole_part_of_attention_times_the_deepest(live: Running) -> None:
    name = started(live, attention={"attention_gain": 0.4, "explore_bias": 0.2})
    told = live.post("/brainstate/query", {"brainstate_snapshot_id": name}).json()
    assert told["max_depth_allowed"] == 1
    assert (told["prefer_high_APT"], told["allow_explore"]) == (False, True)
    assert told["candidate_bias"] == {"prefer_high_APT": False, "allow_explore": True}


@pytest.mark.req(395)
def test_an_approval_raises_attention_by_the_formula(live: Running) -> None:
    name = started(live, attention={"attention_gain": 0.5})
    told = tick(live, name, council_approval=True).json()
    assert told["brainstate"]["attention"]["attention_gain"] == 0.675
    assert told["reward_signal"] == 0.8


@pytest.mark.req(393)
def test_an_item_leaves_when_its_ticks_are_over(live: Running) -> None:
    first = tick(live, started(live), wm=[{"type": "fact", "value": "x", "ttl_ticks": 2}]).json()
    assert len(first["brainstate"]["WM"]) == 1
    second = tick(live, first["brainstate_snapshot_id"]).json()
    third = tick(live, second["brainstate_snapshot_id"]).json()
    assert (len(second["brainstate"]["WM"]), third["brainstate"]["WM"]) == (1, [])


@pytest.mark.req(350, 361, 398)
def test_the_same_tick_leads_to_the_same_snapshot(live: Running) -> None:
    name = started(live)
    inputs = {"council_approval": True, "wm": [{"type": "fact", "value": {"n": 0.1}}]}
    one, two = tick(live, name, **inputs).json(), tick(live, name, **inputs).json()
    assert one["brainstate_snapshot_id"] == two["brainstate_snapshot_id"] != name
    assert one["brainstate"] == two["brainstate"]
    untouched = live.get(f"/brainstate/{name}", **bearer(live.admin)).json()
    assert (untouched["WM"], untouched["tick"]) == ([], 0)


@pytest.mark.req(359)
def test_no_input_changes_the_budget(live: Running) -> None:
    name = started(live)
    told = tick(live, name, resource_budget={"token_budget": 10**6, "max_depth_allowed": 9})
    assert told.status_code == 400
    told = tick(live, name, events=[{"type": "tokens_used", "tokens": 2048}]).json()
    assert told["brainstate"]["resource_budget"] == BUDGET


WISH = {
    "type": "action",
    "action_type": "sem_write",
    "origin": "agent:logic_v1",
    "payload": {"namespace": "facts", "key": "qubit", "value": "two levels"},
}


@pytest.mark.req(353, 354, 360, 383, 384, 399)
def test_a_wish_becomes_a_request_that_is_done_when_the_council_agreed(
    town: tuple[Running, dict[str, Any]],
) -> None:
    live, keys = town
    name = started(live, keys["operator"], job_seed="seed-of-a-wish")
    told = tick(live, name, keys["operator"], events=[WISH]).json()
    (request,) = told["action_requests"]
    assert (request["action_type"], request["status"]) == ("sem_write", "pending")
    assert live.get("/sem/facts/qubit", **keys["admin"]).status_code == 400
    path = f"/actions/{request['request_id']}"
    shown = live.get(path, **keys["admin"]).json()
    assert shown["timestamp_seeded"].startswith("2025-01-01T")
    assert (shown["origin"]["source"], shown["origin"]["node_id"]) == (
        "brainstate", "agent:logic_v1",
    )  # fmt: skip
    assert "wishes `sem_write`" in shown["justification"]
    body = {"vote": "approve", "action_hash": request["action_hash"]}
    members = [made(live, name=f"member {n}", role="council") for n in range(QUORUM)]
    statuses = [live.post(f"{path}/votes", body, **each).json()["status"] for each in members]
    assert statuses == ["pending", "pending", "executed"]
    assert live.get("/sem/facts/qubit", **keys["admin"]).json()["value"] == "two levels"


@pytest.mark.req(388, 391, 404)
def test_memory_is_shown_in_full_redacted_or_not_at_all_by_role(
    town: tuple[Running, dict[str, Any]],
) -> None:
    live, keys = town
    name = started(live, keys["operator"], job_seed="seed-of-a-secret")
    items = [{"type": "fact", "value": {"contact": EMAIL, "topic": "qubits"}}]
    told = tick(live, name, keys["operator"], wm=items)
    assert told.status_code == 200
    assert told.json()["redacted"] is True
    assert "kim.lee" not in told.text
    path = f"/brainstate/{told.json()['brainstate_snapshot_id']}"
    for role, own in keys.items():
        answered = live.get(path, **own)
        assert answered.status_code == (403 if role == "viewer" else 200), role
        assert ("kim.lee" in answered.text) == (role in {"admin", "council"}), role
        if role in {"operator", "auditor"}:
            (item,) = answered.json()["WM"]
            assert item["value"]["topic"] == "qubits"
            assert "email" in item["value"]["contact"]
    assert live.get(path, **keys["viewer"]).json()["error_code"] == "PERMISSION_DENIED"


def test_without_any_key_this_machine_sees_memory_redacted(live: Running) -> None:
    told = tick(live, started(live), wm=[{"type": "fact", "value": EMAIL}])
    assert told.status_code == 200
    path = f"/brainstate/{told.json()['brainstate_snapshot_id']}"
    assert "kim.lee" not in told.text + live.get(path).text
    assert "kim.lee" in live.get(path, **bearer(live.admin)).text


@pytest.mark.req(386)
def test_no_entry_of_a_tick_holds_personal_data(live: Running) -> None:
    tick(live, started(live), wm=[{"type": "fact", "value": EMAIL}])
    for each in live.entries(TICK):
        assert b"kim.lee" not in each.payload


@pytest.mark.parametrize("role", ["viewer", "auditor"])
def test_those_who_only_look_change_no_state(
    town: tuple[Running, dict[str, Any]], role: str
) -> None:
    live, keys = town
    for path in ("create_snapshot", "tick", "query"):
        told = live.post(f"/brainstate/{path}", {}, **keys[role])
        assert (told.status_code, told.json()["error_code"]) == (403, "PERMISSION_DENIED")


def test_after_the_first_key_nobody_is_served_without_one(
    town: tuple[Running, dict[str, Any]],
) -> None:
    live, _ = town
    for path in ("create_snapshot", "tick", "query"):
        assert live.post(f"/brainstate/{path}", {}).status_code == 401
    assert live.get("/brainstate/anything").status_code == 401


@pytest.mark.req(392)
def test_every_call_leaves_one_entry_with_its_trace(live: Running) -> None:
    before = len(live.entries())
    name = started(live, job_seed="seed-of-an-audit", trace_id="made")
    body = {"brainstate_snapshot_id": name, "trace_id": "asked"}
    live.post("/brainstate/query", body)
    live.client.get(f"/brainstate/{name}", headers={"traceparent": TRACE})
    live.get("/brainstate/unheard-of")
    live.post("/brainstate/tick", {**body, "trace_id": "ticked"})
    live.post("/brainstate/tick", {**body, "trace_id": "wrong", "inputs": 1})
    entries = live.entries()[before:]
    told = [CALL_FORM.decode(each.payload) for each in entries if each.kind == CALL]
    assert [(each.call, each.result) for each in told] == [
        ("brainstate.create_snapshot", "done"),
        ("brainstate.query", "done"),
        ("brainstate.get", "done"),
        ("brainstate.get", "ROUTER_NO_SNAPSHOT"),
        ("brainstate.tick", "input.document"),
    ]
    assert [each.trace_id for each in told[:3]] == ["made", "asked", TRACE.split("-")[1]]
    assert told[3].trace_id
    assert told[4].trace_id == "wrong"
    ticks = [TICK_FORM.decode(each.payload) for each in entries if each.kind == TICK]
    assert [each.trace_id for each in ticks] == ["ticked"]
    assert told[0].subject == told[1].subject == told[2].subject == name


@pytest.mark.req(61)
@pytest.mark.parametrize("name", ["sha256:" + "0" * 64, "unheard-of", "bs:seed-1:0", "%00", "a b"])
def test_a_state_that_is_not_there_is_said_to_developers(live: Running, name: str) -> None:
    answers = [
        live.get(f"/brainstate/{name.replace(' ', '%20')}"),
        tick(live, name),
        live.post("/brainstate/query", {"brainstate_snapshot_id": name}),
    ]
    for told in answers:
        value = told.json()
        assert (told.status_code, value["error_code"]) == (404, "ROUTER_NO_SNAPSHOT")
        assert value["user_message"] == "The state this request refers to does not exist."
        assert "no snapshot of `brainstate`" in value["developer_message"]


START = {"job_seed": "s", "resource_budget": BUDGET}
HOSTILE = [
    b"",
    b"[]",
    b"{" * 1000,
    b"\xff",
    json.dumps({**START, "surprise": 1}).encode(),
    json.dumps({**START, "job_seed": ""}).encode(),
    json.dumps({**START, "resource_budget": {**BUDGET, "token_budget": -1}}).encode(),
    json.dumps({**START, "resource_budget": {**BUDGET, "token_budget": 1.5}}).encode(),
    json.dumps({**START, "attention": {"attention_gain": 1.1}}).encode(),
    json.dumps({**START, "goals": [{"goal_id": "g", "type": "dream"}]}).encode(),
    json.dumps({**START, "goals": [{"goal_id": "g", "type": "plan"}] * 2}).encode(),
    json.dumps({**START, "WM": []}).encode(),
    b'{"job_seed": "s", "resource_budget": {"token_budget": 1e400, "max_depth_allowed": 1}}',
    b'{"job_seed": "s", "resource_budget": {"token_budget": NaN, "max_depth_allowed": 1}}',
    json.dumps(START).encode()[:-1] + b', "job_seed": "t"}',
]


@pytest.mark.req(355, 358)
@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_a_start_that_cannot_be_used_is_told_in_one_clear_error(live: Running, body: bytes) -> None:
    told = live.post("/brainstate/create_snapshot", body)
    value = told.json()
    assert (told.status_code, value["error_code"]) == (400, "input.document"), told.text
    assert value["user_message"].startswith("the body:")
    assert value["meta"]["trace_id"]


INPUTS = [
    {"wm": [{"type": "fact"}]},
    {"wm": [{"type": "dream", "value": 1}]},
    {"wm": [{"type": "fact", "value": 1, "ttl_ticks": 0}]},
    {"wm": [{"type": "fact", "value": "x" * 70_000}]},
    {"events": [{"type": "nothing"}]},
    {"events": [{"type": "tokens_used", "tokens": "many"}]},
    {"events": [{"type": "action", "action_type": "launch", "origin": "a", "payload": {}}]},
    {"council_approval": "yes"},
    {"unknown": 1},
]


@pytest.mark.parametrize("inputs", INPUTS, ids=range(len(INPUTS)))
def test_inputs_that_cannot_be_used_move_nothing(live: Running, inputs: dict[str, Any]) -> None:
    name, before = started(live), len(live.entries(TICK))
    told = tick(live, name, **inputs)
    assert (told.status_code, told.json()["error_code"]) == (400, "input.document"), told.text
    assert len(live.entries(TICK)) == before
