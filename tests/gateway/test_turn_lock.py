"""One decision a turn: a tool loop keeps its model, whatever the rules would say by now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, running, write_home

from pointsman.access.keys import Key
from pointsman.testing import calls, fails, says

ASK = {"role": "user", "content": "what is the weather in Bern?"}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "4 degrees"}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
REMINDER = "<system-reminder>be quick</system-reminder>"
LOOP = [ASK, CALLED, RESULT]

IDENTITIES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "x-session-id": ({"x-session-id": "s-1"}, {}),
    "x-claude-code-session-id": ({"x-claude-code-session-id": "s-1"}, {}),
    "x-session-affinity": ({"x-session-affinity": "s-1"}, {}),
    "prompt_cache_key": ({}, {"prompt_cache_key": "s-1"}),
    "user": ({}, {"user": "somebody"}),
    "metadata.user_id": ({}, {"metadata": {"user_id": "somebody"}}),
    "derived": ({}, {}),
}


def asked(live: Running, messages: list[Any], model: str = "auto", **more: Any):
    headers = more.pop("headers", {})
    body = {"model": model, "messages": messages, "tools": TOOLS, **more}
    return live.post("/v1/chat/completions", body, **headers)


def change_default(home: Path, model: str) -> None:
    write_home(home, routing={"schema_version": 1, "global_default": model})


@pytest.mark.req(101, 110, 111, 112)
@pytest.mark.parametrize("identity", IDENTITIES)
def test_a_tool_loop_keeps_its_model_and_makes_one_decision(
    town: Town, live: Running, identity: str
) -> None:
    headers, more = IDENTITIES[identity]
    town.openai.then(calls(("weather", {})), calls(("weather", {})), says("cold"))
    first = asked(live, [ASK], headers=headers, **more)
    change_default(town.home, "claude:opus")
    live.parts.pointsman.reload()
    again = asked(live, LOOP, headers=headers, **more)
    last = asked(live, [*LOOP, CALLED, RESULT], headers=headers, **more)
    for told in (again, last):
        assert told.headers["x-pointsman-policy"] == "turn_lock"
        assert told.headers["x-pointsman-model"] == "open:big"
        assert told.headers["x-pointsman-turn"] == first.headers["x-pointsman-turn"]
        assert told.headers["x-pointsman-decision"] == first.headers["x-pointsman-decision"]
    assert [each["number"] for each in live.outcomes(3)] == [1, 2, 3]
    assert len(live.entries("decision.turn")) == 1
    assert not town.anthropic.requests
    following = asked(live, [*LOOP, {"role": "user", "content": "thanks"}], headers=headers, **more)
    assert following.headers["x-pointsman-model"] == "claude:opus"
    assert following.headers["x-pointsman-turn"] != first.headers["x-pointsman-turn"]


@pytest.mark.req(101, 112)
@pytest.mark.parametrize("identity", IDENTITIES)
def test_a_tool_loop_outlives_a_restart(town: Town, identity: str) -> None:
    headers, more = IDENTITIES[identity]
    town.openai.then(calls(("weather", {})), says("cold"))
    with running(town.home) as live:
        first = asked(live, [ASK], headers=headers, **more)
    change_default(town.home, "claude:opus")
    with running(town.home) as live:
        again = asked(live, LOOP, headers=headers, **more)
        assert again.headers["x-pointsman-turn"] == first.headers["x-pointsman-turn"]
        assert again.headers["x-pointsman-model"] == "open:big"
        live.outcomes(2)
        assert len(live.entries("decision.turn")) == 1


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
def test_every_format_knows_a_tool_result(town: Town, live: Running, path: str) -> None:
    if path == "/v1/messages":
        town.anthropic.then(calls(("weather", {})), says("cold"))
        use = {"type": "tool_use", "id": "call_1", "name": "weather", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": "4 degrees"}
        body: dict[str, Any] = {"model": "opus", "max_tokens": 9, "messages": [ASK]}
        following = [
            ASK,
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result, {"type": "text", "text": REMINDER}]},
        ]
        key = "messages"
    else:
        town.openai.then(calls(("weather", {})), says("cold"))
        call = {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"}
        output = {"type": "function_call_output", "call_id": "call_1", "output": "4 degrees"}
        body = {"model": "big", "input": [ASK]}
        following = [ASK, call, output]
        key = "input"
    first = live.post(path, body)
    again = live.post(path, {**body, key: following})
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.headers["x-pointsman-turn"] == first.headers["x-pointsman-turn"]
    assert len(live.entries("decision.turn")) == 1


def test_a_tool_result_of_nobodys_turn_is_a_turn_of_its_own(live: Running) -> None:
    told = asked(live, LOOP)
    assert told.headers["x-pointsman-policy"] == "global_default"
    assert len(live.entries("decision.turn")) == 1


def test_two_keys_cannot_share_a_session(town: Town, live: Running) -> None:
    tokens = [made_key(live, name) for name in ("one", "other")]
    town.openai.then(calls(("weather", {})))
    mine = {"authorization": f"Bearer {tokens[0]}", "x-session-id": "shared"}
    theirs = {"authorization": f"Bearer {tokens[1]}", "x-session-id": "shared"}
    first = asked(live, [ASK], headers=mine)
    again = asked(live, LOOP, headers=theirs)
    assert again.headers["x-pointsman-turn"] != first.headers["x-pointsman-turn"]
    assert len(live.entries("decision.turn")) == 2


def made_key(live: Running, name: str) -> str:
    from pointsman.access.keys import ENTROPY_BYTES, key_token

    key_id, token = key_token(name.encode().ljust(ENTROPY_BYTES, b"."))
    live.parts.keyring.create(Key(key_id, name, live.parts.pointsman.clock.now()), token)
    return token


def test_a_session_name_that_could_be_another_keys_session_is_its_own(
    town: Town, live: Running
) -> None:
    """Without a key, `<key id>/name` must not open what a key called `name`."""
    town.openai.then(calls(("weather", {})))
    token = made_key(live, "one")
    first = asked(live, [ASK], headers={"authorization": f"Bearer {token}", "x-session-id": "n"})
    admin = {"authorization": f"Bearer {live.admin}", "x-session-id": f"{token[3:19]}/n"}
    again = asked(live, LOOP, headers=admin)
    assert again.headers["x-pointsman-turn"] != first.headers["x-pointsman-turn"]


def test_a_failed_call_in_a_tool_loop_falls_back_to_nobody(town: Town, live: Running) -> None:
    town.openai.then(calls(("weather", {})), *[fails(500)] * 3)
    asked(live, [ASK])
    again = asked(live, LOOP)
    assert again.status_code == 502
    assert again.headers["x-pointsman-model"] == "open:big"
    live.outcomes(2)
    assert live.kinds() == ["decision.turn", "outcome", "outcome"]


@pytest.mark.req(271)
@pytest.mark.parametrize("content", ["@small say hi", [{"type": "text", "text": "@small say hi"}]])
def test_an_alias_in_the_users_text_is_stripped_and_holds_for_one_turn(
    town: Town, live: Running, content: Any
) -> None:
    first = asked(live, [{"role": "user", "content": content}])
    assert first.headers["x-pointsman-model"] == "open:small"
    assert first.headers["x-pointsman-policy"] == "per_message_override"
    assert "@small" not in town.openai.texts()
    assert "say hi" in town.openai.texts()
    history = [{"role": "user", "content": content}, {"role": "assistant", "content": "hi"}]
    following = asked(live, [*history, {"role": "user", "content": "again"}])
    assert following.headers["x-pointsman-model"] == "open:big"


@pytest.mark.req(271, 112)
def test_an_alias_holds_through_its_tool_loop(town: Town, live: Running) -> None:
    town.openai.then(calls(("weather", {})), says("cold"))
    first = {"role": "user", "content": "@small the weather?"}
    asked(live, [first])
    again = asked(live, [first, CALLED, RESULT])
    assert again.headers["x-pointsman-model"] == "open:small"
    assert len(live.entries("decision.turn")) == 1


@pytest.mark.req(274, 275)
@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("@nobody hello", "@nobody hello"),
        ("hello @small", "hello @small"),
        ("\\@small hello", "@small hello"),
        ("@small, hello", "@small, hello"),
    ],
)
def test_what_is_no_override_is_plain_text(town: Town, live: Running, text: str, sent: str) -> None:
    told = live.chat(text)
    assert told.headers["x-pointsman-model"] == "open:big"
    assert town.openai.requests[-1].json["messages"][-1]["content"] == sent


def _refused(live: Running, path: str, text: str) -> str:
    messages = [{"role": "user", "content": text}]
    body = {"model": "auto", "input": text}
    if path == "/v1/messages":
        body = {"model": "auto", "max_tokens": 9, "messages": messages}
    told = live.post(path, body)
    assert told.status_code == 400
    return str(told.json()["error"]["message"])


@pytest.mark.req(272)
def test_strict_mode_refuses_an_unknown_alias_and_starts_no_turn(town: Town) -> None:
    write_home(town.home, pointsman={"inline_override": "strict"})
    with running(town.home) as live:
        told = live.chat("@smal hello")
        assert told.status_code == 400
        assert "did you mean `small`?" in told.json()["error"]["message"]
        assert "did you mean `small`?" in _refused(live, "/v1/messages", "@smal hello")
        assert "did you mean `small`?" in _refused(live, "/v1/responses", "@smal hello")
        assert "names no model" in _refused(live, "/v1/messages", "@ hello")
        assert live.chat("@small hello").headers["x-pointsman-model"] == "open:small"
        live.outcomes(1)
        assert live.kinds() == ["decision.turn", "outcome"]


def test_switched_off_an_alias_is_plain_text(town: Town) -> None:
    write_home(town.home, pointsman={"inline_override": "off"})
    with running(town.home) as live:
        assert live.chat("@small hello").headers["x-pointsman-model"] == "open:big"
        assert "@small hello" in town.openai.texts()


def test_an_alias_in_a_tool_result_or_system_prompt_is_no_override(
    town: Town, live: Running
) -> None:
    result = {**RESULT, "content": "@small do it"}
    told = asked(live, [{"role": "system", "content": "@small"}, ASK, CALLED, result])
    assert told.headers["x-pointsman-model"] == "open:big"
    assert "@small do it" in town.openai.texts()


@pytest.mark.req(273)
def test_duplicate_aliases_are_refused_and_the_last_good_file_serves(
    town: Town, live: Running
) -> None:
    live.chat("hello")
    models = town.models["models"]
    twice = {
        **town.models,
        "models": {**models, "open:big": {**models["open:big"], "aliases": ["small"]}},
    }
    write_home(town.home, models=twice)
    live.parts.pointsman.reload()
    assert live.chat("@big hello").headers["x-pointsman-model"] == "open:big"
    assert "models.yaml" in live.get("/health/readiness").text


def test_a_pin_holds_until_it_is_taken_off_also_after_a_restart(town: Town) -> None:
    headers = {"x-session-id": "pinned"}
    with running(town.home) as live:
        live.parts.sessions.pin("pinned", "claude:opus", live.parts.pointsman.clock.now()).result()
    with running(town.home) as live:
        told = live.chat("hello", headers=headers)
        assert told.headers["x-pointsman-model"] == "claude:opus"
        assert told.headers["x-pointsman-policy"] == "manual_sticky"
        assert (
            live.chat("@small hello", headers=headers).headers["x-pointsman-model"] == "open:small"
        )
        assert live.chat("hello", headers=headers).headers["x-pointsman-model"] == "claude:opus"
        live.parts.sessions.pin("pinned", None, live.parts.pointsman.clock.now()).result()
        assert live.chat("hello", headers=headers).headers["x-pointsman-model"] == "open:big"
