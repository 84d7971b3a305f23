"""Three replicas on one PostgreSQL, with and without Redis, are one gateway to their callers."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2 as httpx
import msgspec
import pytest
from tests.gateway.house import ADMIN_TOKEN, eventually
from tests.replicas.fleet import Crowd, Fleet, Ship
from tests.replicas.harbour import cost_of, entries, is_settled

from pointsman.app import Pointsman
from pointsman.operations.providers import provider_rows

ASK = {"role": "user", "content": "what is the weather in Bern?"}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "4 degrees"}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]


def served_by(response: httpx.Response) -> tuple[str, str]:
    assert response.status_code == 200, response.text
    return response.headers["x-pointsman-model"], response.headers["x-pointsman-policy"]


def test_a_budget_is_spent_to_the_cent_by_sixteen_clients_of_three_replicas(fleet: Fleet) -> None:
    """100 calls of five cents fit; 160 are asked for."""
    with Crowd() as crowd:
        crowd.ask(fleet.ports, 10, "hammered", key=fleet.key)
        answers = crowd.answers()
    assert Counter(each["status"] for each in answers) == {200: 100, 402: 60}
    assert {each["code"] for each in answers} == {"", "routing.over_budget"}
    assert cost_of(fleet, "hammered") == 5_000_000
    eventually(lambda: is_settled(fleet))


def test_a_tool_loop_over_all_replicas_keeps_its_model_and_makes_one_decision(
    fleet: Fleet,
) -> None:
    first, second, third = fleet.ships
    begun = first.chat([ASK], "loop", tools=TOOLS, model="q:n")
    assert served_by(begun)[0] == "q:n"
    messages: list[dict[str, Any]] = [ASK]
    for ship in (second, third, first, second):
        messages += [CALLED, RESULT]
        gone_on = ship.chat(messages, "loop", tools=TOOLS)
        assert served_by(gone_on) == ("q:n", "turn_lock")
        for name in ("x-pointsman-turn", "x-pointsman-decision"):
            assert gone_on.headers[name] == begun.headers[name]
    decided = [
        each
        for each in entries(fleet, "decision.turn")
        if each.ref == begun.headers["x-pointsman-turn"]
    ]
    assert len(decided) == 1


def test_a_later_turn_elsewhere_ends_the_hold_of_the_one_before(fleet: Fleet) -> None:
    first, second, third = fleet.ships
    served_by(first.chat([ASK], "turns", tools=TOOLS, model="q:n"))
    later = second.chat("something else", "turns")
    assert served_by(later)[0] == "p:m"
    messages = [ASK, CALLED, RESULT]
    gone_on = third.chat(messages, "turns", tools=TOOLS)
    assert served_by(gone_on) == ("p:m", "turn_lock")


def test_a_pin_set_at_one_replica_holds_at_all_at_once(fleet: Fleet) -> None:
    first, second, third = fleet.ships
    listed = first.get("/api/keys").json()["keys"]
    session = f"{listed[0]['id']}/pinned"
    assert second.chat("hello", "pinned").headers["x-pointsman-model"] == "p:m"
    assert first.post(f"/api/sessions/{_quoted(session)}/pin", {"model": "q:n"}).status_code == 200
    for ship in fleet.ships:
        assert served_by(ship.chat("hello", "pinned")) == ("q:n", "manual_sticky")
    assert third.delete(f"/api/sessions/{_quoted(session)}/pin").status_code == 200
    for ship in fleet.ships:
        assert served_by(ship.chat("hello", "pinned"))[0] == "p:m"


def test_a_key_that_is_ended_at_one_replica_is_ended_at_all(fleet: Fleet) -> None:
    first, second, _ = fleet.ships
    told = first.post("/api/keys", {"name": "short"}).json()
    bearer = {"authorization": f"Bearer {told['key']}"}
    for ship in fleet.ships:
        eventually(lambda ship=ship: _status(ship, bearer) == 200)
    assert second.delete(f"/api/keys/{told['id']}").status_code == 200
    for ship in fleet.ships:
        eventually(lambda ship=ship: _status(ship, bearer) == 401)


def _status(ship: Ship, headers: dict[str, str]) -> int:
    found = httpx.get(f"{ship.url}/v1/models", headers=headers, timeout=30, trust_env=False)
    return found.status_code


def test_the_feed_of_every_replica_tells_what_all_decide(fleet: Fleet) -> None:
    first, second, _ = fleet.ships
    headers = {"authorization": f"Bearer {ADMIN_TOKEN}"}
    with httpx.stream(
        "GET", f"{first.url}/api/events", headers=headers, timeout=30, trust_env=False
    ) as feed:
        assert feed.status_code == 200
        lines = feed.iter_lines()
        seen = ""
        for number in range(100):
            asked = second.chat("tell it all", f"fed {number}")
            name = asked.headers["x-pointsman-turn"]
            time.sleep(0)  # the follower's own beat decides when it is told
            for line in lines:
                if name in line:
                    seen = name
                    break
                if line.startswith(":") or number == 0:
                    break
            if seen:
                break
    assert seen


def test_all_replicas_come_to_the_same_view_of_a_provider_that_is_out(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = fleet.ships
    for ship in (first, second):
        assert ship.chat("hello", "outage", model="gone:g").status_code >= 500

    def views() -> list[Any] | None:
        found = [_of_gone(each.get("/api/providers").json()["rows"]) for each in fleet.ships]
        return found if all(found) and all(each == found[0] for each in found) else None

    (row, *_), *_ = eventually(views)
    assert row["state"] == "unavailable"
    changes = [
        json.loads(each.payload)["provider"]
        for each in entries(fleet, "event.routing.provider_unavailable")
    ]
    assert changes.count("gone") == 1
    # A command beside them sees the same, and what it clears is clear for all.
    monkeypatch.setenv("POINTSMAN_REDIS", fleet.redis)
    with Pointsman(first.home, store=fleet.store) as command:
        models = command.in_force().ready.models
        rows = provider_rows(command.health.reports(models), command.clock.now())
        assert _of_gone(msgspec.to_builtins(rows))[0] == row
        assert command.facts("hello").availability["gone"] == "unavailable"
        (back, *_) = command.clear_outage("gone")
        assert back.payload.provider == "gone"

    def are_clear() -> bool:
        return not any(_of_gone(each.get("/api/providers").json()["rows"]) for each in fleet.ships)

    eventually(are_clear)


def _of_gone(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the rows of the provider that is gone, without what only says how late it is."""
    kept = ("provider", "model", "state", "cause", "since")
    return [
        {name: row.get(name) for name in kept}
        for row in rows
        if row["provider"] == "gone" and row["state"] != "healthy"
    ]


def test_two_policies_side_by_side_are_each_named_by_their_decisions(fleet: Fleet) -> None:
    first, second, third = fleet.ships
    path = second.home / "routing.yaml"
    before = path.read_text()
    try:
        path.write_text(before.replace('"global_default": "p:m"', '"global_default": "q:n"'))
        eventually(lambda: second.chat("hello", "apart").headers["x-pointsman-model"] == "q:n")
        told = second.chat("hello", "apart")
        turn = third.get(f"/api/turns/{told.headers['x-pointsman-turn']}").json()
        assert turn["chosen_model"] == "q:n"
        other = first.get(
            f"/api/turns/{first.chat('hello', 'apart').headers['x-pointsman-turn']}"
        ).json()
        assert other["chosen_model"] == "p:m"
        assert other["policy_id"] != turn["policy_id"]
        eventually(lambda: len(_policies(first)) == 2)
    finally:
        path.write_text(before)
    eventually(lambda: len(_policies(first)) == 1)


def _policies(ship: Ship) -> set[str]:
    rows = ship.get("/health/readiness").json()["shared"]["replicas"]
    return {each["policy_id"] for each in rows}


def test_readiness_names_every_replica_that_lives(fleet: Fleet) -> None:
    def found() -> set[str]:
        rows = fleet.ships[0].get("/health/readiness").json()["shared"]["replicas"]
        return {each["chain"] for each in rows}

    eventually(lambda: len(found()) == 3)


def test_a_replica_told_to_stop_is_ready_no_more_and_ends_what_it_began(
    fleet: Fleet, tmp_path: Path
) -> None:
    ship = fleet.ships[2]
    (ship.home / "pointsman.yaml").write_text(
        json.dumps({"telemetry": {"logs": "off"}, "server": {"drain_s": 1}})
    )
    _restart(fleet, 2)
    headers = {"authorization": f"Bearer {ship.key}", "x-session-id": "drained"}
    message = {"role": "user", "content": "say it slowly"}
    body = {"model": "auto", "messages": [message], "stream": True, "max_tokens": 50}
    url = f"{ship.url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, headers=headers, timeout=30, trust_env=False) as got:
        assert got.status_code == 200
        ship.stop()
        eventually(lambda: ship.get("/health/readiness").json()["status"] == "draining")
        assert ship.get("/health/readiness").status_code == 503
        text = got.read()
    assert text.rstrip().endswith(b"data: [DONE]")
    eventually(lambda: not ship.is_alive())
    fleet.start(2)
    eventually(lambda: is_settled(fleet))


def _restart(fleet: Fleet, number: int) -> None:
    ship = fleet.ships[number]
    ship.stop()
    eventually(lambda: not ship.is_alive())
    fleet.start(number)


def _quoted(name: str) -> str:
    return name.replace("/", "%2F")


@pytest.mark.parametrize("path", ["/health", "/health/readiness"])
def test_health_needs_no_key(fleet: Fleet, path: str) -> None:
    assert httpx.get(f"{fleet.ships[1].url}{path}", trust_env=False).status_code == 200
