"""How many connections there may be to a provider is a setting; waiting for one is no outage."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2 as httpx
from tests.gateway.conftest import Town
from tests.gateway.house import Running, eventually, running, stalls, write_home

STREAM: dict[str, Any] = {"messages": [{"role": "user", "content": "go on"}], "stream": True}


@contextmanager
def busy(town: Town, streams: int, **upstream: int) -> Iterator[Running]:
    """Serve, with so many streams under way to one provider."""
    limits = {"connect_s": 1}
    write_home(town.home, pointsman={"upstream": upstream, "limits": limits})
    town.openai.then(*[stalls("one two three")] * streams)
    with running(town.home) as live, ExitStack() as stack:
        for _ in range(streams):
            answer = live.client.stream(
                "POST", "/v1/chat/completions", json={**STREAM, "model": "big"}
            )
            assert stack.enter_context(answer).status_code == 200
        yield live


def test_calls_that_find_all_connections_in_use_are_refused_for_a_while(town: Town) -> None:
    with busy(town, 2, max_connections=2) as live, ThreadPoolExecutor(6) as threads:
        for told in threads.map(lambda _: live.chat("one more", model="big"), range(6)):
            assert told.status_code == 503
            assert told.headers["retry-after"] == "1"
            assert "x-should-retry" not in told.headers
            assert "all 2 connections" in told.json()["error"]["message"]
        assert {end["error_class"] for end in live.outcomes(6)} == {"busy"}
        assert live.parts.health.outage_of("open:big") is None


def test_another_model_takes_a_turn_that_finds_all_connections_in_use(town: Town) -> None:
    routing = {"schema_version": 1, "global_default": ["open:big", "claude:opus"]}
    write_home(town.home, routing=routing)
    with busy(town, 1, max_connections=1) as live:
        told = live.chat("one more")
        assert told.status_code == 200
        assert told.headers["x-pointsman-fallback-from"] == "open:big"


def test_connections_are_kept_as_many_and_as_long_as_the_settings_say(town: Town) -> None:
    write_home(town.home, pointsman={"upstream": {"max_idle": 1, "idle_s": 1}})
    with running(town.home) as live, ExitStack() as stack:
        clients = [stack.enter_context(httpx.Client(trust_env=False)) for _ in range(3)]
        town.openai.then(*[stalls("one two three")] * 3)
        url = f"{live.url}/v1/chat/completions"
        for client in clients:
            stream = client.stream("POST", url, json={**STREAM, "model": "big"})
            stack.enter_context(stream)
        eventually(lambda: town.openai.kept == 3)
        assert live.chat("hello", model="big").status_code == 200
        eventually(lambda: town.openai.kept == 4)
        eventually(lambda: town.openai.kept == 3, seconds=9)


def test_a_warm_gateway_has_a_connection_to_each_provider_before_the_first_turn(town: Town) -> None:
    write_home(town.home, pointsman={"upstream": {"warm": True}})
    with running(town.home) as live:
        eventually(lambda: (town.openai.kept, town.anthropic.kept) == (1, 1))
        assert live.chat("hello", model="big").status_code == 200
        assert town.openai.requests[0].connection == 1


def test_a_gateway_speaks_to_no_provider_before_a_turn_needs_it(town: Town) -> None:
    with running(town.home) as live:
        assert live.get("/health").status_code == 200
        assert town.openai.kept == town.anthropic.kept == 0
