"""Azure OpenAI behind the gateway: deployments in the address, keys and tokens of Entra."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest
from tests.gateway.house import (
    Running,
    Upstream,
    breaks_off,
    chat_text,
    model,
    running,
    streamed,
    upstream,
    write_home,
)

from pointsman.providers.messages import Text, Usage
from pointsman.testing.upstream_replies import (
    SendBytes,
    a_response,
    answers,
    calls,
    does,
    fails,
    grants,
    plain,
    stream_answer,
)

ANSWER = a_response(Text("hello from azure"), usage=Usage(100, 30, 60))
MODEL = "az:prod-gpt"
PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
KEY = {"api_key": {"env": "AZURE_KEY"}}
VERSION = {"api_version": "2024-10-21"}
TOOL = {"type": "object", "properties": {"city": {"type": "string"}}}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


@contextmanager
def house(path: Path, **more: Any) -> Iterator[tuple[Upstream, Upstream, Running]]:
    """Run a gateway before an Azure, with a token endpoint beside it."""
    with ExitStack() as stack:
        server = stack.enter_context(upstream(otherwise=answers(ANSWER)))
        entra = stack.enter_context(upstream(otherwise=grants("token-1")))
        if "login" in more:
            more["login"]["token_url"] = f"{entra.url}/t-1/oauth2/v2.0/token"
        provider = {"kind": "azure", "base_url": server.url, **more}
        models = {"schema_version": 1, "providers": {"az": provider}, "models": {MODEL: model()}}
        yield server, entra, stack.enter_context(running(write_home(path / "home", models=models)))


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_KEY", "key-of-azure")
    monkeypatch.setenv("ENTRA_SECRET", "s3cret of entra".replace(" ", "~"))


def login() -> dict[str, Any]:
    return {"tenant": "t-1", "client": "c-1", "secret": {"env": "ENTRA_SECRET"}}


def asked(path: str, **more: Any) -> dict[str, Any]:
    if path == "/v1/responses":
        return {"model": MODEL, "input": "hi", **more}
    return {
        "model": MODEL, "messages": [{"role": "user", "content": "hi"}],
        **({"max_tokens": 500} if path == "/v1/messages" else {}), **more,
    }  # fmt: skip


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("version", [{}, VERSION])
def test_an_answer_reaches_callers_of_each_format_and_is_charged_exactly(
    tmp_path: Path, path: str, version: dict[str, str], is_stream: bool
) -> None:
    with house(tmp_path, **KEY, **version) as (server, _, live):
        answer = live.post(path, asked(path, stream=is_stream))
        assert answer.status_code == 200, answer.text
        assert "hello fr" in answer.text
        (sent,) = server.requests
        by_deployment = "/openai/deployments/prod-gpt/chat/completions?api-version=2024-10-21"
        assert sent.target == (by_deployment if version else "/openai/v1/chat/completions")
        assert (sent.header("api-key"), sent.header("authorization")) == ("key-of-azure", None)
        assert sent.json["model"] == "prod-gpt"
        (end,) = live.outcomes(1)
        spent = end["spent"]
        told = (spent["input_tokens"], spent["output_tokens"], spent["cached_input_tokens"])
        assert (told, spent["is_estimated"]) == ((100, 30, 60), False)


@pytest.mark.parametrize(
    ("suffix", "version", "target"),
    [
        ("/openai/v1", {}, "/openai/v1/responses"),
        ("/openai/v1/", {}, "/openai/v1/responses"),
        ("/openai", VERSION, "/openai/responses?api-version=2024-10-21"),
        ("", VERSION, "/openai/responses?api-version=2024-10-21"),
    ],
)
def test_responses_are_spoken_where_the_provider_says_so(
    tmp_path: Path, suffix: str, version: dict[str, str], target: str
) -> None:
    with upstream(otherwise=answers(ANSWER)) as server:
        more = {"base_url": server.url + suffix, "speaks": ["responses"]}
        with house(tmp_path, **KEY, **version, **more) as (_, _, live):
            assert live.post(PATHS[2], asked(PATHS[2])).status_code == 200
        assert server.requests[0].target == target


def test_embeddings_go_to_the_deployment(tmp_path: Path) -> None:
    with house(tmp_path, **KEY, **VERSION) as (server, _, live):
        told = {"object": "list", "data": [], "model": "m", "usage": {"prompt_tokens": 3}}
        server.then(does(SendBytes(plain(json.dumps(told).encode()))))
        assert live.post("/v1/embeddings", {"model": MODEL, "input": "hi"}).status_code == 200
        wanted = "/openai/deployments/prod-gpt/embeddings?api-version=2024-10-21"
        assert server.requests[0].target == wanted


def test_a_token_of_entra_is_fetched_once_and_kept(
    tmp_path: Path,
) -> None:
    with house(tmp_path, login=login()) as (server, entra, live):
        for path in (*PATHS, PATHS[0]):
            assert live.post(path, asked(path)).status_code == 200
        assert {each.header("authorization") for each in server.requests} == {"Bearer token-1"}
        assert server.requests[0].header("api-key") is None
        (fetched,) = entra.requests
        assert parse_qs(fetched.body.decode()) == {
            "grant_type": ["client_credentials"],
            "client_id": ["c-1"],
            "client_secret": ["s3cret~of~entra"],
            "scope": ["https://cognitiveservices.azure.com/.default"],
        }
        assert len(live.outcomes(4)) == 4


def test_a_token_that_is_called_back_is_fetched_anew_within_the_call(tmp_path: Path) -> None:
    with house(tmp_path, login=login()) as (server, entra, live):
        assert live.chat(model=MODEL).status_code == 200
        entra.then(grants("token-2"))
        server.then(fails(401, code="401"))
        assert live.chat(model=MODEL).status_code == 200
        assert server.requests[-1].header("authorization") == "Bearer token-2"
        assert len(entra.requests) == 2


def test_a_token_near_its_end_is_fetched_anew(tmp_path: Path) -> None:
    with house(tmp_path, login=login()) as (_, entra, live):
        entra.then(grants("short", 0), grants("short", 0))
        for _ in range(3):
            assert live.chat(model=MODEL).status_code == 200
        assert len(entra.requests) == 3


@pytest.mark.parametrize(
    ("status", "kind"), [(401, "auth"), (400, "auth"), (429, "rate_limit"), (503, "server_error")]
)
def test_a_refused_login_is_told_without_the_secret_or_its_words(
    tmp_path: Path, status: int, kind: str
) -> None:
    body = {"error": "invalid_client", "error_description": "AADSTS7000215: s3cret~of~entra"}
    with house(tmp_path, login=login()) as (server, entra, live):
        entra.then(*[does(SendBytes(plain(json.dumps(body).encode(), status)))] * 3)
        answer = live.chat(model=MODEL)
        assert answer.status_code in (429, 502, 503)
        assert "AADSTS" not in answer.text
        assert "s3cret" not in answer.text
        assert server.requests == []
        assert live.outcomes(1)[0]["error_class"] == kind


FILTERED = {
    "error": {
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's content "
        "management policy.",
        "type": None, "param": "prompt", "code": "content_filter", "status": 400,
        "innererror": {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {"hate": {"filtered": True, "severity": "high"}},
        },
    }
}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "body", "headers", "wanted"),
    [
        (400, FILTERED, {}, (400, "invalid_request")),
        (401, {"error": {"code": "401", "message": "Access denied due to invalid subscription "
               "key or wrong API endpoint."}}, {}, (502, "auth")),
        (404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this "
               "resource does not exist."}}, {}, (404, "invalid_request")),
        (429, {"error": {"code": "429", "message": "Requests have exceeded the token rate limit."}},
         {"retry-after": "7", "retry-after-ms": "6500"}, (429, "rate_limit")),
        (408, {"error": {"code": "Timeout", "message": "The operation was timeout."}}, {},
         (502, "network")),
        (500, {"error": {"code": "InternalServerError", "message": "oops"}}, {},
         (502, "server_error")),
    ],
)  # fmt: skip
def test_an_error_has_its_class(
    tmp_path: Path, status: int, body: Any, headers: dict[str, str], wanted: tuple[int, str]
) -> None:
    with house(tmp_path, **KEY) as (server, _, live):
        server.then(*[does(SendBytes(plain(json.dumps(body).encode(), status, headers)))] * 3)
        answer = live.chat(model=MODEL)
        (end,) = live.outcomes(1)
        assert (answer.status_code, end["error_class"]) == wanted
        assert body is not FILTERED or "content management policy" in answer.text


def filtered_stream() -> bytes:
    """A stream as Azure sends it: the filter's findings first, empty choices, findings behind."""
    safe = {"hate": {"filtered": False, "severity": "safe"}}
    own = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
    choices: list[Any] = [
        {"delta": {"role": "assistant", "content": ""}, "content_filter_results": {}},
        {"delta": {"content": "one two"}, "content_filter_results": safe},
        {"delta": {}, "finish_reason": "content_filter", "content_filter_results": safe},
    ]
    rest = [{"index": 0, "finish_reason": None, **each} for each in choices]
    chunks = [
        {**own, "choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        *({**own, "choices": [each]} for each in rest),
        {**own, "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
    ]
    pieces = [b"data: " + msgspec.json.encode(each) + b"\n\n" for each in chunks]
    return stream_answer([*pieces, b"data: [DONE]\n\n"])


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_with_findings_of_the_filter_is_carried_and_ends_as_a_refusal(
    tmp_path: Path, path: str
) -> None:
    with house(tmp_path, **KEY) as (server, _, live):
        server.then(does(SendBytes(filtered_stream())))
        answer = live.post(path, asked(path, stream=True))
        assert answer.status_code == 200
        assert "one two" in answer.text
        (end,) = live.outcomes(1)
        assert (end["stop_reason"], end["spent"]["input_tokens"]) == ("refusal", 9)


@pytest.mark.parametrize("path", PATHS)
def test_tools_and_images_are_carried(tmp_path: Path, path: str) -> None:
    with house(tmp_path, **KEY, **VERSION) as (server, _, live):
        server.then(calls(("weather", {"city": "Oslo"})))
        function = {"name": "weather", "parameters": TOOL}
        picture: dict[str, Any] = {"type": "image_url", "image_url": {"url": PIXEL}}
        tool: dict[str, Any] = {"type": "function", "function": function}
        if path == PATHS[1]:
            source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
            picture, tool = {"type": "image", "source": source}, {"name": "weather",
                                                                  "input_schema": TOOL}  # fmt: skip
        if path == PATHS[2]:
            picture = {"type": "input_image", "image_url": PIXEL}
            tool = {"type": "function", **function}
        key = "input" if path == PATHS[2] else "messages"
        said = {key: [{"role": "user", "content": [picture]}]}
        answer = live.post(path, asked(path, **said, tools=[tool]))
        assert "Oslo" in answer.text
        sent = server.requests[0].json
        assert b'"name":"weather"' in server.requests[0].body.replace(b": ", b":")
        assert sent["messages"] == [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PIXEL}}]}
        ]
        assert live.outcomes(1)[0]["stop_reason"] == "tool_use"


@pytest.mark.parametrize("ending", ["reset", "close", "end"])
def test_a_cut_stream_is_told_as_cut_and_charged(tmp_path: Path, ending: str) -> None:
    with house(tmp_path, **KEY) as (server, _, live):
        server.then(breaks_off("one two three four five six", ending))
        answer = live.post(PATHS[0], asked(PATHS[0], stream=True))
        assert chat_text(streamed(answer)).startswith("one two")
        assert '"error"' in answer.text
        assert live.outcomes(1)[0]["error_class"] == "network"
