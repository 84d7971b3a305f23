"""A gateway whose policy is published in the ledger: over HTTP, in its readiness and its log."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import httpx2 as httpx
import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, eventually, running

from pointsman.app import Pointsman
from pointsman.recording.decision_recorder import POLICY_REFUSED
from pointsman.storage.policies.publications import PUBLISHED
from pointsman.storage.sqlite.database import SQL

BIG = {"schema_version": 1, "global_default": "open:big"}
SMALL = {"schema_version": 1, "global_default": "open:small"}


@pytest.fixture
def follower(town: Town) -> Town:
    (town.home / "pointsman.yaml").write_text('{"policy": {"source": "ledger"}}')
    return town


def put(live: Running, value: dict[str, Any], **headers: str) -> httpx.Response:
    named = {"authorization": f"Bearer {live.admin}"}
    named |= {name.replace("_", "-"): each for name, each in headers.items()}
    return live.client.put("/api/policies/routing.yaml", content=json.dumps(value), headers=named)


def policy(live: Running) -> dict[str, Any]:
    found: dict[str, Any] = live.get("/health/readiness").json()["policy"]
    return found


def test_a_policy_put_is_published_and_takes_the_next_turn(follower: Town) -> None:
    with running(follower.home) as live:
        before = policy(live)
        assert before["source"] == "files"
        assert "nothing is published yet" in before["notice"]
        told = put(live, SMALL).json()
        assert live.chat().headers["x-pointsman-model"] == "open:small"
        after = policy(live)
        assert (after["source"], after["number"]) == ("ledger", 1)
        assert after["policy_id"] == told["policy_id"] != before["policy_id"]
        assert after["publication_id"] == told["publication_id"]
        assert len(live.entries(PUBLISHED)) == 1
    assert json.loads((follower.home / "routing.yaml").read_text()) == BIG
    with running(follower.home) as live:
        assert live.chat().headers["x-pointsman-model"] == "open:small"


def test_who_has_seen_another_publication_is_refused(follower: Town) -> None:
    with running(follower.home) as live:
        seen = put(live, SMALL).json()["publication_id"]
        put(live, BIG)
        late = put(live, SMALL, if_match=f'"{seen}"')
        assert late.status_code == 409
        assert late.json()["error_code"] == "policy.moved"
        assert policy(live)["number"] == 2
        headers = {"authorization": f"Bearer {live.admin}"}
        found = live.get("/api/policies/routing.yaml", **headers).json()
        assert json.loads(found["text"]) == BIG
        assert put(live, SMALL, if_match=found["publication_id"]).status_code == 200


def test_what_does_not_fit_the_other_files_is_not_published(follower: Town) -> None:
    with running(follower.home) as live:
        refused = put(live, {"schema_version": 1, "global_default": "open:none"})
        assert refused.status_code == 400
        assert live.entries(PUBLISHED) == []


def test_a_budget_is_written_by_publishing(follower: Town) -> None:
    with running(follower.home) as live:
        headers = {"authorization": f"Bearer {live.admin}"}
        body = {"name": "a day", "limit_usd": "5.00", "per": "day", "each": "all"}
        assert live.post("/api/budgets", body, **headers).status_code == 200
        (found,) = live.get("/api/budgets", **headers).json()["budgets"]
        assert found["name"] == "a day"
        assert policy(live)["source"] == "ledger"


def test_what_another_process_publishes_is_followed_without_a_restart(follower: Town) -> None:
    with running(follower.home) as live, Pointsman(follower.home) as other:
        (follower.home / "routing.yaml").write_text(json.dumps(SMALL))
        other.publish(other.publishing().candidate(), "anna")
        eventually(lambda: live.chat().headers["x-pointsman-model"] == "open:small", seconds=30)


def test_a_forged_publication_is_told_in_readiness_the_log_and_the_ledger(
    follower: Town, capfd: pytest.CaptureFixture[str]
) -> None:
    with running(follower.home) as live:
        put(live, SMALL)
        database = live.parts.pointsman.home.database
        with closing(database.writing("schema.sql")) as connection:
            connection.execute(SQL["add_chain"], ("forged",))
            number = connection.execute(SQL["find_chain"], ("forged",)).get
            (announced,) = live.entries(PUBLISHED)
            payload = announced.payload.replace(b'"number":1', b'"number":2')
            row = (number, 0, 1, PUBLISHED, "forged", "", payload, b"", b"p", b"h")
            connection.execute(SQL["append_entry"], row)
        told = eventually(lambda: live.get("/health/readiness").json()["configuration"])
        assert "says other than its entry" in told[0]
        assert policy(live)["number"] == 1
        assert live.chat().headers["x-pointsman-model"] == "open:small"
        (refused,) = live.entries(POLICY_REFUSED)
        assert refused.ref == "forged"
    lines = [
        json.loads(each) for each in capfd.readouterr().err.splitlines() if "policy_id" in each
    ]
    assert [each["event"] for each in lines] == ["policy", "policy_refused"]


def test_with_files_the_policy_is_told_as_before(town: Town) -> None:
    with running(town.home) as live:
        found = policy(live)
        assert found == {
            "source": "files",
            "policy_id": live.parts.pointsman.in_force().policy_id,
            "placement_id": live.parts.pointsman.in_force().placement_id,
        }
        assert put(live, SMALL).json()["publication_id"] is None
        assert live.entries(PUBLISHED) == []


def test_replicas_with_files_of_their_own_still_refuse_to_change_one_alone(
    town: Town, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POINTSMAN_STORE", postgres_url)
    with running(town.home) as live:
        refused = put(live, SMALL)
        assert refused.status_code == 409
        assert refused.json()["error_code"] == "policy.elsewhere"
        assert live.chat().headers["x-pointsman-model"] == "open:big"
