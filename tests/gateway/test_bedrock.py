"""Bedrock behind the gateway, by Converse and its event stream, for callers of all three."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from pointsman.testing.converse_wire import frame
from pointsman.testing.upstream_replies import (
    Received,
    Reply,
    SendBytes,
    a_response,
    answer_events,
    answers,
    calls,
    does,
    plain,
    stream_answer,
    stream_head,
)

USED = Usage(100, 30, 60, 5)
ANSWER = a_response(Thinking("hmm", "SIG", "anthropic"), Text("hello from bedrock"), usage=USED)
NAME = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
MODEL = f"b:{NAME}"
PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}
PIXEL = "iVBORw0KGgo="
LOGIN = {"access_key": {"env": "AK"}, "secret_key": {"env": "SK"}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Upstream, Running]]:
    monkeypatch.setenv("AK", "AKIDEXAMPLE")
    monkeypatch.setenv("SK", "secret-half")
    with (
        upstream(otherwise=answers(ANSWER)) as server,
        running(write_home(tmp_path / "home", models=models_of(server.url))) as live,
    ):
        yield server, live


def models_of(url: str, **more: Any) -> dict[str, Any]:
    given = more or {"login": LOGIN}
    provider = {"kind": "bedrock", "region": "eu-west-1", "base_url": url, **given}
    return {"schema_version": 1, "providers": {"b": provider}, "models": {MODEL: model()}}


def asked(path: str, text: str = "hi", **more: Any) -> dict[str, Any]:
    if path == "/v1/responses":
        return {"model": MODEL, "input": text, **more}
    limit = {"max_tokens": 500} if path == "/v1/messages" else {}
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **limit, **more}


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_an_answer_reaches_callers_of_each_format_and_is_charged_exactly(
    home: tuple[Upstream, Running], path: str, is_stream: bool
) -> None:
    server, live = home
    answer = live.post(path, asked(path, stream=is_stream))
    assert answer.status_code == 200, answer.text
    halves = ("hello fro", "m bedrock") if is_stream else ("hello from bedrock",)
    assert all(each in answer.text for each in halves)
    (sent,) = server.requests
    verb = "converse-stream" if is_stream else "converse"
    assert sent.target == f"/model/{NAME.replace(':', '%3A')}/{verb}"
    signed = sent.header("authorization") or ""
    assert signed.startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-date," in signed
    assert sent.json["messages"] == [{"role": "user", "content": [{"text": "hi"}]}]
    (end,) = live.outcomes(1)
    spent = end["spent"]
    assert (end["stop_reason"], spent["is_estimated"]) == ("end", False)
    told = (spent["input_tokens"], spent["output_tokens"], spent["cached_input_tokens"])
    assert told == (100, 30, 60)


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_tool_loop_keeps_ids_signatures_and_the_turn(
    home: tuple[Upstream, Running], is_stream: bool
) -> None:
    server, live = home
    server.then(calls(("weather", {"city": "Oslo"})))
    tools = [{"name": "weather", "input_schema": TOOL}]
    body = asked("/v1/messages", tools=tools)
    first = live.post("/v1/messages", body).json()
    assert first["stop_reason"] == "tool_use"
    (call,) = first["content"]
    assert (call["name"], call["input"]) == ("weather", {"city": "Oslo"})
    history = [
        *body["messages"],
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hmm", "signature": "SIG"}, call]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call["id"], "content": "rain"}]},
    ]  # fmt: skip
    again = live.post("/v1/messages", {**body, "messages": history, "stream": is_stream})
    assert again.status_code == 200
    sent = server.requests[1].json
    reasoning = {"reasoningText": {"text": "hmm", "signature": "SIG"}}
    use = {"toolUseId": call["id"], "name": "weather", "input": {"city": "Oslo"}}
    result = {"toolUseId": call["id"], "content": [{"text": "rain"}]}
    assert sent["messages"] == [
        {"role": "user", "content": [{"text": "hi"}]},
        {"role": "assistant", "content": [{"reasoningContent": reasoning}, {"toolUse": use}]},
        {"role": "user", "content": [{"toolResult": result}]},
    ]
    decided = [each for each in live.kinds() if each.startswith("decision.")]
    assert len(decided) == 1, "a result of a tool goes on in its turn"


@pytest.mark.parametrize("path", PATHS)
def test_a_streamed_call_ends_as_a_call_of_a_tool(
    home: tuple[Upstream, Running], path: str
) -> None:
    server, live = home
    server.then(calls(("weather", {"city": "Oslo"})))
    tool: dict[str, Any] = {"type": "function", "name": "weather", "parameters": TOOL}
    if path == PATHS[0]:
        tool = {"type": "function", "function": {"name": "weather", "parameters": TOOL}}
    if path == PATHS[1]:
        tool = {"name": "weather", "input_schema": TOOL}
    answer = live.post(path, asked(path, stream=True, tools=[tool]))
    assert "Os" in answer.text
    assert live.outcomes(1)[0]["stop_reason"] == "tool_use"


@pytest.mark.parametrize("path", PATHS)
def test_images_are_carried(home: tuple[Upstream, Running], path: str) -> None:
    server, live = home
    address = f"data:image/png;base64,{PIXEL}"
    picture: dict[str, Any] = {"type": "image_url", "image_url": {"url": address}}
    if path == PATHS[1]:
        source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        picture = {"type": "image", "source": source}
    if path == PATHS[2]:
        picture = {"type": "input_image", "image_url": address}
    key = "input" if path == PATHS[2] else "messages"
    body = asked(path, **{key: [{"role": "user", "content": [picture]}]})
    assert live.post(path, body).status_code == 200
    image = {"format": "png", "source": {"bytes": PIXEL}}
    assert server.requests[0].json["messages"][0]["content"] == [{"image": image}]


ERRORS: list[tuple[int, str, str, tuple[int, str]]] = [
    (400, "ValidationException", "The text field is blank.", (400, "invalid_request")),
    (400, "ValidationException", "Input is too long for requested model.",
     (400, "context_overflow")),
    (403, "AccessDeniedException", "You don't have access to the model.", (502, "auth")),
    (403, "ExpiredTokenException", "The security token is expired", (502, "auth")),
    (400, "UnrecognizedClientException", "The security token is invalid.", (502, "auth")),
    (404, "ResourceNotFoundException", "Could not resolve the model.", (404, "invalid_request")),
    (408, "ModelTimeoutException", "took too long", (504, "timeout")),
    (424, "ModelErrorException", "the model failed", (502, "server_error")),
    (429, "ThrottlingException:http://internal.amazon.com/", "Too many tokens",
     (429, "rate_limit")),
    (400, "ServiceQuotaExceededException", "quota", (400, "rate_limit")),
    (500, "InternalServerException", "oops", (502, "server_error")),
    (503, "ServiceUnavailableException", "later", (502, "server_error")),
]  # fmt: skip


@pytest.mark.parametrize(("status", "kind", "words", "wanted"), ERRORS)
def test_an_error_has_its_class(
    home: tuple[Upstream, Running], status: int, kind: str, words: str, wanted: tuple[int, str]
) -> None:
    server, live = home
    body = json.dumps({"message": words}).encode()
    server.then(*[does(SendBytes(plain(body, status, {"x-amzn-errortype": kind})))] * 3)
    answer = live.post(PATHS[0], asked(PATHS[0]))
    (end,) = live.outcomes(1)
    assert (answer.status_code, end["error_class"]) == wanted
    assert words in answer.text or answer.status_code >= 500


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("ending", ["reset", "close", "end"])
def test_a_cut_stream_is_told_as_cut_and_charged(
    home: tuple[Upstream, Running], ending: str, path: str
) -> None:
    server, live = home
    server.then(breaks_off("one two three four five six", ending))
    answer = live.post(path, asked(path, stream=True))
    assert "one two" in answer.text
    assert "error" in answer.text
    (end,) = live.outcomes(1)
    assert (end["error_class"], end["spent"]["is_estimated"]) == ("network", True)


def within_a_frame(spoils: bool) -> Reply:
    """Stream an answer whose last event, that of the usage, is half or has a wrong checksum."""

    def reply(request: Received) -> list[SendBytes]:
        pieces = answer_events(request, a_response(Text("one two three four")))
        bad = pieces[-1][:-1] + b"\0" if spoils else pieces[-1][:20]
        return [SendBytes(stream_answer([*pieces[:-1], bad], stream_head(request)))]

    return reply


@pytest.mark.parametrize("spoils", [False, True])
def test_a_stream_that_ends_within_a_frame_or_is_spoilt_fails(
    home: tuple[Upstream, Running], spoils: bool
) -> None:
    server, live = home
    server.then(*[within_a_frame(spoils)] * 3)
    answer = live.post(PATHS[0], asked(PATHS[0], stream=True))
    assert "[DONE]" not in answer.text or '"error"' in answer.text
    assert live.outcomes(1)[0]["error_class"] == "network"


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("throttlingException", 502), ("modelStreamErrorException", 502)],
)
def test_an_exception_inside_a_stream_fails_the_call(
    home: tuple[Upstream, Running], kind: str, wanted: int
) -> None:
    server, live = home

    def reply(request: Received) -> list[SendBytes]:
        first = answer_events(request, a_response(Text("one")))[0]
        last = frame(kind, {"message": "not now"}, message_type="exception")
        return [SendBytes(stream_answer([first, last], stream_head(request)))]

    server.then(reply)
    answer = live.post(PATHS[0], asked(PATHS[0], stream=True))
    assert (answer.status_code, live.outcomes(1)[0]["error_class"]) == (wanted, "server_error")


def test_a_refusal_of_a_guardrail_is_a_refusal(home: tuple[Upstream, Running]) -> None:
    server, live = home
    server.then(answers(a_response(Text("no"), stop_reason="refusal")))
    answer = live.post(PATHS[0], asked(PATHS[0]))
    assert answer.json()["choices"][0]["finish_reason"] == "content_filter"


def test_a_key_of_bedrocks_own_is_a_bearer_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEDROCK_KEY", "bedrock-api-key-1")
    with upstream(otherwise=answers(ANSWER)) as server:
        models = models_of(server.url, api_key={"env": "BEDROCK_KEY"})
        with running(write_home(tmp_path / "home", models=models)) as live:
            assert live.chat(model=MODEL).status_code == 200
        assert server.requests[0].header("authorization") == "Bearer bedrock-api-key-1"
        assert server.requests[0].header("x-amz-date") is None


ASSUMED = (
    "<Credentials><AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
    "<SessionToken>{}</SessionToken></Credentials>"
)


def test_a_role_is_assumed_before_the_first_call_and_again_when_its_keys_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AK", "AKIDEXAMPLE")
    monkeypatch.setenv("SK", "secret-half")

    def granted(token: str) -> Reply:
        return does(SendBytes(plain(ASSUMED.format(token).encode(), content_type="text/xml")))

    with upstream(otherwise=answers(ANSWER)) as server, upstream(granted("one")) as sts:
        role = {"role": "arn:aws:iam::1:role/r", "token_url": sts.url}
        models = models_of(server.url, login={**LOGIN, **role})
        with running(write_home(tmp_path / "home", models=models)) as live:
            assert live.chat(model=MODEL).status_code == 200
            sts.then(granted("two"))
            told = b'{"message":"The security token one is expired"}'
            kind = {"x-amzn-errortype": "ExpiredTokenException"}
            server.then(does(SendBytes(plain(told, 403, kind))))
            assert live.chat(model=MODEL).status_code == 200
        tokens = [each.header("x-amz-security-token") for each in server.requests]
        assert tokens == ["one", "one", "two"]
        assert "Credential=ASIA1/" in (server.requests[0].header("authorization") or "")
