"""Requests and tokens a minute and calls at one time, for a key and for its tenant."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, eventually, running, stalls, write_home
from tests.gateway.test_keys_over_http import made

from pointsman.access.book import HomeBook
from pointsman.errors import CallerLimited, DocumentError
from pointsman.kernel.instant import SECOND, Instant
from pointsman.providers.messages import Usage
from pointsman.recording.key_limits import HomeLimits, KeyLimiter, LimitStore, MemoryLimits
from pointsman.recording.machine import SystemClock, Ulids
from pointsman.storage.home import open_home
from pointsman.storage.policies.settings import NO_TERMS, RateTerms, read_settings
from pointsman.testing import says

NOW = Instant(1_800_000_000 * SECOND)
IDS = Ulids(SystemClock())


@pytest.fixture(params=["memory", "home"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[LimitStore]]:
    """Two views of what is counted: of two processes, where a home counts it."""
    with ExitStack() as stack:
        if request.param == "memory":
            yield [MemoryLimits()] * 2
            return
        home = open_home(tmp_path / "home")
        books = [HomeBook(home, name) for name in ("serve", "serve-2")]
        yield [HomeLimits(stack.enter_context(closing(book))) for book in books]


def limiters(stores: list[LimitStore], **tenants: RateTerms) -> list[KeyLimiter]:
    return [KeyLimiter(each, tenants, IDS) for each in stores]


def test_requests_a_minute_are_counted_over_processes(stores: list[LimitStore]) -> None:
    one, other = limiters(stores)
    terms = RateTerms(rpm=3)
    for each in (one, other, one):
        assert each.admit("k", "t", terms, NOW) is not None
    with pytest.raises(CallerLimited, match="3 requests a minute") as caught:
        other.admit("k", "t", terms, NOW)
    assert caught.value.retry_after_s == 20
    assert dict(caught.value.headers)["x-ratelimit-remaining-requests"] == "0"
    assert other.admit("k2", "t", terms, NOW) is not None
    assert other.admit("k", "t", terms, Instant(NOW + 20 * SECOND)) is not None


def test_tokens_count_when_a_call_has_ended(stores: list[LimitStore]) -> None:
    one, other = limiters(stores)
    terms = RateTerms(tpm=600)
    admission = one.admit("k", "t", terms, NOW)
    assert admission is not None
    one.finish(admission, 900, NOW)
    with pytest.raises(CallerLimited, match="600 tokens a minute") as caught:
        other.admit("k", "t", terms, NOW)
    assert caught.value.retry_after_s == 31
    assert other.admit("k", "t", terms, Instant(NOW + 31 * SECOND)) is not None


def test_calls_at_one_time_are_counted_for_the_tenant_too(stores: list[LimitStore]) -> None:
    one, other = limiters(stores, t=RateTerms(concurrent=2))
    held = [one.admit(key, "t", NO_TERMS, NOW) for key in ("a", "b")]
    with pytest.raises(CallerLimited, match="the tenant has 2 calls under way"):
        other.admit("c", "t", RateTerms(rpm=1), NOW)
    assert held[0] is not None
    one.finish(held[0], 0, NOW)
    # A refused call took nothing of the limit that it was within.
    assert other.admit("c", "t", RateTerms(rpm=1), NOW) is not None
    assert other.admit("a", "elsewhere", NO_TERMS, NOW) is None


def test_a_refused_call_gives_back_what_it_took(stores: list[LimitStore]) -> None:
    (one, _) = limiters(stores, t=RateTerms(rpm=1))
    own = RateTerms(rpm=2, concurrent=1)
    first = one.admit("a", "t", own, NOW)
    assert first is not None
    one.finish(first, 0, NOW)
    with pytest.raises(CallerLimited, match="the tenant may use 1 requests"):
        one.admit("a", "t", own, NOW)
    later = one.admit("a", "t", own, Instant(NOW + 60 * SECOND))
    assert later is not None


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
def test_past_its_limit_a_key_gets_429_with_the_vendors_headers(live: Running, path: str) -> None:
    own = made(live, limits={"rpm": 1})
    body = {"model": "llama", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    if path == "/v1/responses":
        body = {"model": "llama", "input": "hi"}
    assert live.post(path, body, **own).status_code == 200
    told = live.post(path, body, **own)
    assert told.status_code == 429, told.text
    assert 1 <= int(told.headers["retry-after"]) <= 60
    name = (
        "anthropic-ratelimit-requests-limit" if "messages" in path else "x-ratelimit-limit-requests"
    )
    assert told.headers[name] == "1"
    assert "x-should-retry" not in told.headers
    assert "1 requests a minute" in told.text


def test_a_tenants_limits_stand_in_the_settings(town: Town) -> None:
    write_home(town.home, pointsman={"tenants": {"acme": {"tpm": 100}, "*": {"rpm": 1}}})
    with running(town.home) as live:
        keys = [made(live, tenant=name) for name in ("acme", "acme", "globex")]
        town.local.scripted._otherwise = says("a", usage=Usage(90, 60))
        assert live.chat("hello", "llama", headers=keys[0]).status_code == 200
        assert live.chat("hello", "llama", headers=keys[1]).status_code == 429
        statuses = [live.chat("hello", "llama", headers=keys[2]).status_code for _ in range(2)]
        assert statuses == [200, 429]


def test_a_call_that_has_ended_or_was_left_counts_no_more(town: Town, live: Running) -> None:
    own = made(live, limits={"concurrent": 1})
    town.local.then(stalls("never to end"))
    body = {"model": "llama", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    with live.client.stream("POST", "/v1/chat/completions", json=body, headers=own) as told:
        pieces = told.iter_bytes()
        next(pieces)
        busy: list[int] = []
        thread = threading.Thread(
            target=lambda: busy.append(live.chat("hello", "llama", headers=own).status_code)
        )
        thread.start()
        thread.join(30)
        assert busy == [429]
    eventually(lambda: live.chat("hello", "llama", headers=own).status_code == 200)
    assert live.chat("hello", "llama", headers=own).status_code == 200


def test_a_tenants_models_bind_all_its_keys(town: Town) -> None:
    terms = {"acme": {"allowed_models": ["open/small", "house:llama"]}, "*": {"allowed_models": []}}
    write_home(town.home, pointsman={"tenants": terms})
    with running(town.home) as live:
        ours, narrow = (
            made(live, tenant="acme"),
            made(live, tenant="acme", allowed_models=["open:big", "house:llama"]),
        )
        for headers, reached in (
            (ours, {"open:small", "house:llama"}),
            (narrow, {"house:llama"}),
            (made(live), set()),
        ):
            for name in ("open:big", "open:small", "claude:opus", "house:llama"):
                status = live.chat("hello", model=name, headers=headers).status_code
                assert status == (200 if name in reached else 403), (name, reached)
            listed = live.get("/v1/models", **headers).json()["data"]
            assert {each["id"] for each in listed if ":" in each["id"]} <= reached
        # The default is a model that the tenant may not reach.
        assert live.chat("hello", headers=ours).status_code == 403


def test_a_tenants_model_must_be_an_id() -> None:
    with pytest.raises(DocumentError, match="`sonnet` is no id of a model"):
        read_settings(b"tenants: {acme: {allowed_models: [sonnet]}}", "pointsman.yaml")
