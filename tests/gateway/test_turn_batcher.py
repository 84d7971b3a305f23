"""Batched turns are recorded, answered and counted as all other turns are."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.house import (
    Running,
    Upstream,
    eventually,
    facts_of,
    model,
    provider,
    running,
    upstream,
    write_home,
)

from pointsman.gateway.turns import turn_batcher
from pointsman.gateway.turns.endpoints import ModelEndpoint
from pointsman.kernel.record import OUTCOME, read_recorded
from pointsman.testing.upstream_replies import Pause, Received, Step, calls, says

MANY = 4 * turn_batcher.FEW
ROUTING = {"schema_version": 1, "global_default": "up:big"}


def a_home(path: Path, up: Upstream, **more: Any) -> Path:
    """Give a home with one model that costs $4 a million tokens."""
    models = {
        "schema_version": 1,
        "providers": {"up": provider("openai", up.url)},
        "models": {"up:big": model(price="4")},
    }
    return write_home(path, models=models, routing={**ROUTING, **more})


def echoes(request: Received) -> Iterable[Step]:
    """Answer with what was asked."""
    return says("about " + json.loads(request.body)["messages"][-1]["content"])(request)


def said(answer: Any) -> str:
    return answer.json()["choices"][0]["message"]["content"]


def endpoints(live: Running) -> list[ModelEndpoint]:
    routes = live.server.service._handlers.exact
    return [each for each in routes.values() if isinstance(each, ModelEndpoint)]


def recorded(live: Running, count: int) -> list[object]:
    """Return all recorded facts of turns, without times and ids."""
    ends, found = live.outcomes(count), []
    for each in live.entries("decision.turn"):
        decision, _, aside = read_recorded(each.payload)
        value, facts = json.loads(decision), facts_of(live.home, each.id)
        found.append((value["outcome"], value["trace"], value["snapshot_ids"], aside.is_preview))
        found.append((facts.estimated_input_tokens, facts.sticky_model, facts.placement))
    for end in ends:
        for name in ("elapsed_us", "first_byte_us"):
            assert end.pop(name) > 0
        end["spent"].pop("at")
        found.append(end)
    return found


def ask(live: Running, text: str) -> bytes:
    body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": text}]})
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()


def test_a_turn_is_recorded_as_it_is_at_length(tmp_path: Path) -> None:
    found, headers = [], []
    with upstream(otherwise=echoes) as up:
        for name in ("short", "long"):
            with running(a_home(tmp_path / name, up)) as live:
                for each in endpoints(live):
                    assert (each.batcher is not None) == (type(each) is ModelEndpoint)
                    each.batcher = each.batcher if name == "short" else None
                for text in ("hello", "how are you?"):
                    answer = live.chat(text)
                    assert said(answer) == f"about {text}"
                found.append(recorded(live, 2))
                headers.append([*answer.headers])
    assert found[0] == found[1]
    assert headers[0] == headers[1]


WEATHER = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]


def tool_loop(live: Running, size: int) -> list[Any]:
    """Run a turn of two tool calls over a history of a size; returns its answers."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "x " * (size // 2)}]
    answers = []
    for number in range(3):
        body = {"model": "auto", "messages": messages, "tools": WEATHER}
        answers.append(live.post("/v1/chat/completions", body, **{"x-session-id": "s"}))
        told = answers[-1].json()["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": f"c{number}", "content": f"{number} degrees"}
        messages = [*messages, told, result]
    return answers


@pytest.mark.parametrize("size", [10, 20_000, 300_000])
def test_a_tool_loop_is_recorded_as_it_is_at_length(tmp_path: Path, size: int) -> None:
    found, answered = [], []
    for name in ("short", "long"):
        steps = (calls(("weather", {})), calls(("weather", {})), says("cold"))
        with upstream(*steps) as up, running(a_home(tmp_path / name, up)) as live:
            for each in endpoints(live):
                each.batcher = each.batcher if name == "short" else None
            answers = tool_loop(live, size)
            found.append(recorded(live, 3))
            ids = {each.headers["x-pointsman-turn"] for each in answers}
            policies = [each.headers["x-pointsman-policy"] for each in answers]
            answered.append((len(ids), policies, [*answers[-1].headers]))
            assert len(live.entries("decision.turn")) == 1
    assert found[0] == found[1]
    assert answered[0] == answered[1]
    assert answered[0][:2] == (1, ["global_default", "turn_lock", "turn_lock"])


@pytest.mark.usefixtures("put_off")
def test_tool_calls_and_results_stay_batched_and_store_their_lock_once(tmp_path: Path) -> None:
    steps = (says("warm"), calls(("weather", {})), calls(("weather", {})), says("cold"))
    with upstream(*steps) as up:
        home = a_home(tmp_path / "home", up)
        with running(home) as live:
            live.chat("the first has to connect, and is served at length")
            eventually(lambda: live.parts.metrics.in_flight == 0)
            stored: list[object] = []
            keep = live.parts.sessions._group.append
            live.parts.sessions._group.append = lambda item: stored.append(item) or keep(item)  # type: ignore[method-assign]
            tool_loop(live, 10)
            # Ends are put off for batched turns alone.
            assert live.parts.metrics.in_flight == 1
            assert len(stored) == 1


def test_a_tool_loop_goes_on_after_a_restart_between_its_results(tmp_path: Path) -> None:
    steps = (calls(("weather", {})), calls(("weather", {})), says("cold"), says("cold"))
    with upstream(*steps) as up:
        home = a_home(tmp_path / "home", up)
        with running(home) as live:
            before = tool_loop(live, 10)[1]
        with running(home) as live:
            result = {"role": "tool", "tool_call_id": "c", "content": "1 degree"}
            body = {"model": "auto", "messages": [{"role": "user", "content": "x"}, result]}
            after = live.post("/v1/chat/completions", body, **{"x-session-id": "s"})
        assert after.headers["x-pointsman-turn"] == before.headers["x-pointsman-turn"]
        assert after.headers["x-pointsman-policy"] == "turn_lock"


def test_a_turn_that_is_alone_waits_for_no_round_of_the_loop_others_do() -> None:
    taken: list[list[object]] = []
    is_alone = True
    stage = turn_batcher.BatchStage(taken.append, lambda: is_alone)  # type: ignore[arg-type] # any turn will do

    async def comes_round() -> None:
        nonlocal is_alone
        stage.add("first")  # type: ignore[arg-type] # see above
        assert taken == [["first"]]
        is_alone = False
        stage.add("second")  # type: ignore[arg-type] # see above
        is_alone = True
        stage.add("third")  # type: ignore[arg-type] # see above: not before the one that waits
        assert taken == [["first"]]
        await asyncio.sleep(0)

    asyncio.run(comes_round())
    assert taken == [["first"], ["second", "third"]]


def test_turns_that_come_together_each_get_their_own_answer_decision_and_end(
    tmp_path: Path,
) -> None:
    with (
        upstream(otherwise=echoes) as up,
        running(a_home(tmp_path / "home", up)) as live,
        ThreadPoolExecutor(MANY) as clients,
    ):
        for turn in range(3):
            texts = [f"{turn}/{each}" for each in range(MANY)]
            answers = [*clients.map(live.chat, texts)]
            assert [said(each) for each in answers] == [f"about {text}" for text in texts]
            assert len({each.headers["x-pointsman-decision"] for each in answers}) == MANY
        live.outcomes(3 * MANY)
        decisions = live.entries("decision.turn")
        assert len(decisions) == 3 * MANY
        assert sorted(each.ref for each in live.entries(OUTCOME)) == sorted(
            each.id for each in decisions
        )
        eventually(lambda: live.parts.metrics.in_flight == 0)
        assert not any(each.batcher._out for each in endpoints(live) if each.batcher is not None)
        assert live.parts.pointsman.verify().is_intact


@pytest.fixture
def put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every end put off, for longer than a test takes."""
    monkeypatch.setattr(turn_batcher, "FEW", 1)
    monkeypatch.setattr(turn_batcher, "ENDS_S", 600.0)


@pytest.mark.usefixtures("put_off")
def test_an_end_that_is_put_off_comes_with_the_next_turn_or_when_the_gateway_stops(
    tmp_path: Path,
) -> None:
    with upstream() as up:
        home = a_home(tmp_path / "home", up)
        with running(home) as live:
            # The first has to connect, and is served at length.
            assert live.chat("first").status_code == 200
            assert len(live.outcomes(1)) == 1
            eventually(lambda: live.parts.metrics.in_flight == 0)
            for text in ("second", "third"):
                assert live.chat(text).status_code == 200
                assert live.parts.metrics.in_flight == 1
            _, end = live.outcomes(2)
            assert end["elapsed_us"] == end["first_byte_us"], "not when it was told"
        with running(home) as live:
            assert len(live.entries("decision.turn")) == len(live.entries(OUTCOME)) == 3


def test_an_end_that_is_put_off_comes_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_batcher, "FEW", 1)
    with upstream() as up, running(a_home(tmp_path / "home", up)) as live:
        for _ in range(2):
            assert live.chat().status_code == 200
        assert len(live.outcomes(2)) == 2
        eventually(lambda: live.parts.metrics.in_flight == 0)


@pytest.mark.usefixtures("put_off")
def test_a_budget_sees_what_those_before_it_gave_back(tmp_path: Path) -> None:
    """What is set aside is a thousand times what is spent: it must be there again at once."""
    aside_usd = 4 * 4096 / 1e6
    budget = {"name": "day", "per": "day", "limit_usd": f"{1.5 * aside_usd:.4f}"}
    with upstream() as up, running(a_home(tmp_path / "home", up, budgets=[budget])) as live:
        assert [live.chat().status_code for _ in range(4)] == [200] * 4


@pytest.mark.parametrize("size", [200_000, 400_000, 3_000_000])
def test_an_answer_larger_than_is_kept_at_once_passes(tmp_path: Path, size: int) -> None:
    with (
        upstream(otherwise=says("x" * size)) as up,
        running(a_home(tmp_path / "home", up)) as live,
    ):
        for _ in range(2):
            assert said(live.chat()) == "x" * size
        assert [each["stop_reason"] for each in live.outcomes(2)] == ["end", "end"]


def test_a_caller_that_hangs_up_ends_its_call_once(tmp_path: Path) -> None:
    with (
        upstream(says("well"), lambda _request: [Pause()]) as up,
        running(a_home(tmp_path / "home", up)) as live,
    ):
        assert live.chat("first").status_code == 200
        with socket.create_connection(("127.0.0.1", live.port)) as caller:
            caller.sendall(ask(live, "bye"))
            eventually(lambda: len(up.requests) == 2)
        assert [each["error_class"] for each in live.outcomes(2)] == ["", "cancelled"]
        eventually(lambda: live.parts.metrics.in_flight == 0)
        assert live.chat("third").status_code == 200
        assert len(live.outcomes(3)) == len(live.entries("decision.turn")) == 3


def test_requests_in_one_write_are_answered_in_their_order(tmp_path: Path) -> None:
    texts = [f"number {each}" for each in range(5)]
    with upstream(otherwise=echoes) as up, running(a_home(tmp_path / "home", up)) as live:
        with socket.create_connection(("127.0.0.1", live.port)) as caller:
            caller.settimeout(30)
            caller.sendall(b"".join(ask(live, each) for each in texts))
            heard = b""
            while heard.count(b"about number") < len(texts):
                heard += caller.recv(65536)
        places = [heard.index(f"about {each}".encode()) for each in texts]
        assert places == sorted(places)
