"""Gemini behind the gateway, by its own format, for callers of all three."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.gateway.house import (
    Running,
    Upstream,
    breaks_off,
    model,
    running,
    upstream,
    write_home,
)

from pointsman.providers.messages import Text, Thinking, Usage
from pointsman.testing.upstream_replies import (
    SendBytes,
    a_response,
    answers,
    calls,
    does,
    plain,
    stream_answer,
)

USED = Usage(100, 30, 60, 0, 12)
ANSWER = a_response(Thinking("hmm"), Text("hello from gemini"), usage=USED)
MODEL = "g:gemini-2.5-flash"
PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}
PIXEL = "iVBORw0KGgo="


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Upstream, Running]]:
    monkeypatch.setenv("GEMINI_KEY", "AIza-of-the-test")
    with upstream(otherwise=answers(ANSWER)) as server:
        provider = {
            "kind": "gemini",
            "base_url": f"{server.url}/v1beta",
            "api_key": {"env": "GEMINI_KEY"},
        }
        models = {"schema_version": 1, "providers": {"g": provider}, "models": {MODEL: model()}}
        with running(write_home(tmp_path / "home", models=models)) as live:
            yield server, live


def asked(path: str, text: str = "hi", **more: Any) -> dict[str, Any]:
    if path == "/v1/responses":
        return {"model": MODEL, "input": text, **more}
    limit = {"max_tokens": 500} if path == "/v1/messages" else {}
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **limit, **more}


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_an_answer_of_gemini_reaches_callers_of_each_format_and_is_charged_exactly(
    home: tuple[Upstream, Running], path: str, is_stream: bool
) -> None:
    server, live = home
    answer = live.post(path, asked(path, stream=is_stream))
    assert answer.status_code == 200, answer.text
    halves = ("hello fro", "m gemini") if is_stream else ("hello from gemini",)
    assert all(each in answer.text for each in halves)
    assert "hm" in answer.text
    (sent,) = server.requests
    verb = "streamGenerateContent?alt=sse" if is_stream else "generateContent"
    assert sent.target == f"/v1beta/models/gemini-2.5-flash:{verb}"
    assert sent.header("x-goog-api-key") == "AIza-of-the-test"
    assert sent.header("authorization") is None
    assert sent.json["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
    (end,) = live.outcomes(1)
    spent = end["spent"]
    assert (end["stop_reason"], spent["is_estimated"]) == ("end", False)
    told = (spent["input_tokens"], spent["output_tokens"], spent["cached_input_tokens"])
    assert told == (100, 30, 60)


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_tool_loop_keeps_names_signatures_and_the_turn(
    home: tuple[Upstream, Running], is_stream: bool
) -> None:
    server, live = home
    server.then(calls(("weather", {"city": "Oslo"})))
    tools = [{"name": "weather", "input_schema": TOOL}]
    body = asked("/v1/messages", tools=tools, stream=False)
    first = live.post("/v1/messages", body).json()
    assert first["stop_reason"] == "tool_use"
    thinking, call = first["content"]
    assert (call["name"], call["input"]) == ("weather", {"city": "Oslo"})
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "rain"}
    history = [
        *body["messages"],
        {"role": "assistant", "content": [thinking, call]},
        {"role": "user", "content": [result]},
    ]
    again = live.post("/v1/messages", {**body, "messages": history, "stream": is_stream})
    assert again.status_code == 200
    declared = server.requests[0].json["tools"][0]["functionDeclarations"]
    assert declared == [{"name": "weather", "parametersJsonSchema": TOOL}]
    assert server.requests[1].json["contents"][1:] == [
        {
            "role": "model",
            "parts": [
                {
                    "functionCall": {"name": "weather", "args": {"city": "Oslo"}},
                    "thoughtSignature": "signed call_1",
                }
            ],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "weather", "response": {"output": "rain"}}}],
        },
    ]
    decided = [each for each in live.kinds() if each.startswith("decision.")]
    assert len(decided) == 1, "a result of a tool goes on in its turn"


def test_a_streamed_call_ends_as_a_call_of_a_tool(home: tuple[Upstream, Running]) -> None:
    server, live = home
    server.then(calls(("weather", {"city": "Oslo"})))
    function = {"name": "weather", "parameters": TOOL}
    body = asked(PATHS[0], stream=True, tools=[{"type": "function", "function": function}])
    answer = live.post(PATHS[0], body)
    assert '"finish_reason":"tool_calls"' in answer.text
    (end,) = live.outcomes(1)
    assert end["stop_reason"] == "tool_use"


def test_images_system_prompt_and_settings_are_carried(home: tuple[Upstream, Running]) -> None:
    server, live = home
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    schema = {"name": "s", "schema": TOOL}
    body = {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "see"}, picture]},
        ],
        "max_completion_tokens": 99,
        "temperature": 0.5,
        "stop": ["END"],
        "seed": 7,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": schema},
    }
    assert live.post(PATHS[0], body).status_code == 200
    assert server.requests[0].json == {
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "see"},
                    {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
                ],
            }
        ],
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "generationConfig": {
            "maxOutputTokens": 99,
            "temperature": 0.5,
            "stopSequences": ["END"],
            "seed": 7,
            "responseMimeType": "application/json",
            "responseJsonSchema": TOOL,
            "thinkingConfig": {"thinkingBudget": 2048, "includeThoughts": True},
        },
    }


@pytest.mark.parametrize(
    ("status", "error", "wanted"),
    [
        (
            400,
            {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT",
             "details": [{"@type": "t", "reason": "API_KEY_INVALID"}]},
            (502, "auth"),
        ),
        (
            400,
            {"code": 400, "message": "The input token count (9) exceeds the maximum number of "
             "tokens allowed (8).", "status": "INVALID_ARGUMENT"},
            (400, "context_overflow"),
        ),
        (429, {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"},
         (429, "rate_limit")),
        (503, {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"},
         (502, "server_error")),
    ],
)  # fmt: skip
def test_an_error_of_gemini_has_its_class(
    home: tuple[Upstream, Running], status: int, error: dict[str, Any], wanted: tuple[int, str]
) -> None:
    server, live = home
    server.then(*[does(SendBytes(plain(json.dumps({"error": error}).encode(), status)))] * 3)
    answer = live.post(PATHS[0], asked(PATHS[0]))
    (end,) = live.outcomes(1)
    assert (answer.status_code, end["error_class"]) == wanted
    assert error["message"] in answer.text or wanted[1] == "auth"


@pytest.mark.parametrize("ending", ["reset", "close", "end"])
def test_a_cut_stream_is_told_as_cut_and_charged(
    home: tuple[Upstream, Running], ending: str
) -> None:
    server, live = home
    server.then(breaks_off("one two three four five six", ending))
    answer = live.post(PATHS[1], asked(PATHS[1], stream=True))
    assert "one two" in answer.text
    assert "event: error" in answer.text
    assert "message_stop" not in answer.text
    (end,) = live.outcomes(1)
    assert (end["error_class"], end["spent"]["input_tokens"]) == ("network", 12)


def test_an_error_inside_a_stream_fails_the_call(home: tuple[Upstream, Running]) -> None:
    server, live = home
    first = {"candidates": [{"content": {"parts": [{"text": "one"}]}, "index": 0}]}
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    pieces = [b"data: " + msgspec.json.encode(each) + b"\r\n\r\n" for each in (first, error)]
    server.then(does(SendBytes(stream_answer(pieces))))
    answer = live.post(PATHS[0], asked(PATHS[0], stream=True))
    assert (answer.status_code, live.outcomes(1)[0]["error_class"]) == (502, "server_error")


def test_a_blocked_prompt_is_a_refusal(home: tuple[Upstream, Running]) -> None:
    server, live = home
    body = {
        "promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"promptTokenCount": 4},
        "responseId": "r",
    }
    server.then(does(SendBytes(plain(json.dumps(body).encode()))))
    answer = live.post(PATHS[0], asked(PATHS[0]))
    assert answer.json()["choices"][0]["finish_reason"] == "content_filter"
