"""The gateway with all it keeps in PostgreSQL: the same answers, and honest when that is down."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2 as httpx
import pytest
from tests.gateway.conftest import Town
from tests.gateway.crew import crew
from tests.gateway.house import Running, eventually, running, write_home
from tests.gateway.shadows import routing, settled
from tests.gateway.test_keys_over_http import made
from tests.gateway.test_turn_lock import ASK, LOOP, asked
from tests.gateway.town import ADMIN
from tests.servers import PostgresServer

from pointsman.access.shared_budgets import SharedBudgets
from pointsman.audit.verify import verify_ledger
from pointsman.storage.home import open_home
from pointsman.testing import calls, says

MINE = {"headers": {"x-session-id": "mine"}}
LOCAL = {"turns.db"}
"""What a replica keeps for itself: made again from the ledger."""


def test_a_session_is_recorded_counted_and_pinned_in_postgresql(
    town: Town, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POINTSMAN_STORE", postgres_url)
    with running(town.home) as live:
        answer = live.chat("one", **MINE)
        assert answer.headers["x-pointsman-model"] == "open:big"
        live.outcomes(1)
        live.post("/api/sessions/mine/pin", {"model": "small"})
        assert live.chat("two", **MINE).headers["x-pointsman-policy"] == "manual_sticky"
        live.outcomes(2)
        (found,) = live.get("/api/sessions").json()["sessions"]
        assert (found["turns"], found["pinned_model"]) == (2, "open:small")
        turn, decision = (answer.headers[f"x-pointsman-{name}"] for name in ("turn", "decision"))
        assert decision in live.get(f"/api/turns/{turn}").text
        ledger = live.get("/api/ledger").json()
        assert ledger["bytes"] > 0
        assert live.post("/api/verify", {}).json()["intact"] is True
    with running(town.home) as live:
        assert live.chat("three", **MINE).headers["x-pointsman-model"] == "open:small"
    assert verify_ledger(open_home(town.home)).is_intact
    assert {each.name for each in town.home.glob("*.db")} <= LOCAL


def test_turns_that_come_together_each_follow_the_pin_of_their_own_session(
    town: Town, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POINTSMAN_STORE", postgres_url)
    with running(town.home) as live, ThreadPoolExecutor(12) as callers:
        for number in range(0, 12, 3):
            live.chat("first", headers={"x-session-id": f"s{number}"})
            live.post(f"/api/sessions/s{number}/pin", {"model": "small"})

        def served(number: int) -> str:
            answer = live.chat("next", headers={"x-session-id": f"s{number}"})
            return answer.headers["x-pointsman-model"]

        for _ in range(2):
            assert [*callers.map(served, range(12))] == [
                "open:small" if number % 3 == 0 else "open:big" for number in range(12)
            ]
        # The tables are there from the start, but nothing was learned: no turn asks for patterns.
        assert not live.parts.pointsman.gathering._has_patterns()


def test_no_answer_leaves_while_postgresql_is_down_and_they_do_when_it_is_back(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = PostgresServer()
    try:
        monkeypatch.setenv("POINTSMAN_STORE", server.fresh())
        with running(town.home) as live:
            assert live.chat("one").status_code == 200
            live.outcomes(1)
            server.kill()
            refused = live.chat("two")
            assert refused.status_code == 503
            assert "ledger.unavailable" in refused.text
            server.start()
            eventually(lambda: live.chat("three").status_code == 200 or None)
        assert verify_ledger(open_home(town.home)).is_intact
    finally:
        server.close()


def test_what_is_run_beside_a_turn_asks_for_money_in_a_thread_and_settles_it(
    town: Town, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POINTSMAN_STORE", postgres_url)
    budget = {"name": "all", "limit_usd": "5.00", "per": "day"}
    write_home(town.home, routing={**routing(), "budgets": [budget]})
    town.openai.then(says("the answer"))
    town.anthropic.then(says("the other answer"))
    asked: list[str] = []
    reserve = SharedBudgets.reserve

    def watched(budgets: SharedBudgets, *more: Any) -> Any:
        asked.append(threading.current_thread().name)
        return reserve(budgets, *more)

    monkeypatch.setattr(SharedBudgets, "reserve", watched)
    with running(town.home) as live:
        assert live.chat("add two numbers").status_code == 200
        settled(live, shadow_done=1)
        live.outcomes(2)
        sharing = live.parts.sharing
        assert sharing is not None
        eventually(lambda: not sharing.budgets.holding)
    assert len(asked) == 2
    # A network that is slow must not hold up everybody else's answers.
    assert all(name.startswith("shared") for name in asked)


def test_workers_on_postgresql_are_replicas_that_count_together(
    town: Town, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POINTSMAN_STORE", postgres_url)
    town.openai.then(calls(("weather", {})), says("cold"))
    with crew(town.home) as found:
        one, two = found.at(1), found.at(2)
        first = asked(one, [ASK], **MINE)
        told = asked(two, LOOP, **MINE)
        assert told.headers["x-pointsman-policy"] == "turn_lock"
        assert told.headers["x-pointsman-turn"] == first.headers["x-pointsman-turn"]
        assert one.post("/api/sessions/mine/pin", {"model": "small"}).status_code == 200
        assert two.chat("two", **MINE).headers["x-pointsman-policy"] == "manual_sticky"
        few = made(one, limits={"rpm": 3})
        statuses = [live.chat("hello", headers=few).status_code for live in (one, two) * 3]
        assert statuses == [200] * 3 + [429] * 3
        refused = 'pointsman_requests_total{endpoint="chat",status="429"} 3'
        for live in (one, two):
            eventually(lambda live=live: refused in live.get("/metrics", **ADMIN).text)  # type: ignore[misc]
        assert found.kill_worker() in {1, 2}
        replicas = one if is_there(one) else two
        ready = replicas.get("/health/readiness").json()
        assert ready["status"] == "ok"
    assert verify_ledger(open_home(town.home)).is_intact


def is_there(live: Running) -> bool:
    """Tell whether the worker at the other end of a connection still lives."""
    try:
        return live.get("/health").status_code == 200
    except httpx.HTTPError:
        return False
