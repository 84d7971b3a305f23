"""The gateway with all it keeps in PostgreSQL: the same answers, and honest when that is down."""

from __future__ import annotations

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import eventually, running
from tests.servers import PostgresServer

from pointsman.runs.verify import verify_ledger
from pointsman.storage.home import open_home

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
