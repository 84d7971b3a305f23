"""Who may ask for what over HTTP, and what it may cost."""

from __future__ import annotations

import threading
from typing import Any

import httpx2 as httpx
import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, eventually, facts_of, running, write_home

from pointsman.access.keys import ENTROPY_BYTES, Key, key_token
from pointsman.kernel.instant import Instant
from pointsman.providers.messages import Usage
from pointsman.testing import FAULTS, says

READING = ["/api/turns", "/api/cost", "/api/providers", "/metrics"]
ADMIN_ROUTES = [
    ("GET", "/api/keys"),
    ("POST", "/api/keys"),
    ("DELETE", "/api/keys/someone"),
    ("GET", "/api/policies/routing.yaml"),
    ("PUT", "/api/policies/routing.yaml"),
]


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def made(live: Running, **terms: Any) -> dict[str, str]:
    """Make a key over HTTP, and give the header that carries it."""
    told = live.post("/api/keys", {"name": "test", **terms}, **bearer(live.admin))
    assert told.status_code == 201, told.text
    return bearer(told.json()["key"])


def test_without_any_key_this_machine_is_served_whatever_it_carries(live: Running) -> None:
    assert live.chat("hello").status_code == 200
    assert live.chat("hello", headers=bearer("sk-anything")).status_code == 200
    assert live.get("/api/turns").status_code == 200


def test_after_the_first_key_an_unknown_one_is_refused_and_none_too(live: Running) -> None:
    own = made(live)
    for headers in ({}, bearer("sk-anything"), {"x-api-key": "pk_nobody"}):
        told = live.chat("hello", headers=headers)
        assert told.status_code == 401
        assert "error" in told.json()
    assert live.chat("hello", headers=own).status_code == 200
    token = own["authorization"].removeprefix("Bearer ")
    assert live.chat("hello", headers={"x-api-key": token}).status_code == 200
    assert live.kinds().count("decision.turn") == 2


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/v1/responses"])
def test_a_refusal_has_the_vendors_shape(live: Running, path: str) -> None:
    made(live)
    told = live.post(path, {"model": "auto", "max_tokens": 9, "messages": []}).json()
    if path == "/v1/messages":
        assert (told["type"], told["error"]["type"]) == ("error", "authentication_error")
    else:
        assert told["error"]["message"]


def test_a_revoked_key_is_refused_at_once(live: Running) -> None:
    own = made(live)
    name = own["authorization"].removeprefix("Bearer pk_")[:16]
    assert live.client.delete(f"/api/keys/{name}", headers=bearer(live.admin)).status_code == 200
    assert live.chat("hello", headers=own).status_code == 401


def test_an_expired_key_is_refused(live: Running) -> None:
    name, token = key_token(bytes(ENTROPY_BYTES))
    now = live.parts.pointsman.clock.now()
    live.parts.keyring.create(Key(name, "old", now, expires_at=Instant(now - 1)), token)
    assert live.chat("hello", headers=bearer(token)).status_code == 401


@pytest.mark.parametrize("path", READING)
def test_reading_needs_its_scope(live: Running, path: str) -> None:
    callers, readers = made(live), made(live, scopes=["read"])
    assert live.get(path).status_code == 401
    assert live.get(path, **callers).status_code == 403
    assert live.get(path, **readers).status_code == 200
    assert live.chat("hello", headers=readers).status_code == 403


@pytest.mark.parametrize(("method", "path"), ADMIN_ROUTES)
def test_admin_routes_need_the_admin_also_while_there_is_no_key(
    live: Running, method: str, path: str
) -> None:
    assert live.client.request(method, path).status_code == 401
    others = made(live, scopes=["models", "read", "act"])
    assert live.client.request(method, path, headers=others).status_code == 403
    told = live.client.request(method, path, headers=bearer(live.admin))
    assert told.status_code not in (401, 403, 500)
    admins = made(live, scopes=["admin"])
    assert live.client.request(method, path, headers=admins).status_code == told.status_code


def test_a_key_uses_its_models_and_no_other(town: Town, live: Running) -> None:
    own = made(live, allowed_models=["open:small"])
    for name in ("open:big", "opus", "auto"):
        told = live.chat("hello", model=name, headers=own)
        assert told.status_code == 403, name
        assert told.json()["error"]["code"].endswith("not_permitted")
    assert live.chat("@big hello", model="auto", headers=own).status_code == 403
    assert live.chat("hello", model="open:small", headers=own).status_code == 200
    listed = [each["id"] for each in live.get("/v1/models", **own).json()["data"]]
    assert listed == ["auto", "open:small"]


def test_a_keys_privacy_keeps_its_calls_here(town: Town, live: Running) -> None:
    own = made(live, privacy="local")
    assert live.chat("hello", model="open:big", headers=own).status_code == 403
    assert live.chat("hello", model="llama", headers=own).status_code == 200
    assert not town.openai.requests


def test_a_keys_workspace_counts_unless_the_request_names_one(town: Town, live: Running) -> None:
    routing = {
        "schema_version": 1,
        "global_default": "open:big",
        "workspaces": {
            "/code/one": {"default": "open:small"},
            "/code/two": {"default": "claude:opus"},
        },
    }
    write_home(town.home, routing=routing)
    live.parts.pointsman.reload()
    own = made(live, workspace="/code/one")
    first = live.chat("hello", headers=own)
    assert first.headers["x-pointsman-model"] == "open:small"
    assert first.headers["x-pointsman-policy"] == "workspace_default"
    named = live.chat("hello", headers={**own, "x-pointsman-workspace": "/code/two"})
    assert named.headers["x-pointsman-model"] == "claude:opus"
    assert facts_of(town.home, named.headers["x-pointsman-decision"]).workspace_path == "/code/two"


def test_past_its_budget_a_key_gets_402_with_what_is_left_and_when_it_resets(
    town: Town, live: Running
) -> None:
    own = made(live, budgets=[{"limit_usd": "0.01", "per": "day"}])
    town.openai.then(says("dear", usage=Usage(9_000, 900)))
    assert live.chat("hello", headers=own, max_tokens=10).status_code == 200
    live.outcomes(1)
    told = live.chat("hello", headers=own, max_tokens=1000)
    assert told.status_code == 402
    message = told.json()["error"]["message"]
    assert "$0.0001 left" in message
    assert "T00:00:00" in message
    assert live.chat("hello", model="llama", headers=own).status_code == 200, (
        "free models cost none"
    )


def test_a_budget_admits_only_what_fits_however_many_ask_at_once(town: Town, live: Running) -> None:
    """Each call may cost up to $0.001 of its output; the budget holds three of them."""
    own = made(live, budgets=[{"limit_usd": "0.0031", "per": "day"}])
    town.openai.scripted._otherwise = says("a", usage=Usage(10, 990))
    together = threading.Barrier(8)
    statuses: list[int] = []

    def ask() -> None:
        body = {"model": "big", "max_tokens": 1000, "messages": [{"role": "user", "content": "a"}]}
        with httpx.Client(base_url=live.url, trust_env=False, timeout=60) as client:
            together.wait(60)
            statuses.append(client.post("/v1/chat/completions", json=body, headers=own).status_code)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    assert sorted(statuses) == [200] * 3 + [402] * 5
    assert len(town.openai.requests) == 3

    def charges() -> list[int]:
        # A call that its reservation refused has an outcome, too, and no charge.
        ends = [each["spent"] for each in live.outcomes(3)]
        return [each["cost_microusd"] for each in ends if each is not None]

    eventually(lambda: len(charges()) == 3)
    assert sum(charges()) <= 3_100


def test_cached_tokens_cost_what_cached_tokens_cost(town: Town, live: Running) -> None:
    used = Usage(1000, 100, cached_input_tokens=10_000, cache_creation_input_tokens=400)
    town.anthropic.then(says("x", usage=used))
    live.post("/v1/messages", {"model": "opus", "max_tokens": 200,
                               "messages": [{"role": "user", "content": "hi"}]})  # fmt: skip
    (end,) = live.outcomes(1)
    # 1,000 at $5, 100 at $5, 10,000 at $0.1 and 400 at $1.25 a million.
    assert end["spent"]["cost_microusd"] == 5000 + 500 + 1000 + 500
    assert end["spent"]["cached_input_tokens"] == 10_000


@pytest.mark.parametrize("is_stream", [False, True])
def test_usage_that_is_missing_is_estimated_and_flagged(
    town: Town, live: Running, is_stream: bool
) -> None:
    town.openai.then(FAULTS["usage_missing"].reply)
    live.chat("hello", model="big", stream=is_stream)
    (end,) = live.outcomes(1)
    assert end["spent"]["is_estimated"]
    assert end["spent"]["cost_microusd"] > 0


def test_what_was_spent_outlives_a_restart(town: Town) -> None:
    with running(town.home) as live:
        own = made(live, budgets=[{"limit_usd": "0.01", "per": "day"}])
        town.openai.then(says("dear", usage=Usage(9_900, 99)))
        live.chat("hello", headers=own, max_tokens=10)
        live.outcomes(1)
    with running(town.home) as live:
        assert live.chat("hello", headers=own, max_tokens=1000).status_code == 402


def test_a_listed_key_shows_no_secret(live: Running) -> None:
    own = made(live)
    secret = own["authorization"].rpartition("_")[2]
    listed = live.get("/api/keys", **bearer(live.admin))
    assert len(listed.json()["keys"]) == 1
    assert secret not in listed.text
