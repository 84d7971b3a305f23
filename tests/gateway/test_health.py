"""The health of providers is one truth for a home: other gateways, a restart, a clear, a trial."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import (
    Running,
    breaks_off,
    eventually,
    facts_of,
    provider,
    running,
    stalls,
    write_home,
)
from tests.gateway.town import ADMIN

from pointsman.app import SystemClock
from pointsman.kernel.instant import SECOND, Instant
from pointsman.recording.health import RECOVERED, RECOVERED_FORM, HomeHealth
from pointsman.storage.sqlite.place import SqlitePlace
from pointsman.storage.stores.health import HealthStore
from pointsman.testing import FrozenClock, fails
from pointsman.turns.registry.call_event import Result
from pointsman.turns.registry.provider_state import ProviderRecovered

RULED = {
    "schema_version": 1,
    "global_default": "house:llama",
    "rules": [{"name": "big", "when": {"message_matches": "^big"}, "use": "open:big"}],
}
MODELS = ("open:big", "open:small", "claude:opus", "house:llama")


@pytest.fixture
def home(town: Town) -> Path:
    """A home where `big …` goes to a provider that may fail, and all else to a local one."""
    return write_home(town.home, routing=RULED, pointsman={"availability": {"probe_after_s": 20}})


def failed(home: Path, result: Result, times: int, seconds_ago: int) -> None:
    """Have another process of the home see a provider fail, some time ago."""
    then = Instant(SystemClock().now() - seconds_ago * SECOND)
    store = HealthStore(SqlitePlace(home / "health.db"))
    health = HomeHealth(FrozenClock(then), store, "another")
    for _ in range(times):
        health.note_call_end("open:big", result, MODELS)
    health.close()


def rows(live: Running) -> dict[str, dict[str, Any]]:
    found = live.get("/api/providers").json()["rows"]
    return {f"{row['provider']} {row['model']}": row for row in found}


def model_of(live: Running, text: str = "big question") -> str:
    return live.chat(text).headers["x-pointsman-model"]


def test_another_gateway_of_the_home_sees_an_outage_at_its_next_turn(
    town: Town, home: Path, serve: Callable[[Path], Running]
) -> None:
    one, two = serve(home), serve(home)
    assert model_of(two) == "open:big"
    town.openai.then(fails(401, "authentication_error"))
    assert model_of(one) == "house:llama"
    asked = len(town.openai.requests)
    told = two.chat("big question")
    assert told.headers["x-pointsman-model"] == "house:llama"
    assert "x-pointsman-fallback-from" not in told.headers
    assert len(town.openai.requests) == asked
    seen = [rows(each)["open *"] for each in (one, two)]
    assert [(row["state"], row["cause"], row["clears_at"]) for row in seen] == [
        ("unavailable", "auth_error", seen[0]["clears_at"])
    ] * 2


def test_a_restart_keeps_an_outage(town: Town, home: Path) -> None:
    town.openai.then(fails(401, "authentication_error"))
    with running(home) as live:
        model_of(live)
    with running(home) as live:
        assert model_of(live) == "house:llama"
        assert rows(live)["open *"]["why"] == "key refused"
    assert len(town.openai.requests) == 1


def test_what_is_cleared_is_called_again_and_the_clearing_is_recorded(
    town: Town, home: Path, serve: Callable[[Path], Running]
) -> None:
    one, two = serve(home), serve(home)
    town.openai.then(fails(401, "authentication_error"))
    model_of(one)
    told = two.post("/api/providers/clear", {"name": "open"}, **ADMIN)
    assert told.status_code == 200
    (back,) = told.json()["cleared"]
    assert (back["provider"], back["scope"]) == ("open", "provider_wide")
    (entry,) = two.entries(RECOVERED)
    payload = RECOVERED_FORM.decode(entry.payload)
    assert isinstance(payload, ProviderRecovered)
    assert payload.models_recovered == ("open:big", "open:small")
    assert model_of(one) == model_of(two) == "open:big"
    assert two.post("/api/providers/clear", {"name": "open"}, **ADMIN).json()["cleared"] == []


def test_a_name_that_is_no_provider_is_refused_with_the_nearest_one(home: Path) -> None:
    with running(home) as live:
        told = live.post("/api/providers/clear", {"name": "opne"}, **ADMIN)
        assert told.status_code == 404
        assert "did you mean `open`?" in told.text
        told = live.post("/api/providers/clear", {"name": "nothing-like-it"}, **ADMIN)
        assert "known: open, claude, house" in told.text


def test_one_of_many_turns_tries_what_is_out_and_the_facts_say_which(
    town: Town, home: Path
) -> None:
    failed(home, "network", 2, seconds_ago=30)
    town.openai.then(*[fails(503)] * 3)
    with running(home) as live:
        assert rows(live)["open *"]["state"] == "half_open"
        with ThreadPoolExecutor(8) as pool:
            told = list(pool.map(lambda n: live.chat(f"big {n}"), range(8)))
        tried = [each for each in told if "x-pointsman-fallback-from" in each.headers]
        assert {each.headers["x-pointsman-model"] for each in told} == {"house:llama"}
        assert len(tried) == 1
        # One call, with the retries inside it.
        assert len(town.openai.requests) == 3
        row = rows(live)["open *"]
        assert (row["state"], row["cause"], row["why"]) == ("unavailable", "dns_error", "network")
        assert 'pointsman_provider_state{provider="open"} 2' in live.get("/metrics").text
        first = [facts_of(home, each.id).availability for each in live.entries("decision.turn")]
    assert {"open": "half_open"} in first
    assert {"open": "unavailable"} in first
    assert all(each in ({"open": "half_open"}, {"open": "unavailable"}) for each in first)


def test_of_turns_that_are_decided_in_one_round_one_tries_what_is_out(
    town: Town, home: Path
) -> None:
    """All are decided before the first of them is called."""
    failed(home, "network", 2, seconds_ago=30)
    town.openai.then(*[fails(503)] * 24)
    town.local.then(stalls("a long story"))
    body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": "big"}]})
    slow = {"model": "llama", "stream": True, "messages": [{"role": "user", "content": "tell"}]}
    # While another request is under way, those that come together take each step together.
    with running(home) as live, live.client.stream("POST", "/v1/chat/completions", json=slow):
        callers = [HTTPConnection("127.0.0.1", live.port, timeout=30) for _ in range(8)]
        for each in callers:
            each.request("GET", "/health")
            each.getresponse().read()
        listening, *_ = live.server.servers
        sent = threading.Event()
        listening.get_loop().call_soon_threadsafe(sent.wait)
        for each in callers:
            each.request("POST", "/v1/chat/completions", body)
        sent.set()
        told = [each.getresponse() for each in callers]
        assert [each.getheader("x-pointsman-model") for each in told] == ["house:llama"] * 8
        for each in callers:
            each.close()
    assert len(town.openai.requests) == 3


def test_a_trial_that_succeeds_brings_the_provider_back(town: Town, home: Path) -> None:
    failed(home, "network", 2, seconds_ago=30)
    with running(home) as live:
        told = live.chat("big question")
        assert told.headers["x-pointsman-model"] == "open:big"
        found = facts_of(home, told.headers["x-pointsman-decision"]).availability
        assert found == {"open": "half_open"}
        eventually(lambda: rows(live)["open *"]["state"] == "healthy")
        assert len(live.entries(RECOVERED)) == 1
        replayed = live.post("/api/replay", {}, **ADMIN).json()
        assert (replayed["diverged"], replayed["unable"]) == (0, 0)


def test_before_its_time_and_after_a_refused_key_nothing_is_tried(town: Town, home: Path) -> None:
    failed(home, "network", 2, seconds_ago=5)
    with running(home) as live:
        assert model_of(live) == "house:llama"
        live.post("/api/providers/clear", {"name": "open"}, **ADMIN)
        failed(home, "auth", 1, seconds_ago=250)
        assert model_of(live) == "house:llama"
        assert rows(live)["open *"]["state"] == "unavailable"
    assert town.openai.requests == []


def test_without_the_setting_nothing_is_tried_before_the_outage_is_over(
    town: Town, home: Path
) -> None:
    write_home(home, pointsman={})
    failed(home, "network", 2, seconds_ago=290)
    with running(home) as live:
        assert model_of(live) == "house:llama"
        live.post("/api/providers/clear", {"name": "open"}, **ADMIN)
        failed(home, "network", 2, seconds_ago=301)
        assert rows(live)["open *"]["state"] == "half_open"
        assert model_of(live) == "open:big"
        eventually(lambda: rows(live)["open *"]["state"] == "healthy")


@pytest.mark.req(142, 143)
def test_streams_that_are_cut_in_the_middle_are_no_trouble_of_the_network(
    town: Town, home: Path
) -> None:
    town.openai.then(*[breaks_off("one two three four", "reset")] * 5)
    with running(home) as live:
        for count in range(1, 5):
            live.chat("big story", stream=True)
            live.outcomes(count)
        assert {row["state"] for row in rows(live).values()} == {"healthy"}
        live.chat("big story", stream=True)
        ends = live.outcomes(5)
        assert {each["error_class"] for each in ends} == {"network"}
        found = rows(live)
        assert found["open *"]["state"] == "healthy"
        row = found["open open:big"]
        assert (row["state"], row["why"]) == ("unavailable", "5 failures in a row")


@pytest.mark.req(142, 144)
def test_a_provider_that_cannot_be_reached_twice_is_out_by_its_network(
    town: Town, home: Path
) -> None:
    models = {**town.models, "providers": {**town.models["providers"]}}
    models["providers"]["open"] = provider("openai", "http://127.0.0.1:9")
    write_home(home, models=models)
    with running(home) as live:
        model_of(live)
        model_of(live)
        row = rows(live)["open *"]
        assert (row["state"], row["cause"], row["why"]) == ("unavailable", "dns_error", "network")


def test_a_preview_knows_what_is_out_unless_it_is_told(town: Town, home: Path) -> None:
    failed(home, "auth", 1, seconds_ago=1)
    with running(home) as live:

        def preview(**given: object) -> str:
            body = {"message": "big question", **given}
            return str(live.post("/api/route/preview", body, **ADMIN).json()["chosen_model"])

        assert preview() == "house:llama"
        assert preview(availability={}) == "open:big"
        assert preview(availability={"house": "unavailable"}) == "open:big"
        assert live.entries(RECOVERED) == []


def test_a_limit_that_is_used_up_is_a_state_of_its_own(town: Town, home: Path) -> None:
    models = {**town.models, "providers": {**town.models["providers"]}}
    models["providers"]["open"] = {**models["providers"]["open"], "rpm": 1}
    write_home(home, models=models)
    with running(home) as live:
        assert [model_of(live), model_of(live)] == ["open:big", "house:llama"]
        row = rows(live)["open *"]
        assert (row["state"], row["cause"]) == ("rate_limited", None)
        assert row["why"] == "limit of requests or tokens a minute"
        assert row["clears_in_s"] > 0
        found = live.parts.health.outage_of("open:small")
        assert found is not None
        assert found.state == "rate_limited"
        told = live.get("/api/turns/last").json()
        (why,) = [each["reason"] for each in told["chain"] if each["policy"] == "rule"]
        assert "open is at its limit of requests or tokens a minute" in why


def test_a_gateway_whose_home_lost_the_file_serves_on(town: Town, home: Path) -> None:
    with running(home) as live:
        for path in home.glob("health.db*"):
            path.unlink()
        town.openai.then(fails(401, "authentication_error"))
        assert model_of(live) == "house:llama"
        assert model_of(live) == "house:llama"
        assert len(town.openai.requests) == 1
