"""Budgets over HTTP: how they stand, and writing them into the policy."""

from __future__ import annotations

import json

from tests.gateway.conftest import Town
from tests.gateway.house import Running
from tests.gateway.town import ADMIN

DAY = {"name": "day", "limit_usd": "1.50"}


def test_a_budget_is_written_holds_and_is_taken_out(town: Town, live: Running) -> None:
    told = live.post("/api/budgets", DAY, **ADMIN)
    assert told.status_code == 200
    row = told.json()["budgets"][0]
    assert (row["name"], row["limit_usd"], row["left_usd"]) == ("day", "1.5", "1.5")
    kept = json.loads((town.home / "routing.yaml").read_text())
    assert kept["budgets"] == [{"name": "day", "limit_usd": "1.50", "per": "day", "each": "all"}]
    live.chat("one")
    live.outcomes(1)
    left = live.get("/api/budgets").json()["budgets"][0]["left_usd"]
    assert 0 < float(left) < 1.5
    live.post("/api/budgets", {**DAY, "limit_usd": 0}, **ADMIN)
    assert live.chat("two").status_code == 402
    gone = live.client.delete("/api/budgets/day", headers=ADMIN)
    assert gone.json() == {"budgets": []}
    assert live.client.delete("/api/budgets/day", headers=ADMIN).status_code == 404


def test_only_admins_write_budgets_and_only_valid_ones(live: Running) -> None:
    assert live.post("/api/budgets", DAY).status_code == 401
    assert live.post("/api/budgets", {**DAY, "limit_usd": -1}, **ADMIN).status_code == 400
    assert live.post("/api/budgets", {**DAY, "per": "year"}, **ADMIN).status_code == 400
    assert live.get("/api/budgets").json() == {"budgets": []}


def test_the_budget_of_a_key_is_told_with_its_key(live: Running) -> None:
    body = {"name": "k", "scopes": ["models"], "budgets": [{"limit_usd": 2, "per": "month"}]}
    key = live.post("/api/keys", body, **ADMIN).json()
    rows = live.get("/api/budgets", **ADMIN).json()["budgets"]
    assert [(each["key_id"], each["left_usd"], each["per"]) for each in rows] == [
        (key["id"], "2", "month")
    ]
