"""One model in several places: shared by weight, kept by a session, passed over while out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.gateway.house import Running, Upstream, model, running, upstream, write_home

from pointsman.errors import DocumentError
from pointsman.providers.deployments import Allowance
from pointsman.providers.key_choice import KeyChoice, KeyOption, choose_keys
from pointsman.testing import fails, says
from pointsman.testing.upstream_replies import SendBytes, does, plain
from pointsman.turns.registry.models import read_models

MODEL = "east:gpt-5.2"
PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
PLACES: list[dict[str, Any]] = [
    {"name": "prod-east", "weight": 2},
    {"provider": "west", "name": "prod-west"},
    {"provider": "north"},
]


@contextmanager
def house(
    path: Path, places: list[dict[str, Any]] = PLACES, **more: Any
) -> Iterator[tuple[dict[str, Upstream], Running]]:
    """Run a gateway before three Azures that serve one model."""
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(upstream(otherwise=says(f"hi from {name}")))
            for name in ("east", "west", "north")
        }
        models = {
            "schema_version": 1,
            "providers": {
                name: {"kind": "azure", "base_url": each.url, **more.get(name, {})}
                for name, each in servers.items()
            },
            "models": {MODEL: model(deployments=places)},
        }
        yield servers, stack.enter_context(running(write_home(path / "home", models=models)))


def asked(servers: dict[str, Upstream]) -> dict[str, int]:
    return {name: len(each.requests) for name, each in servers.items()}


def choices(live: Running, count: int) -> list[KeyChoice]:
    told = live.outcomes(count)
    return [msgspec.convert(each["deployment_choice"], KeyChoice) for each in told]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("is_stream", [False, True])
def test_each_place_is_asked_for_its_own_deployment(
    tmp_path: Path, path: str, is_stream: bool
) -> None:
    with house(tmp_path) as (servers, live):
        for number in range(8):
            key = "input" if path == PATHS[2] else "messages"
            said: Any = "hi" if path == PATHS[2] else [{"role": "user", "content": "hi"}]
            body = {"model": MODEL, key: said, "max_tokens": 9, "stream": is_stream}
            if path == PATHS[2]:
                del body["max_tokens"]
            answer = live.post(path, body, x_session_id=f"s{number}")
            assert answer.status_code == 200, answer.text
        names = {"east": "prod-east", "west": "prod-west", "north": "gpt-5.2"}
        for name, server in servers.items():
            assert {each.json["model"] for each in server.requests} <= {names[name]}
        assert sum(asked(servers).values()) == 8
        assert len([each for each in asked(servers).values() if each]) > 1


def test_a_session_keeps_its_place_and_the_choice_can_be_made_again_from_its_record(
    tmp_path: Path,
) -> None:
    with house(tmp_path) as (servers, live):
        texts = []
        for session in ("s1", "s2", "s3", "s4", "s5", "s6"):
            answers = [live.chat(t, MODEL, headers={"x_session_id": session}) for t in "ab"]
            texts.append([each.json()["choices"][0]["message"]["content"] for each in answers])
        assert all(first == second for first, second in texts)
        found = choices(live, 12)
        for each in found:
            first = choose_keys(each.unit, each.keys, "deployment")[0]
            assert each.keys[first].id == each.chosen == each.used
            assert [key.weight for key in each.keys] == [2, 1, 1]
            assert [key.id for key in each.keys] == [
                "east:prod-east", "west:prod-west", "north:gpt-5.2",
            ]  # fmt: skip
        assert Counter(each.used.partition(":")[0] for each in found) == asked(servers)


def test_places_and_keys_are_drawn_each_by_itself() -> None:
    options = [KeyOption("a", 1, True), KeyOption("b", 1, True)]
    units = [f"s{number}" for number in range(200)]
    same = sum(choose_keys(u, options) == choose_keys(u, options, "deployment") for u in units)
    assert 70 < same < 130


@pytest.mark.parametrize(
    ("status", "kind"), [(500, "server_error"), (429, "rate_limit_error"), (401, "auth")]
)
def test_a_place_that_fails_is_passed_over_within_the_call_and_takes_no_other_with_it(
    tmp_path: Path, status: int, kind: str
) -> None:
    with house(tmp_path) as (servers, live):
        live.chat("one", MODEL, headers={"x_session_id": "s1"})
        live.chat("one", MODEL, headers={"x_session_id": "s2"})
        first, other = (each.used for each in choices(live, 2))
        own = servers[first.partition(":")[0]]
        before = asked(servers)
        own.then(fails(status, kind))
        assert live.chat("two", MODEL, headers={"x_session_id": "s1"}).status_code == 200
        assert len(own.requests) == before[first.partition(":")[0]] + 1, "it is not asked again"
        assert live.chat("three", MODEL, headers={"x_session_id": "s1"}).status_code == 200
        second, third = choices(live, 4)[2:]
        assert (second.chosen, third.chosen) == (first, third.used)
        assert second.used == third.used != first
        assert [key.is_open for key in third.keys if key.id == first] == [False]
        assert [each["attempts"] for each in live.outcomes(4)] == [1, 1, 2, 1]
        if other != first:
            live.chat("two", MODEL, headers={"x_session_id": "s2"})
            assert choices(live, 5)[4].used == other


def test_a_refused_request_is_asked_nowhere_else(tmp_path: Path) -> None:
    with house(tmp_path) as (servers, live):
        for each in servers.values():
            each.then(fails(400, "invalid_request_error"))
        assert live.chat("one", MODEL).status_code == 400
        assert sum(asked(servers).values()) == 1


def test_the_model_is_out_only_when_every_place_fails(tmp_path: Path) -> None:
    with house(tmp_path) as (servers, live):
        for each in servers.values():
            each.then(*[fails(503)] * 3)
        assert live.chat("one", MODEL, headers={"x_session_id": "s"}).status_code == 502
        (choice,) = choices(live, 1)
        # Only the last one is asked again.
        assert sorted(asked(servers).values()) == [1, 1, 3]
        assert choice.used != choice.chosen
        assert live.outcomes(1)[0]["attempts"] == 5


def test_limits_of_a_place_move_calls_on_and_together_end_in_429(tmp_path: Path) -> None:
    places = [{**PLACES[0], "rpm": 2}, {**PLACES[1], "rpm": 1}]
    with house(tmp_path, places) as (servers, live):
        for _ in range(3):
            assert live.chat("hi", MODEL, headers={"x_session_id": "s"}).status_code == 200
        assert asked(servers) == {"east": 2, "west": 1, "north": 0}
        answer = live.chat("hi", MODEL, headers={"x_session_id": "s"})
        assert answer.status_code == 429
        assert 0 < int(answer.headers["retry-after"]) <= 60
        assert "used up their limits" in answer.text
        assert sum(asked(servers).values()) == 3


def test_tokens_of_input_count_against_the_limit_of_a_place(tmp_path: Path) -> None:
    places = [{**PLACES[0], "tpm": 50, "weight": 1000}, {**PLACES[1]}]
    with house(tmp_path, places) as (servers, live):
        long = "word " * 200
        for _ in range(2):
            assert live.chat(long, MODEL, headers={"x_session_id": "s1"}).status_code == 200
        assert asked(servers) == {"east": 1, "west": 1, "north": 0}


def test_an_allowance_comes_back_over_a_minute() -> None:
    it = Allowance(60, 0.0)
    it.take(60, 0.0)
    assert (it.rest(0.0), it.wait_s(0.0)) == (0.0, 1.0)
    assert it.rest(30.0) == 30.0
    assert it.rest(1000.0) == 60.0


def test_a_key_that_is_missing_in_one_place_is_no_outage(tmp_path: Path) -> None:
    key = {"api_key": {"env": "POINTSMAN_NO_SUCH_KEY"}}
    with house(tmp_path, PLACES, west=key) as (servers, live):
        for number in range(8):
            answer = live.chat("hi", MODEL, headers={"x_session_id": f"s{number}"})
            assert answer.status_code == 200
        assert asked(servers)["west"] == 0


def test_one_deployment_gives_a_model_its_name_and_no_choice(tmp_path: Path) -> None:
    with house(tmp_path, [{"name": "prod"}]) as (servers, live):
        told = {"object": "list", "data": [], "model": "m", "usage": {"prompt_tokens": 3}}
        assert live.chat("hi", MODEL).status_code == 200
        servers["east"].then(does(SendBytes(plain(json.dumps(told).encode()))))
        assert live.post("/v1/embeddings", {"model": MODEL, "input": "x"}).status_code == 200
        assert [each.json["model"] for each in servers["east"].requests] == ["prod", "prod"]
        assert all("deployment_choice" not in each for each in live.outcomes(2))


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([{"provider": "nowhere"}], "no provider that is called over HTTP"),
        ([{"provider": "here"}], "no provider that is called over HTTP"),
        ([{}, {"name": "m"}], "stands twice"),
        ([{}, {"provider": "claude"}], "wire format in common"),
        ([{"weight": 0}], "weight"),
    ],
)
def test_deployments_that_cannot_work_are_refused(places: list[dict[str, Any]], words: str) -> None:
    providers = {
        "a": {"kind": "openai"}, "claude": {"kind": "anthropic"},
        "here": {"kind": "embedded", "path": "x.gguf"},
    }  # fmt: skip
    models = {"a:m": {"location": "cloud", "deployments": places}}
    text = json.dumps({"schema_version": 1, "providers": providers, "models": models})
    with pytest.raises(DocumentError, match=words):
        read_models(text.encode(), "models.yaml")
