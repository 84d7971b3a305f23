"""What on-call and finance ask: how turns went, what callers were told, what was spent."""

from __future__ import annotations

import json
import random
from contextlib import closing
from pathlib import Path

import pytest
from tests.gateway.house import eventually, model, provider, running, upstream, write_home

from pointsman.audit.turn_catalog import TURNS_FILE
from pointsman.gateway.api.turns.overview import MOST_TURNS, performance
from pointsman.kernel.instant import DAY, Instant
from pointsman.storage.stores.turn_index import EndedTurn, Mark, opened_index
from pointsman.storage.stores.turn_rows import CallMade, LaterMade, TurnMade
from pointsman.testing import fails, says


def test_percentiles_are_values_that_exist_by_nearest_rank() -> None:
    took = [*range(1000, 101_000, 1000)]
    random.Random(3).shuffle(took)
    rows = [EndedTurn("north:large", "done", 0, each, each // 2, 5) for each in took]
    rows += [EndedTurn("north:small", "failed", 1, 9_000_000, 0, 0)]
    found = performance(rows, Instant(0), Instant(1), 0)
    large, small = found.by_model
    assert large.took is not None
    assert (large.took.p50_ms, large.took.p95_ms, large.took.p99_ms) == (50.0, 95.0, 99.0)
    assert large.first_byte is not None
    assert large.first_byte.p99_ms == 49.5
    assert (large.turns, large.failed, large.cost_microusd) == (100, 0, 500)
    # The time of a turn that failed says nothing about how long answers take.
    assert (small.failed, small.fallbacks, small.took) == (1, 1, None)
    assert [(each.name, each.turns) for each in found.by_provider] == [("north", 101)]
    assert found.total.turns == 101
    assert not found.is_cut


def test_more_turns_than_are_looked_at_are_said_to_be_cut() -> None:
    rows = [EndedTurn("a:b", "done", 0, 1, 1, 1)] * (MOST_TURNS + 1)
    found = performance(rows, Instant(0), Instant(1), 0)
    assert found.is_cut
    assert found.total.turns == MOST_TURNS


def test_index_keeps_the_first_byte_of_the_call_that_answered(tmp_path: Path) -> None:
    def made(name: str, policy: str, at: int, tenant: str = "") -> TurnMade:
        names = (f"t-{name}", f"d-{name}", "s", "n:m1", policy, "", "/w", "x", "", "")
        return TurnMade(Instant(at), *names, 0, False, False, (), tenant)

    rows = [
        made("a", "pattern", 100),
        CallMade("d-a", "n:m1", True, "network", 0, 0, 0, 7, 3),
        LaterMade("t-a", "f-a", "n:m2"),
        CallMade("f-a", "n:m2", False, "", 40, 10, 20, 50, 30),
        made("b", "rule", 200, "acme"),
        CallMade("d-b", "n:m1", False, "", 4, 1, 2, 60, 5),
    ]
    with closing(opened_index(tmp_path / TURNS_FILE)) as index:
        index.take("serve-1", Mark(6, b""), rows)
        everything = index.ended_turns(Instant(0), Instant(DAY), None, 10)
        assert [(each.model, each.state, each.first_byte_us) for each in everything] == [
            ("n:m1", "done", 5),
            ("n:m2", "fallback", 30),
        ]
        assert index.ended_turns(Instant(200), Instant(DAY), None, 10) == everything[:1]
        assert index.ended_turns(Instant(0), Instant(200), None, 10) == everything[1:]
        assert index.ended_turns(Instant(0), Instant(DAY), "acme", 10) == everything[:1]
        (learned,) = index.learned_turns(Instant(0), Instant(DAY), None)
        assert (learned.model, learned.turns, learned.cost_microusd) == ("n:m2", 1, 40)
        assert (learned.input_tokens, learned.output_tokens) == (10, 20)
        assert index.learned_turns(Instant(0), Instant(DAY), "acme") == []


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_a_recorded_failure_says_what_its_caller_was_told(home: Path) -> None:
    with upstream(otherwise=says("hello")) as north:
        write_home(
            home,
            models={
                "schema_version": 1,
                "providers": {"north": provider("openai", north.url)},
                "models": {"north:large": model(), "north:small": model()},
            },
            routing={
                "schema_version": 1,
                "global_default": "north:large",
                "rules": [
                    {"name": "x", "when": {"message_matches": "^few"}, "use": "north:small"},
                ],
                "budgets": [{"name": "none", "limit_usd": 0.000001, "each": "session"}],
            },
        )
        with running(home) as live:
            refused = live.chat("hello")
            assert refused.status_code == 402
            turn = eventually(lambda: live.get("/api/turns/last").json())
            told = live.get(f"/api/turns/{turn['turn_id']}/record").json()["caller_told"]
    said = json.loads(refused.text)["error"]
    assert told["status"] == 402
    assert told["code"] == "routing.over_budget"
    assert said["message"].startswith(told["message"])


@pytest.mark.parametrize("status", [400, 500])
def test_a_failure_of_every_provider_says_the_status_its_caller_got(
    home: Path, status: int
) -> None:
    with upstream(otherwise=fails(status)) as north:
        write_home(
            home,
            models={
                "schema_version": 1,
                "providers": {"north": provider("openai", north.url)},
                "models": {"north:large": model()},
            },
            routing={"schema_version": 1, "global_default": "north:large"},
        )
        with running(home) as live:
            answer = live.chat("hello")
            live.outcomes(1)
            turn = live.get("/api/turns/last").json()
            record = live.get(f"/api/turns/{turn['turn_id']}/record").json()
            rows = eventually(lambda: live.get("/api/performance").json()["by_model"])
    assert answer.status_code >= 400
    assert record["caller_told"]["status"] == answer.status_code
    assert (rows[0]["name"], rows[0]["turns"], rows[0]["failed"]) == ("north:large", 1, 1)


def test_cost_is_told_for_days_sessions_and_workspaces(home: Path) -> None:
    with upstream(otherwise=says("hello")) as north:
        write_home(
            home,
            models={
                "schema_version": 1,
                "providers": {"north": provider("openai", north.url)},
                "models": {"north:large": model()},
            },
            routing={"schema_version": 1, "global_default": "north:large"},
        )
        with running(home) as live:
            for session in ("one", "two", "two"):
                assert live.chat("hello", headers={"x-session-id": session}).status_code == 200

            def sessions(query: str = "") -> dict[str, int]:
                rows = live.get(f"/api/cost{query}").json().get("by_session", [])
                return {each["what"]: each["amounts"][0] for each in rows}

            eventually(lambda: sum(sessions().values()) == 3 or None)
            whole = sessions()
            two = next(name for name, calls in whole.items() if calls == 2)
            assert sessions(f"?session={two}") == {two: 2}
            assert sessions("?since=2999-01-01T00:00:00Z") == {}
            assert sessions("?before=2000-01-01T00:00:00Z") == {}
            assert sessions("?since=2000-01-01T00:00:00Z") == whole
            assert live.get("/api/performance").json()["total"]["turns"] == 3
            assert live.get("/api/performance?since=yesterday").status_code == 400
            assert live.get("/api/learning").json()["turns"] == 0
