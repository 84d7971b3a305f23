"""The product's own routes: what was decided, what would be, and whether the record holds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.gateway.conftest import Town
from tests.gateway.house import Running, eventually, model, write_home

from pointsman.cli.main import main
from pointsman.testing import fails

SAMPLE = re.compile(r'[a-z_]+(\{([a-z_]+="(\\.|[^"\\])*",?)*\})? -?[0-9.e+]+(Inf)?')


def admin(live: Running) -> dict[str, str]:
    return {"authorization": f"Bearer {live.admin}"}


def told_by(home: Path, *words: str, given: str = "") -> Any:
    done = CliRunner().invoke(main, [*words, "--home", str(home), "--json"], input=given)
    return json.loads(done.stdout)


def test_turns_are_listed_newest_first_and_each_says_why(town: Town, live: Running) -> None:
    first = live.chat("hello", headers={"x-session-id": "s-1"})
    second = live.chat("@small hello", headers={"x-session-id": "s-1"})
    rows = live.get("/api/turns").json()["turns"]
    assert [row["turn_id"] for row in rows] == [
        second.headers["x-pointsman-turn"],
        first.headers["x-pointsman-turn"],
    ]
    assert rows[0]["policy"] == "per_message_override"
    assert {row["session_id"] for row in rows} == {"s-1"}
    assert len(live.get("/api/turns?limit=1").json()["turns"]) == 1
    shown = live.get(f"/api/turns/{second.headers['x-pointsman-turn']}").json()
    assert shown["chosen_model"] == "open:small"
    assert shown["decision_id"] == second.headers["x-pointsman-decision"]
    lines = shown["why"].splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_a_turn_nobody_knows_is_404(live: Running) -> None:
    live.chat("hello")
    told = live.get("/api/turns/nobody")
    assert told.status_code == 404
    assert set(told.json()) >= {"error_code", "status", "severity", "user_message", "meta"}


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "many", "1e3"])
def test_a_limit_out_of_bounds_is_refused(live: Running, limit: str) -> None:
    assert live.get(f"/api/turns?limit={limit}").status_code == 400


PLACEMENT = {
    "question": {
        "id": "q1", "session_id": "s", "content": "hello", "privacy_level": "auto",
        "timestamp": "2026-01-01T00:00:00Z",
    },
    "state": {
        "local_model": {
            "model_name": "m", "supported_intents": ["informational"], "available": True,
        },
        "cloud_model": {"model_name": "c"}, "network_state": "online", "token_count": 12,
    },
}  # fmt: skip


def test_a_placement_is_the_one_the_command_gives(town: Town, live: Running) -> None:
    told = live.post("/api/place", PLACEMENT).json()
    same = told_by(town.home, "place", "--facts", "-", given=json.dumps(PLACEMENT))
    for volatile in ("decision_id", "elapsed_ms"):
        told.pop(volatile, None)
        same.pop(volatile, None)
    assert told == same


def test_a_preview_is_the_decision_the_command_gives_and_calls_nobody(
    town: Town, live: Running
) -> None:
    facts = {"message": "@small hello"}
    told = live.post("/api/route/preview", facts).json()
    same = told_by(town.home, "route", "--facts", "-", given=json.dumps(facts))
    assert told["chosen_model"] == same["chosen_model"] == "open:small"
    assert told["chain"] == same["chain"]
    assert told["facts_id"] == same["facts_id"]
    assert not town.openai.requests
    assert live.get("/api/turns").json()["turns"][-1]["is_preview"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"message": 5}', b'{"nobody": 1}'])
def test_facts_that_cannot_be_read_are_refused_with_their_place(live: Running, body: bytes) -> None:
    assert live.post("/api/route/preview", body).status_code == 400


def test_what_was_spent_is_told_by_model(live: Running) -> None:
    live.chat("hello", model="open:big")
    live.outcomes(1)
    told = eventually(lambda: live.get("/api/cost").json().get("by_model"))
    assert "open:big" in json.dumps(told)


def test_providers_tell_what_is_out_and_until_when(town: Town, live: Running) -> None:
    town.openai.then(fails(401, "authentication_error"))
    live.chat("hello", model="open:big")
    live.outcomes(1)
    rows = live.get("/api/providers").json()["rows"]
    out = [row for row in rows if "unavailable" in json.dumps(row)]
    assert out
    assert "open" in json.dumps(out)


def test_what_is_recorded_verifies_and_replays(live: Running) -> None:
    for _ in range(3):
        live.chat("hello")
    live.outcomes(3)
    assert live.post("/api/verify", {}).json()["intact"] is True
    report = live.post("/api/replay", {}).json()
    assert (report["identical"], report["diverged"], report["unable"]) == (3, 0, 0)


def test_a_policy_can_be_read_and_replaced(town: Town, live: Running) -> None:
    before = live.get("/api/policies/routing.yaml", **admin(live)).json()
    assert "open:big" in before["text"]
    text = b"schema_version: 1\nglobal_default: open:small\n"
    told = live.client.put("/api/policies/routing.yaml", content=text, headers=admin(live))
    assert told.status_code == 200
    assert live.chat("hello").headers["x-pointsman-model"] == "open:small"
    assert live.get("/api/policies/other.yaml", **admin(live)).status_code == 404


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("routing.yaml", b"schema_version: 1\nglobal_default: open:nobody\n"),
        ("routing.yaml", b"rules: ["),
        ("models.yaml", b"schema_version: 2\n"),
        ("placement.yaml", b"rules: []\n"),
    ],
)
def test_an_invalid_candidate_changes_nothing(
    town: Town, live: Running, name: str, text: bytes
) -> None:
    path = town.home / name
    before = path.read_bytes() if path.exists() else None
    told = live.client.put(f"/api/policies/{name}", content=text, headers=admin(live))
    assert told.status_code == 400
    assert name in told.text
    assert (path.read_bytes() if path.exists() else None) == before
    assert live.chat("hello").headers["x-pointsman-model"] == "open:big"


def test_an_edit_of_the_models_counts_without_a_restart(town: Town, live: Running) -> None:
    assert live.chat("hello", model="open:new").status_code == 404
    town.models["models"]["open:new"] = model()
    write_home(town.home, models=town.models)
    eventually(lambda: live.chat("hello", model="open:new").status_code == 200)
    assert town.openai.requests[-1].json["model"] == "new"
    assert "open:new" in [each["id"] for each in live.get("/v1/models").json()["data"]]


def test_names_that_agents_send_are_mapped(town: Town, live: Running) -> None:
    told = live.chat("hello", model="gpt-5.1-codex")
    assert told.headers["x-pointsman-requested-model"] == "gpt-5.1-codex"
    assert told.headers["x-pointsman-model"] == "open:big"
    assert live.chat("hello", model="claude-x").headers["x-pointsman-model"] == "claude:opus"
    assert live.chat("hello", model="open/big").headers["x-pointsman-model"] == "open:big"


def test_metrics_are_what_prometheus_reads(town: Town, live: Running) -> None:
    live.chat("hello")
    live.chat('hello "quoted"', model="nobody")
    live.outcomes(1)
    told = live.get("/metrics")
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = told.text.splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert [line for line in samples if not SAMPLE.fullmatch(line)] == []
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    names = {re.sub(r"_(bucket|sum|count)$", "", re.split(r"[ {]", each)[0]) for each in samples}
    assert names <= typed
    assert 'pointsman_decisions_total{model="open:big",policy="global_default"} 1' in lines


def test_it_says_that_it_lives_and_that_it_is_ready(live: Running) -> None:
    assert live.get("/health").json()["status"] == "ok"
    ready = live.get("/health/readiness")
    assert ready.status_code == 200
    assert ready.json()["ledger"]["writable"] is True
