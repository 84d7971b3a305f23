"""`/router/decide` and `/selfrep` over a real port, as document 000 writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from tests.gateway.agents_asked import A, B, agent, decide, kept, minded
from tests.gateway.house import Running, running
from tests.gateway.test_keys_over_http import bearer, made

from pointsman.jobs.entries import CALL, CALL_FORM
from pointsman.kernel.record import read_recorded
from pointsman.storage.stores.entries import LedgerReader

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNKNOWN = "sha256:" + "0" * 64


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway of a home without any file and without any key."""
    with running(tmp_path_factory.mktemp("agents") / "home") as found:
        yield found


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, Any]]]:
    """A gateway with a key of every role."""
    with running(tmp_path_factory.mktemp("roles") / "home") as found:
        roles = ("viewer", "operator", "admin", "council", "auditor")
        yield found, {role: made(found, name=f"the {role}", role=role) for role in roles}


@pytest.mark.req(49, 50, 53)
def test_the_higher_trust_is_chosen_and_the_answer_has_every_field(live: Running) -> None:
    selfrep = kept(live, {A: agent(0.9), B: agent(0.7)})
    told = decide(live, selfrep, minded(live, 0.8))
    assert told.status_code == 200, told.text
    value = told.json()
    scores = [(each["node_id"], each["final_score"]) for each in value["ordered_candidates"]]
    assert scores == [(A, 0.63), (B, 0.49)]
    first = value["ordered_candidates"][0]
    assert (first["availability_score"], first["reason"]) == (0.9, first["reason_tag"])
    assert (value["selected_agent"], value["depth"], value["token_budget"]) == (A, 1, 1843)
    assert value["requires_action_request"] is False
    assert value["trace_id"] == "trace-1"
    assert value["router_snapshot_id"].startswith("sha256:")
    assert {each["node_id"] for each in value["route_trace"]["scored"]} == {A, B}


@pytest.mark.req(54)
@pytest.mark.parametrize(("priority", "chosen"), [(0.8, B), (0.7, A), (0.6, A)])
def test_a_goal_lifts_who_serves_it_as_far_as_it_weighs(
    live: Running, priority: float, chosen: str
) -> None:
    selfrep = kept(live, {A: agent(0.9), B: agent(0.7, capabilities=["plan"])})
    goals = [{"goal_id": "g1", "priority": priority, "type": "plan", "status": "active"}]
    told = decide(live, selfrep, minded(live, 0.8, goals=goals)).json()
    assert told["selected_agent"] == chosen


@pytest.mark.req(55)
def test_what_a_module_needs_and_lacks_costs_it_the_job(live: Running) -> None:
    modules = {
        A: agent(0.9),
        B: agent(0.7),
        "service:db": {"type": "service", "status": "offline", "apt": 0.9},
    }
    edge = {"from": A, "to": "service:db", "required": True}
    told = decide(live, kept(live, modules, edge), minded(live, 0.8)).json()
    assert told["selected_agent"] == B
    assert told["ordered_candidates"][1]["availability_score"] == 0.45


@pytest.mark.req(56)
def test_a_policy_vetoes_whatever_the_score(live: Running) -> None:
    modules = {
        A: agent(0.9, policy={"allowed_actions": [], "forbidden_actions": ["SEM_write"]}),
        B: agent(0.7),
    }
    told = decide(live, kept(live, modules), minded(live, 0.8), required_action="sem_write").json()
    assert told["selected_agent"] == B
    assert (told["requires_action_request"], len(told["action_reasons"])) == (True, 1)


@pytest.mark.req(57)
def test_the_depth_is_the_whole_part_of_attention_times_the_deepest(live: Running) -> None:
    selfrep = kept(live, {A: agent(0.9)})
    assert decide(live, selfrep, minded(live, 0.4, depth=3)).json()["depth"] == 1


@pytest.mark.req(34)
def test_tokens_are_worked_out_exactly(live: Running) -> None:
    selfrep = kept(live, {A: agent(0.9)})
    assert decide(live, selfrep, minded(live, 0.36, tokens=1000)).json()["token_budget"] == 680


@pytest.mark.req(58)
def test_equals_are_told_apart_by_their_names(live: Running) -> None:
    selfrep = kept(live, {B: agent(0.8), A: agent(0.8)})
    told = decide(live, selfrep, minded(live, 0.8), candidate_list=[B, A]).json()
    assert [each["node_id"] for each in told["ordered_candidates"]] == [A, B]


@pytest.mark.req(59)
def test_the_fallback_takes_what_nobody_else_may(live: Running) -> None:
    selfrep = kept(live, {A: agent(0.2), "generic_agent": agent(0.5)})
    told = decide(live, selfrep, minded(live, 0.8)).json()
    assert (told["selected_agent"], told["depth"]) == ("generic_agent", 0)
    assert told["reason_tag"] == "fallback_generic"


@pytest.mark.req(6, 40)
def test_a_job_that_nobody_takes_is_a_fixed_error_and_a_recorded_decision(live: Running) -> None:
    selfrep = kept(live, {A: agent(0.9, "quarantined")})
    told = decide(live, selfrep, minded(live, 0.8))
    value = told.json()
    assert (told.status_code, value["error_code"]) == (400, "ROUTER_NO_MATCH")
    assert (value["status"], value["severity"]) == (400, "info")
    assert value["user_message"] == "No module is available for this kind of request."
    assert value["developer_message"].startswith("agents.none_allowed: ")
    assert value["meta"]["trace_id"] == "trace-1"
    assert value["selected_agent"] is None
    assert value["route_trace"]["excluded"][0]["reason"] == "agents.quarantined"
    entries = {each.id: each for each in live.entries("decision.agent")}
    assert value["decision_id"] in entries


@pytest.mark.req(47)
def test_a_query_with_personal_data_is_blocked_and_not_repeated(live: Running) -> None:
    selfrep = kept(live, {A: agent(0.9)})
    told = decide(live, selfrep, minded(live, 0.8), query_text="my address is kim.lee@example.org")
    value = told.json()
    assert (told.status_code, value["error_code"]) == (403, "PRIVACY_BLOCKED")
    assert value["user_message"].startswith("Sensitive personal data cannot be ")
    assert "kim.lee" not in told.text
    assert value["selected_agent"] is None


@pytest.mark.req(61)
@pytest.mark.parametrize("which", ["selfrep_snapshot_id", "brainstate_snapshot_id"])
@pytest.mark.parametrize("name", [UNKNOWN, "unheard-of", "../../etc/passwd"])
def test_a_snapshot_that_is_not_there_is_said_to_developers(
    live: Running, which: str, name: str
) -> None:
    selfrep, mind = kept(live, {A: agent(0.9)}), minded(live, 0.8)
    told = decide(live, selfrep, mind, **{which: name})
    value = told.json()
    assert (told.status_code, value["error_code"]) == (404, "ROUTER_NO_SNAPSHOT")
    assert value["user_message"] == "The state this request refers to does not exist."
    assert name in value["developer_message"]


@pytest.mark.req(61)
@pytest.mark.parametrize("which", ["selfrep_snapshot_id", "brainstate_snapshot_id"])
def test_an_empty_or_missing_snapshot_id_names_no_snapshot(live: Running, which: str) -> None:
    body = {
        "job_id": "j",
        "job_seed": "s",
        "query_text": "q",
        "selfrep_snapshot_id": kept(live, {A: agent(0.9)}),
        "brainstate_snapshot_id": minded(live, 0.8),
    }
    for changed in ({**body, which: ""}, {key: body[key] for key in body if key != which}):
        told = live.post("/router/decide", json.dumps(changed).encode())
        assert (told.status_code, told.json()["error_code"]) == (404, "ROUTER_NO_SNAPSHOT")


@pytest.mark.req(61)
def test_a_snapshot_of_another_kind_is_none_of_this(live: Running) -> None:
    selfrep, mind = kept(live, {A: agent(0.9)}), minded(live, 0.8)
    told = decide(live, mind, selfrep)
    assert (told.status_code, told.json()["error_code"]) == (404, "ROUTER_NO_SNAPSHOT")


@pytest.mark.req(1, 3)
def test_the_same_call_is_decided_the_same_whenever_it_is_made(live: Running) -> None:
    selfrep = kept(live, {A: agent(0.9), B: agent(0.7)})
    mind = minded(live, 0.8)
    answers = [
        decide(live, selfrep, mind, candidate_list=names).json() for names in ([A, B], [B, A])
    ]
    for each in answers:
        for name in ("decision_id", "elapsed_ms"):
            del each[name]
    assert answers[0] == answers[1]


@pytest.mark.req(2)
def test_modules_that_are_posted_later_change_nothing(live: Running) -> None:
    selfrep, mind = kept(live, {A: agent(0.9), B: agent(0.7)}), minded(live, 0.8)
    kept(live, {A: agent(0.1, "offline"), B: agent(0.7)})
    assert decide(live, selfrep, mind).json()["selected_agent"] == A


@pytest.mark.req(7, 48, 51, 392)
def test_every_call_leaves_one_entry_with_its_trace(live: Running) -> None:
    selfrep, mind = kept(live, {A: agent(0.9)}), minded(live, 0.8)
    before = len(live.entries())
    answered = decide(live, selfrep, mind, trace_id="one-of-a-kind").json()
    (entry,) = live.entries()[before:]
    assert (entry.kind, entry.id) == ("decision.agent", answered["decision_id"])
    _, record, aside = read_recorded(entry.payload)
    assert (aside.trace_id, record.policy_id) == ("one-of-a-kind", answered["router_snapshot_id"])
    decide(live, selfrep, UNKNOWN, trace_id="in-vain")
    decide(live, selfrep, mind, job_id=7, trace_id="wrong")
    live.client.get(f"/selfrep/{selfrep}", headers={"traceparent": TRACE})
    live.client.get("/selfrep", headers={"traceparent": TRACE})
    told = [CALL_FORM.decode(each.payload) for each in live.entries()[before + 1 :]]
    assert [(each.call, each.trace_id, each.result) for each in told] == [
        ("router.decide", "in-vain", "ROUTER_NO_SNAPSHOT"),
        ("router.decide", "wrong", "input.document"),
        ("selfrep.get", TRACE.split("-")[1], "done"),
        ("selfrep.live", TRACE.split("-")[1], "done"),
    ]
    assert all(each.by.id == "local" for each in told)


def test_a_recorded_choice_replays(live: Running) -> None:
    selfrep, mind = kept(live, {A: agent(0.9)}), minded(live, 0.8)
    decide(live, selfrep, mind)
    told = live.post("/api/replay", b"", **bearer(live.admin)).json()
    assert told["diverged"] == told["unable"] == 0 < told["identical"], told


def test_a_snapshot_reads_back_as_it_can_be_posted_again(live: Running) -> None:
    modules = {
        A: agent(0.912345678, capabilities=["answer"], is_fallback=True),
        B: agent(0.7, "degraded"),
    }
    selfrep = kept(live, modules, {"from": A, "to": B, "required": False})
    found = live.get(f"/selfrep/{selfrep}", **bearer(live.admin)).json()
    assert found["modules"][A]["apt"] == 0.912345678
    assert found["redacted"] is False
    again = {key: found[key] for key in ("modules", "edges", "trust")}
    told = live.post("/selfrep/create_snapshot", again).json()
    back = live.get(f"/selfrep/{told['selfrep_snapshot_id']}", **bearer(live.admin)).json()
    assert {key: back[key] for key in again} == again


def test_an_empty_body_keeps_the_live_modules(live: Running) -> None:
    told = live.post("/selfrep/create_snapshot", {}).json()
    found = live.get("/selfrep").json()
    assert told["selfrep_snapshot_id"] == found["selfrep_snapshot_id"]


def test_an_id_is_taken_as_it_was_printed_and_as_browsers_send_it(live: Running) -> None:
    selfrep = kept(live, {A: agent(0.9)})
    for name in (selfrep, selfrep.replace(":", "%3A")):
        assert live.get(f"/selfrep/{name}").json()["selfrep_snapshot_id"] == selfrep


@pytest.mark.req(388)
def test_texts_about_modules_are_redacted_for_those_who_may_not_see_all(
    town: tuple[Running, dict[str, Any]],
) -> None:
    live, keys = town
    module = agent(0.5, "offline", status_reason="ask kim.lee@example.org")
    body = {"modules": {A: module}}
    told = live.post("/selfrep/create_snapshot", body, **keys["operator"]).json()
    path = f"/selfrep/{told['selfrep_snapshot_id']}"
    for role, own in keys.items():
        answered = live.get(path, **own)
        assert answered.status_code == (403 if role == "viewer" else 200), role
        assert ("kim.lee" in answered.text) == (role in {"admin", "council"}), role


def test_a_role_of_this_house_is_not_claimed_with_the_call(
    town: tuple[Running, dict[str, Any]],
) -> None:
    live, keys = town
    body = {
        "job_id": "j",
        "job_seed": "s",
        "query_text": "q",
        "selfrep_snapshot_id": live.post(
            "/selfrep/create_snapshot", {"modules": {A: agent(0.9)}}, **keys["admin"]
        ).json()["selfrep_snapshot_id"],
        "brainstate_snapshot_id": live.post(
            "/brainstate/create_snapshot",
            {"job_seed": "s", "resource_budget": {"token_budget": 9, "max_depth_allowed": 1}},
            **keys["admin"],
        ).json()["brainstate_snapshot_id"],
        "user_role": "admin",
    }
    told = live.post("/router/decide", body, **keys["operator"])
    assert (told.status_code, told.json()["error_code"]) == (403, "PERMISSION_DENIED")
    assert live.post("/router/decide", body, **keys["admin"]).status_code == 200


@pytest.mark.parametrize("role", ["viewer", "auditor"])
def test_those_who_only_look_choose_no_agents(
    town: tuple[Running, dict[str, Any]], role: str
) -> None:
    live, keys = town
    for path in ("/router/decide", "/selfrep/create_snapshot"):
        told = live.post(path, {}, **keys[role])
        assert (told.status_code, told.json()["error_code"]) == (403, "PERMISSION_DENIED")
        assert told.json()["user_message"] == "You are not allowed to do this."


def test_after_the_first_key_nobody_is_served_without_one(
    town: tuple[Running, dict[str, Any]],
) -> None:
    live, _ = town
    assert live.post("/router/decide", {}).status_code == 401
    assert live.get("/selfrep").status_code == 401


def test_no_text_of_a_query_stands_in_the_ledger(live: Running) -> None:
    selfrep, mind = kept(live, {A: agent(0.9)}), minded(live, 0.8)
    decide(live, selfrep, mind, query_text="a most particular question")
    with closing(LedgerReader(live.parts.pointsman.home.database)) as ledger:
        for each in ledger.of_kind("decision.agent"):
            whole = each.entry.payload + b"".join(ledger.attachments(each))
            assert b"particular" not in whole


def test_calls_are_told_by_whoever_asked(town: tuple[Running, dict[str, Any]]) -> None:
    live, keys = town
    live.get("/selfrep", **keys["auditor"])
    told = [CALL_FORM.decode(each.payload) for each in live.entries(CALL)]
    assert (told[-1].by.name, told[-1].by.role) == ("the auditor", "auditor")
