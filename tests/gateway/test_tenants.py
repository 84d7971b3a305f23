"""Keys belong to tenants: what one tenant does, another neither sees nor changes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, eventually, keeps, running, write_home
from tests.gateway.test_api_events import Follower
from tests.gateway.test_keys_over_http import bearer, made

from pointsman.audit.turn_catalog import TurnCatalog
from pointsman.kernel.record import read_recorded
from pointsman.providers.messages import Usage
from pointsman.storage.stores.turn_index import Wanted
from pointsman.testing import says


def tenants_recorded(live: Running) -> list[object]:
    return [read_recorded(each.payload)[2].tenant for each in live.entries("decision.turn")]


def test_each_decision_names_the_tenant_of_the_key_that_asked(live: Running) -> None:
    own, ours = made(live), made(live, tenant="acme")
    keys = live.get("/api/keys", **bearer(live.admin)).json()["keys"]
    assert [each["tenant"] for each in keys] == [keys[0]["id"], "acme"]
    for headers in (own, ours):
        assert live.chat("hello", headers=headers).status_code == 200
    assert tenants_recorded(live) == [keys[0]["id"], "acme"]


def test_turns_and_their_sums_are_found_by_tenant(live: Running) -> None:
    one, other = made(live, tenant="acme"), made(live, tenant="globex")
    for headers in (one, one, other):
        assert live.chat("hello", headers=headers).status_code == 200
    catalog = TurnCatalog(live.parts.pointsman.home)
    index, behind = catalog.look()
    try:
        assert behind == 0
        for tenant, turns in (("acme", 2), ("globex", 1), ("initech", 0), (None, 3)):
            assert len(index.turns(Wanted(tenant=tenant), 10)) == turns
            assert index.count(tenant) == turns
            assert sum(each.turns for each in index.buckets(0, tenant)) == turns
            sessions = {"acme": 1, "globex": 1, "initech": 0, None: 2}[tenant]
            assert len(index.sessions(10, tenant=tenant)) == sessions
    finally:
        catalog.close()


@pytest.mark.parametrize("name", ["-acme", "a b", "a/b", "é", "x" * 65])
def test_a_tenants_name_is_short_and_plain(live: Running, name: str) -> None:
    told = live.post("/api/keys", {"name": "test", "tenant": name}, **bearer(live.admin))
    assert told.status_code == 400


def test_the_live_feed_tells_each_tenant_its_own(town: Town) -> None:
    write_home(town.home, placement=keeps("secret"))
    with running(town.home) as live:
        acme = made(live, scopes=["models", "read", "act"], tenant="acme")
        globex = made(live, scopes=["models", "read", "act"], tenant="globex")
        auditor = made(live, role="auditor")
        readers = [Follower(live, each) for each in (acme, globex, auditor)]
        for headers, model in ((acme, "small"), (globex, "opus")):
            kept = {**headers, "x-session-id": "kept", "x-pointsman-privacy": "local"}
            assert live.chat("mine", "llama", headers=kept).status_code == 200
            turn = live.chat("hello", model, headers=headers).headers["x-pointsman-turn"]
            live.post("/api/sessions/work/pin", {"model": model}, **headers)
            live.post("/api/feedback", {"turn_id": turn, "thumbs": "up"}, **headers)
        for reader in readers:
            reader.counted("feedback.given", 2 if reader is readers[2] else 1)
        told_of = [sorted(name for name, _ in reader.events()) for reader in readers]
        assert told_of[0] == told_of[1]
        assert sorted(told_of[0] + told_of[1]) == told_of[2]
        assert {"placement.tainted", "session.pinned", "call.ended"} <= {*told_of[0]}
        for one, other in pairwise(readers[:2]):
            assert not {*one.lines} & {line for line in other.lines if line.startswith("id: ")}


def test_cost_and_budgets_are_those_of_the_tenant(town: Town) -> None:
    caps = [{"name": "each", "limit_usd": "1", "per": "day", "each": "tenant"}]
    routing = {"schema_version": 1, "global_default": "open:big", "budgets": caps}
    write_home(town.home, routing=routing)
    with running(town.home) as live:
        acme = made(live, scopes=["models", "read"], tenant="acme")
        globex = made(live, scopes=["models", "read"], tenant="globex")
        assert live.chat("hello", headers=acme).status_code == 200
        by_tenant = eventually(lambda: live.get("/api/cost", **acme).json()["by_tenant"])
        assert [each["what"] for each in by_tenant] == ["acme"]
        assert set(map(str, live.get("/api/cost", **globex).json().values())) == {"[]"}
        left = [live.get("/api/budgets", **each).json()["budgets"] for each in (acme, globex)]
        assert float(left[0][0]["left_usd"]) < 1 == float(left[1][0]["left_usd"])


def test_a_budget_for_each_tenant_binds_all_keys_of_one(town: Town) -> None:
    caps = [{"name": "each", "limit_usd": "0.01", "per": "day", "each": "tenant"}]
    routing = {"schema_version": 1, "global_default": "open:big", "budgets": caps}
    write_home(town.home, routing=routing)
    with running(town.home) as live:
        keys = [made(live, tenant=name) for name in ("acme", "acme", "globex")]
        town.openai.then(says("dear", usage=Usage(9_000, 900)))
        told = [live.chat("hello", headers=each, max_tokens=1000) for each in keys]
        assert [each.status_code for each in told] == [200, 402, 200]
        assert "budget each has" in told[1].json()["error"]["message"]
