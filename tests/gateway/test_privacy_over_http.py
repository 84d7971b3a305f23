"""What must stay stays: whatever the request, its history, its tools and its fallback are."""

from __future__ import annotations

from typing import Any

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, keeps, running, write_home

from pointsman.app import Pointsman
from pointsman.testing import calls, says

SECRET = "AKIAIOSFODNN7EXAMPLQ"
LOCAL = {"x-pointsman-privacy": "local"}


def use(arguments: str = "{}") -> dict[str, Any]:
    called = {"name": "look", "arguments": arguments}
    call = {"id": "call_1", "type": "function", "function": called}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def result(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "call_1", "content": text}


def assert_nothing_left(town: Town, *, but: int = 0) -> None:
    """Assert that no cloud provider saw more than this, and that the audit says the same."""
    assert len(town.openai.requests) + len(town.anthropic.requests) == but
    assert SECRET not in town.openai.texts() + town.anthropic.texts()
    with Pointsman(town.home, writer="audit") as pointsman:
        report = pointsman.egress()
    assert report.is_clean
    assert report.left == but


@pytest.fixture
def kept(town: Town) -> Town:
    """Secrets stay, and a local model can take what stays."""
    write_home(
        town.home,
        placement=keeps("secret"),
        routing={"schema_version": 1, "global_default": ["open:big", "claude:opus"]},
    )
    return town


def test_a_request_may_keep_itself_here(town: Town) -> None:
    write_home(
        town.home,
        routing={"schema_version": 1, "global_default": "house:llama",
                 "rules": [{"when": {"message_matches": "."}, "use": "open:big"}]},
    )  # fmt: skip
    with running(town.home) as live:
        told = live.chat("hello", headers=LOCAL)
        assert told.headers["x-pointsman-model"] == "house:llama"
        live.outcomes(1)
    assert_nothing_left(town)


@pytest.mark.parametrize("level", ["cloud", "auto"])
def test_a_request_may_not_loosen_what_its_key_says(town: Town, level: str) -> None:
    with running(town.home) as live:
        made = live.post("/api/keys", {"name": "careful", "privacy": "local"}, **admin(live)).json()
        headers = {"authorization": f"Bearer {made['key']}", "x-pointsman-privacy": level}
        told = live.chat("hello", headers=headers)
        assert told.headers["x-pointsman-model"] == "house:llama"
        named = live.chat("hello", headers=headers, model="open:big")
        assert named.status_code == 403
        assert named.json()["error"]["code"].endswith("privacy_blocked")
    assert_nothing_left(town)


def test_cloud_is_no_order_to_leave(kept: Town) -> None:
    with running(kept.home) as live:
        told = live.chat(f"the key is {SECRET}", headers={"x-pointsman-privacy": "cloud"})
        assert told.headers["x-pointsman-model"] == "house:llama"
        live.outcomes(1)
    assert_nothing_left(kept)


def test_a_level_that_does_not_exist_is_refused(live: Running) -> None:
    assert live.chat("hello", headers={"x-pointsman-privacy": "lokal"}).status_code == 400
    assert not live.kinds()


@pytest.mark.parametrize("model", ["open:big", "claude:opus", "gpt-5", "big"])
def test_a_named_cloud_model_is_refused_what_must_stay(kept: Town, model: str) -> None:
    with running(kept.home) as live:
        told = live.chat(f"the key is {SECRET}", model=model)
        if model == "gpt-5":
            # This name is mapped to `auto`.
            assert told.headers["x-pointsman-model"] == "house:llama"
        else:
            assert told.status_code == 403
            assert told.headers["x-should-retry"] == "false"
            assert told.json()["error"]["code"] == "routing.privacy_blocked"
    assert_nothing_left(kept)


def test_an_alias_in_the_text_does_not_carry_a_secret_out(kept: Town) -> None:
    with running(kept.home) as live:
        told = live.chat(f"@big the key is {SECRET}")
        assert told.headers["x-pointsman-model"] == "house:llama"
        live.outcomes(1)
    assert_nothing_left(kept)


HELLO = {"role": "user", "content": "hello"}
HELD = {"role": "user", "content": f"key {SECRET}"}
FINE = {"role": "assistant", "content": "ok"}
PLACES: dict[str, list[dict[str, Any]]] = {
    "message": [HELD],
    "text part": [{"role": "user", "content": [{"type": "text", "text": f"key {SECRET}"}]}],
    "system": [{"role": "system", "content": f"key {SECRET}"}, HELLO],
    "earlier answer": [HELLO, {"role": "assistant", "content": f"key {SECRET}"}, HELLO],
    "earlier message": [HELD, FINE, HELLO],
    "tool result": [HELLO, use(), result(f"key {SECRET}")],
    "tool arguments": [HELLO, use(f'{{"key": "{SECRET}"}}'), result("ok"), HELLO],
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_secret_anywhere_in_a_request_stays(kept: Town, place: str, is_stream: bool) -> None:
    with running(kept.home) as live:
        body = {"model": "auto", "messages": PLACES[place], "stream": is_stream}
        told = live.post("/v1/chat/completions", body)
        assert told.headers["x-pointsman-model"] == "house:llama"
        live.outcomes(1)
    assert_nothing_left(kept)


FIELDS: dict[str, dict[str, Any]] = {
    "a tool": {"tools": [{"type": "function", "function": {
        "name": "look", "description": f"use {SECRET}", "parameters": {"type": "object"}}}]},
    "a name": {"tools": [{"type": "function", "function": {"name": "look", "parameters": {
        "type": "object", "properties": {f"aws {SECRET}": {"type": "string"}}}}}]},
    "the form of the answer": {"response_format": {"type": "json_schema", "json_schema": {
        "name": "x", "schema": {"type": "object", "description": f"not {SECRET}"}}}},
    "the user": {"user": f"somebody with {SECRET}"},
    "a field nobody knows": {"new_field": [{"deep": [f"key {SECRET}"]}]},
    "what looks like data": {"stop": [f"data: key {SECRET}"]},
}  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
def test_a_secret_in_any_other_field_stays(kept: Town, field: str) -> None:
    """Bytes pass through unchanged, so everything in them counts."""
    with running(kept.home) as live:
        told = live.chat("hello", **FIELDS[field])
        assert told.headers["x-pointsman-model"] == "house:llama"
        live.outcomes(1)
    assert_nothing_left(kept)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
def test_a_secret_in_a_system_prompt_of_any_format_stays(kept: Town, path: str) -> None:
    body: dict[str, Any] = {"model": "auto", "input": "hello", "instructions": f"key {SECRET}"}
    if path == "/v1/messages":
        system = [{"type": "text", "text": f"key {SECRET}", "cache_control": {"type": "ephemeral"}}]
        body = {"model": "auto", "max_tokens": 9, "messages": [HELLO], "system": system}
    with running(kept.home) as live:
        assert live.post(path, body).headers["x-pointsman-model"] == "house:llama"
        live.outcomes(1)
    assert_nothing_left(kept)


def test_a_tool_result_that_must_stay_ends_a_turn_that_a_cloud_model_began(kept: Town) -> None:
    """Its model was chosen and cannot change; the result does not leave."""
    kept.openai.then(calls(("look", {})))
    with running(kept.home) as live:
        first = live.chat("look it up", model="open:big")
        assert first.headers["x-pointsman-model"] == "open:big"
        asked = {"role": "user", "content": "look it up"}
        history = [asked, use(), result(f"key {SECRET}")]
        told = live.post("/v1/chat/completions", {"model": "open:big", "messages": history})
        assert told.status_code == 403
        assert told.json()["error"]["code"].endswith("privacy_blocked")
        assert SECRET not in told.text
        live.outcomes(1)
    assert_nothing_left(kept, but=1)


def test_what_was_held_keeps_later_turns_here_until_it_is_cleared(kept: Town) -> None:
    headers = {"x-session-id": "s"}
    with running(kept.home) as live:
        live.chat(f"key {SECRET}", headers=headers)
        later = live.chat("and now?", headers=headers)
        other = live.chat("and now?", headers={"x-session-id": "other"})
        assert later.headers["x-pointsman-model"] == "house:llama"
        assert other.headers["x-pointsman-model"] == "open:big"
    with running(kept.home) as live:
        again = live.chat("and now?", headers=headers)
        assert again.headers["x-pointsman-model"] == "house:llama"
        live.parts.pointsman.clear_taint("s", "rotated the key")
        cleared = live.chat("and now?", headers=headers)
        assert cleared.headers["x-pointsman-model"] == "open:big"
        live.outcomes(1)
    assert_nothing_left(kept, but=2)


def test_where_no_local_model_can_take_it_what_must_stay_is_refused(town: Town) -> None:
    placement = {**keeps("secret"), "local_model": "embedded:none"}
    routing = {"schema_version": 1, "global_default": "open:big"}
    write_home(town.home, placement=placement, routing=routing)
    with running(town.home) as live:
        told = live.chat(f"key {SECRET}")
        assert told.status_code == 403
        assert told.json()["error"]["code"].endswith("privacy_blocked")
        assert SECRET not in told.text
        live.entries("decision.turn")
    assert_nothing_left(town)


def test_a_placement_file_that_cannot_be_read_lets_nothing_leave(town: Town) -> None:
    (town.home / "placement.yaml").write_text("rules: [")
    (town.home / "placement.yaml").chmod(0o600)
    with running(town.home) as live:
        assert live.chat("hello", model="open:big").status_code == 403
    assert_nothing_left(town)


def test_a_policy_that_wants_a_yes_gets_it_before_anybody_is_called(town: Town) -> None:
    rule = {"id": "ask", "action": "requireConfirmation", "message": "is this wise?"}
    write_home(town.home, placement={**keeps(), "policy_rules": [rule]})
    with running(town.home) as live:
        asked = live.chat("hello")
        assert asked.status_code == 403
        assert asked.json()["error"]["code"] == "routing.confirmation_needed"
        assert "is this wise?" in asked.json()["error"]["message"]
        assert not town.openai.requests + town.anthropic.requests
        assert live.chat("hello", headers={"x-pointsman-confirm": "yes"}).status_code == 200


def test_no_message_text_is_in_any_header(town: Town, live: Running) -> None:
    town.openai.then(says("the answer"))
    told = live.chat("a very particular question")
    assert "particular" not in str(told.headers)


def admin(live: Running) -> dict[str, str]:
    return {"authorization": f"Bearer {live.admin}"}


def said(*words: str) -> list[dict[str, str]]:
    """A conversation in which the user and a model take turns."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": each} for n, each in enumerate(words)]


def served(live: Running, *words: str, **headers: str) -> str:
    body = {"model": "auto", "messages": said(*words)}
    told = live.post("/v1/chat/completions", body, **headers)
    assert told.status_code == 200, told.text
    return str(told.headers["x-pointsman-model"])


def test_a_conversation_that_opens_like_a_tainted_one_is_free(town: Town) -> None:
    with running(town.home) as live:
        assert served(live, "good morning", x_pointsman_privacy="local") == "house:llama"
        assert served(live, "good morning") == "open:big"
        assert served(live, "good morning", "hello", "how are you?") == "house:llama"
    with running(town.home) as live:
        assert served(live, "good morning") == "open:big"
        assert served(live, "good morning", "hello", "how are you?") == "house:llama"
        assert served(live, "good morning!", "hello", "how are you?") == "open:big"


def test_what_is_said_later_taints_only_what_follows_it(town: Town) -> None:
    with running(town.home) as live:
        assert served(live, "one", "1", "two", x_pointsman_privacy="local") == "house:llama"
        assert served(live, "one", "1", "two", "2", "three") == "house:llama"
        assert served(live, "one", "1", "other", "2", "three") == "open:big"


def test_a_refused_call_taints_nothing(town: Town) -> None:
    headers = {"x-session-id": "s", "x-pointsman-privacy": "local"}
    with running(town.home) as live:
        assert live.chat("hello", model="open:big", headers=headers).status_code == 403
        later = live.chat("hello", headers={"x-session-id": "s"})
        assert later.headers["x-pointsman-model"] == "open:big"
        assert not live.entries("event.placement.tainted")


def test_an_empty_level_is_refused(live: Running) -> None:
    assert live.chat("hello", headers={"x-pointsman-privacy": ""}).status_code == 400
