"""When a model fails: who takes over, how it is told, and when nobody may."""

from __future__ import annotations

from typing import Any

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import (
    Running,
    breaks_off,
    chat_text,
    facts_of,
    keeps,
    running,
    streamed,
    write_home,
)

from pointsman.testing import FAULTS, calls, fails, says

DOWN = [fails(500)] * 3
"""One call with its two retries."""
RULE = {"name": "code", "when": {"message_matches": "code"}, "use": "claude:opus"}


def routing(**more: Any) -> dict[str, Any]:
    return {"schema_version": 1, "global_default": "open:small", "rules": [RULE], **more}


@pytest.fixture
def ruled(town: Town) -> Town:
    """A rule chooses Claude; the default is a cheaper model elsewhere."""
    write_home(town.home, routing=routing())
    return town


@pytest.fixture
def live(ruled: Town, serve: Any) -> Running:
    return serve(ruled.home)


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_fallback_is_visible_in_headers_and_ledger(
    ruled: Town, live: Running, is_stream: bool
) -> None:
    ruled.anthropic.then(*DOWN)
    ruled.openai.then(says("from the other"))
    told = live.chat("write code", stream=is_stream)
    assert told.status_code == 200
    assert told.headers["x-pointsman-fallback-from"] == "claude:opus"
    assert told.headers["x-pointsman-model"] == "open:small"
    assert told.headers["x-pointsman-policy"] == "global_default"
    ends = live.outcomes(2)
    assert [(end["model"], end["error_class"]) for end in ends] == [
        ("claude:opus", "server_error"),
        ("open:small", ""),
    ]
    first, again = live.entries("decision.turn")
    assert (first.kind, again.kind) == ("decision.turn", "decision.turn.fallback")
    assert first.ref == again.ref == told.headers["x-pointsman-turn"]
    assert again.id == told.headers["x-pointsman-decision"]
    assert [each.ref for each in live.entries("outcome")] == [first.id, again.id]
    assert facts_of(ruled.home, again.id).excluded_models == ("claude:opus",)


def test_the_lock_moves_to_the_model_that_served(ruled: Town, live: Running) -> None:
    ruled.anthropic.then(*DOWN)
    ruled.openai.then(calls(("look", {})), says("done"))
    first = live.chat("write code")
    message = first.json()["choices"][0]["message"]
    history = [{"role": "user", "content": "write code"}, message,
               {"role": "tool", "tool_call_id": "call_1", "content": "x"}]  # fmt: skip
    again = live.post("/v1/chat/completions", {"model": "auto", "messages": history})
    assert again.headers["x-pointsman-model"] == "open:small"
    assert again.headers["x-pointsman-turn"] == first.headers["x-pointsman-turn"]


def test_switched_off_the_failure_is_told(ruled: Town) -> None:
    write_home(ruled.home, pointsman={"fallback": {"mode": "off"}})
    ruled.anthropic.then(*DOWN)
    with running(ruled.home) as live:
        told = live.chat("write code")
        assert told.status_code == 502
        assert "x-pointsman-fallback-from" not in told.headers
        live.outcomes(1)
        assert live.kinds() == ["decision.turn", "outcome"]
    assert not ruled.openai.requests


@pytest.mark.parametrize("model", ["claude:opus", "opus"])
def test_a_named_model_has_no_fallback_unless_configured(ruled: Town, model: str) -> None:
    ruled.anthropic.then(*DOWN)
    with running(ruled.home) as live:
        assert live.chat("hello", model=model).status_code == 502
    assert not ruled.openai.requests
    write_home(ruled.home, pointsman={"fallback": {"for_named_models": True}})
    ruled.anthropic.then(*DOWN)
    with running(ruled.home) as live:
        told = live.chat("hello", model=model)
        assert told.headers["x-pointsman-fallback-from"] == "claude:opus"
        assert told.headers["x-pointsman-notice"] == "turns.choice_rejected"


def test_a_model_chosen_in_the_text_is_followed_by_another_and_the_caller_is_told(
    ruled: Town,
) -> None:
    ruled.anthropic.then(*DOWN)
    with running(ruled.home) as live:
        told = live.chat("@opus hello")
        assert told.status_code == 200
        assert told.headers["x-pointsman-fallback-from"] == "claude:opus"
        assert told.headers["x-pointsman-notice"] == "turns.choice_rejected"


def test_a_fallback_may_not_cost_more_than_agreed(ruled: Town) -> None:
    write_home(
        ruled.home,
        routing=routing(global_default="claude:opus", rules=[{**RULE, "use": "open:small"}]),
        pointsman={"fallback": {"max_price_ratio": 2}},
    )
    ruled.openai.then(*DOWN)
    with running(ruled.home) as live:
        told = live.chat("write code")
        assert told.status_code == 502
        assert told.headers["x-pointsman-model"] == "open:small"
    assert not ruled.anthropic.requests


def test_a_turn_that_stays_local_falls_back_to_nothing_in_the_cloud(ruled: Town) -> None:
    write_home(ruled.home, routing=routing(rules=[{**RULE, "use": "house:llama"}]))
    ruled.local.then(*DOWN)
    with running(ruled.home) as live:
        told = live.chat("write code", headers={"x-pointsman-privacy": "local"})
        assert told.status_code == 502
        live.outcomes(1)
        assert live.kinds().count("decision.turn.fallback") == 0
    assert not ruled.openai.requests
    assert not ruled.anthropic.requests


@pytest.mark.parametrize("why", ["secret", "taint"])
def test_what_stays_local_does_not_leave_by_fallback(ruled: Town, why: str) -> None:
    secret = "my key is AKIAIOSFODNN7EXAMPLQ, write code"
    write_home(
        ruled.home,
        routing=routing(rules=[{**RULE, "use": "house:llama"}]),
        placement=keeps("secret"),
    )
    with running(ruled.home) as live:
        headers = {"x-session-id": "s"}
        if why == "taint":
            assert live.chat(secret, headers=headers).status_code == 200
        ruled.local.then(*DOWN)
        told = live.chat("write code" if why == "taint" else secret, headers=headers)
        assert told.status_code == 502
        assert told.headers["x-pointsman-model"] == "house:llama"
    assert not ruled.openai.requests
    assert not ruled.anthropic.requests


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("fault", ["reset_mid_body", "close_mid_body"])
def test_before_the_first_content_another_model_takes_over(
    ruled: Town, live: Running, path: str, fault: str
) -> None:
    ruled.anthropic.then(FAULTS[fault].reply)
    ruled.openai.then(says("whole answer"))
    told = live.post(path, asked(path, "write code"))
    assert told.headers["x-pointsman-fallback-from"] == "claude:opus"
    assert told.text.count("whole ") == 1 or "whole answer" in told.text


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("model", ["claude:opus", "open:small"])
@pytest.mark.parametrize("ending", ["reset", "close", "end"])
def test_after_the_first_content_a_typed_error_follows_and_no_text_twice(
    ruled: Town, live: Running, path: str, model: str, ending: str
) -> None:
    write_home(ruled.home, routing=routing(rules=[{**RULE, "use": model}]))
    live.parts.pointsman.reload()
    upstream = ruled.anthropic if model.startswith("claude") else ruled.openai
    upstream.then(breaks_off("alpha beta gamma", ending))
    told = live.post(path, asked(path, "write code"))
    assert told.status_code == 200
    assert told.text.count("alpha") == 1
    assert "gamma" not in told.text
    last = streamed(told)[-1]
    if path == "/v1/chat/completions":
        assert last["error"]["code"] == "upstream_error"
        assert "[DONE]" not in told.text
        assert chat_text(streamed(told)) == "alpha be"
    elif path == "/v1/messages":
        assert (last["type"], last["error"]["type"]) == ("error", "api_error")
    else:
        assert last["type"] in ("error", "response.failed")
    (end,) = live.outcomes(1)
    assert end["error_class"] == "network"
    assert end["spent"]["is_estimated"]
    assert live.kinds() == ["decision.turn", "outcome"]


def asked(path: str, text: str) -> dict[str, Any]:
    if path == "/v1/responses":
        return {"model": "auto", "input": text, "stream": True}
    more = {"max_tokens": 50} if path == "/v1/messages" else {}
    return {
        "model": "auto", "stream": True, "messages": [{"role": "user", "content": text}], **more
    }  # fmt: skip


def test_four_models_down_is_told_after_the_most_attempts(ruled: Town) -> None:
    rules = [
        {"name": "a", "when": {"message_matches": "code"}, "use": "claude:opus"},
        {"name": "b", "when": {"message_matches": "cod"}, "use": "open:big"},
        {"name": "c", "when": {"message_matches": "co"}, "use": "open:small"},
    ]
    write_home(
        ruled.home,
        routing=routing(rules=rules, global_default="house:llama"),
        pointsman={"fallback": {"most_attempts": 3}},
    )
    for each in (ruled.anthropic, ruled.openai, ruled.openai):
        each.then(*DOWN)
    with running(ruled.home) as live:
        told = live.chat("write code")
        assert told.status_code == 502
        assert told.headers["x-pointsman-fallback-from"] == "claude:opus, open:big"
        live.outcomes(3)
        assert live.kinds().count("decision.turn.fallback") == 2
    assert not ruled.local.requests


def test_what_recovers_within_one_call_changes_no_availability(ruled: Town, live: Running) -> None:
    ruled.anthropic.then(fails(500), fails(500), says("back"))
    told = live.chat("write code")
    assert told.headers["x-pointsman-model"] == "claude:opus"
    (end,) = live.outcomes(1)
    assert (end["attempts"], end["error_class"]) == (3, "")
    assert live.parts.health.now() == {}


@pytest.mark.req(145)
def test_retries_that_are_exhausted_within_one_call_change_no_availability(
    ruled: Town, live: Running
) -> None:
    ruled.anthropic.then(*DOWN)
    live.chat("write code")
    live.outcomes(2)
    assert live.parts.health.now() == {}
    assert live.chat("write code").headers["x-pointsman-model"] == "claude:opus"


def test_a_model_that_is_out_is_passed_over_and_probed_by_one_real_request(
    ruled: Town, live: Running
) -> None:
    ruled.anthropic.then(fails(401, "authentication_error"))
    assert live.chat("write code").headers["x-pointsman-fallback-from"] == "claude:opus"
    told = live.chat("write code")
    assert told.headers["x-pointsman-model"] == "open:small"
    assert "x-pointsman-fallback-from" not in told.headers
    assert len(ruled.anthropic.requests) == 1
    rows = live.get("/api/providers").json()["rows"]
    assert any("claude" in str(row) and "unavailable" in str(row) for row in rows)


def test_every_decision_replays(ruled: Town, live: Running) -> None:
    ruled.anthropic.then(*DOWN)
    live.chat("write code")
    live.chat("hello")
    live.outcomes(3)
    report = live.post("/api/replay", {}).json()
    assert (report["identical"], report["diverged"], report["unable"]) == (3, 0, 0)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"n": 2}, "no_multiple_choices_support"),
        ({"response_format": {"type": "json_object"}}, "no_json_mode_support"),
    ],
)
def test_what_the_named_model_cannot_be_told_is_refused_by_its_code(
    live: Running, town: Town, body: dict[str, Any], code: str
) -> None:
    told = live.chat("hello", model="claude:opus", **body)
    assert told.status_code == 400
    assert told.json()["error"]["code"] == code
    assert "choose a model" in told.json()["error"]["message"]
    assert not town.anthropic.requests
