"""Sessions over HTTP: listed with what became of them, pinned, and let go again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, keeps, running, write_home
from tests.gateway.town import ADMIN

from pointsman.testing.upstream_replies import fails

MINE = {"headers": {"x-session-id": "mine"}}


def session(live: Running, name: str = "mine") -> dict[str, object]:
    found = live.get("/api/sessions").json()["sessions"]
    return next(each for each in found if each["session_id"] == name)


def test_a_session_is_listed_with_its_turns_and_models(live: Running) -> None:
    live.chat("one", **MINE)
    live.chat("two", "small", **MINE)
    live.outcomes(2)
    live.parts.budgets._book.flush()
    found = session(live)
    assert (found["turns"], found["model"], found["model_switches"]) == (2, "open:small", 1)
    assert found["taint"] is found["pinned_model"] is None
    assert found["calls"] == 2
    assert float(str(found["cost_usd"])) > 0


def test_a_fallback_counts_as_such(town: Town) -> None:
    write_home(
        town.home,
        routing={
            "schema_version": 1,
            "global_default": "house:llama",
            "rules": [{"when": {"message_matches": "one"}, "use": "open:big", "name": "big"}],
        },
    )
    town.openai.then(fails(500), fails(500), fails(500))
    with running(town.home) as live:
        live.chat("one", **MINE)
        found = session(live)
    assert (found["turns"], found["fallbacks"], found["model"]) == (1, 1, "house:llama")


def test_a_pinned_session_keeps_its_model_until_it_is_unpinned(
    town: Town, serve: Callable[[Path], Running]
) -> None:
    with running(town.home) as live:
        assert live.chat("one", **MINE).headers["x-pointsman-model"] == "open:big"
        told = live.post("/api/sessions/mine/pin", {"model": "small"})
        assert told.json() == {"session_id": "mine", "pinned_model": "open:small"}
        answer = live.chat("two", **MINE)
        assert answer.headers["x-pointsman-model"] == "open:small"
        assert answer.headers["x-pointsman-policy"] == "manual_sticky"
    live = serve(town.home)
    assert live.chat("three", **MINE).headers["x-pointsman-model"] == "open:small"
    assert session(live)["pinned_model"] == "open:small"
    assert live.client.delete("/api/sessions/mine/pin").json()["pinned_model"] is None
    assert live.chat("four", **MINE).headers["x-pointsman-model"] == "open:big"
    assert live.client.delete("/api/sessions/mine/pin").status_code == 404
    kinds = [each.kind for each in live.entries("event.session.")]
    assert kinds == ["event.session.pinned", "event.session.unpinned"]


@pytest.mark.parametrize(("model", "status"), [("auto", 400), ("nobody", 404)])
def test_a_session_is_bound_to_a_model_that_there_is(
    live: Running, model: str, status: int
) -> None:
    assert live.post("/api/sessions/mine/pin", {"model": model}).status_code == status


def test_a_key_reaches_its_own_sessions_and_no_others(live: Running) -> None:
    body = {"name": "one", "scopes": ["models", "act", "read"]}
    one = live.post("/api/keys", body, **ADMIN).json()
    two = live.post("/api/keys", {**body, "name": "two"}, **ADMIN).json()
    bearer = [{"authorization": f"Bearer {each['key']}"} for each in (one, two)]
    told = live.post("/api/sessions/mine/pin", {"model": "small"}, **bearer[0]).json()
    assert told["session_id"] == f"{one['id']}/mine"
    foreign = live.post(f"/api/sessions/{one['id']}%2Fmine/pin", {"model": "big"}, **bearer[1])
    assert (foreign.status_code, foreign.json()["error_code"]) == (404, "input.not_found")
    headers = [{**each, "x-session-id": "mine"} for each in bearer]
    models = [live.chat("hi", headers=each).headers["x-pointsman-model"] for each in headers]
    assert models == ["open:small", "open:big"]
    admin = live.post(f"/api/sessions/{one['id']}%2Fmine/pin", {"model": "llama"}, **ADMIN)
    assert admin.json()["session_id"] == f"{one['id']}/mine"


def test_a_taint_is_shown_and_cleared_with_a_reason(town: Town) -> None:
    write_home(town.home, placement=keeps("secret"))
    with running(town.home) as live:
        private = {"headers": {"x-session-id": "mine", "x-pointsman-privacy": "local"}}
        assert live.chat("mine alone", "llama", **private).status_code == 200
        assert session(live)["taint"]["rule_id"] == "PRIVACY_LOCAL"
        assert live.post("/api/sessions/mine/clear-taint", {}).status_code == 400
        cleared = live.post("/api/sessions/mine/clear-taint", {"reason": "it was a test"})
        assert cleared.json()["rule_id"] == "PRIVACY_LOCAL"
        assert session(live)["taint"] is None
        again = live.post("/api/sessions/mine/clear-taint", {"reason": "again"})
        assert again.status_code == 404
