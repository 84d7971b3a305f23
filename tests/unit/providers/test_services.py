"""The services of the table, each on the wire as its vendor documents it."""

from __future__ import annotations

import json

import msgspec
import pytest
from tests.unit.providers.calling import Sleeps, run

from pointsman.providers.dialects.chat.stream import stream_reader
from pointsman.providers.dialects.tap import end_of, tap
from pointsman.providers.dialects.whole import fold
from pointsman.providers.failures import complaint_of
from pointsman.providers.http.provider import HttpProvider, ProviderEnvironment
from pointsman.providers.messages import Text, Thinking, Usage
from pointsman.providers.port import Deadlines, Outgoing, UpstreamError
from pointsman.providers.vendors import VENDORS, vendor_of
from pointsman.testing.upstream import ScriptedUpstream
from pointsman.testing.upstream_replies import SendBytes, does, plain, stream_answer
from pointsman.turns.registry.models import Provider, ProviderKey
from pointsman.turns.registry.services import SERVICES

CHAT = [each for each in SERVICES if each.wire == "openai"]
ASKED = {"model": "m", "messages": [{"role": "user", "content": "seed and stream_options"}]}
MODERN = {**ASKED, "max_completion_tokens": 5, "stream_options": {"include_usage": True}, "seed": 7}
OLD = {**ASKED, "max_tokens": 5, "stream_options": {"include_usage": True}, "seed": 7}
DONE = b"data: [DONE]\n\n"


def sent(kind, body, *replies):
    """Send one request to a service; return what its server received, and the answer's bytes."""

    async def work():
        async with ScriptedUpstream(*replies) as upstream:
            configured = Provider(
                kind=kind,
                base_url=f"{upstream.base_url}/api",
                api_key=ProviderKey(env="KEY_OF_SERVICE"),
            )
            it = HttpProvider(
                "it",
                VENDORS[kind],
                configured,
                "/nonexistent",
                surroundings=ProviderEnvironment(sleep=Sleeps(), jitter=lambda: 0.0, retries=0),
            )
            outgoing = Outgoing("chat", "m", json.dumps(body).encode(), is_stream=False)
            try:
                answer = await it.send(outgoing, Deadlines())
                found = await answer.read()
            except UpstreamError as error:
                found = error
            await it.close()
            await upstream.wait_for_disconnects()
        return upstream.requests[-1], found

    return run(work)


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("KEY_OF_SERVICE", "sk-of-the-service")


@pytest.mark.parametrize("service", CHAT, ids=lambda each: each.name)
def test_a_service_gets_its_key_its_path_and_its_own_names_of_fields(service):
    request, _ = sent(service.name, MODERN)
    version = "/v1" if service.location == "local" else ""
    assert request.path == f"/api{version}/chat/completions"
    assert request.header("authorization") == "Bearer sk-of-the-service"
    body = request.json
    limit = service.renames.get("max_completion_tokens", "max_completion_tokens")
    assert body[limit] == 5
    assert ("max_completion_tokens" in body) == (limit == "max_completion_tokens")
    assert body[service.renames.get("seed", "seed")] == 7
    assert ("stream_options" in body) == ("stream_options" not in service.leaves_out)
    assert body["messages"] == ASKED["messages"]


def test_mistral_gets_no_field_that_it_refuses():
    request, _ = sent("mistral", MODERN)
    assert request.json.keys() == {"model", "messages", "max_tokens", "random_seed"}


def test_cerebras_gets_the_new_name_of_the_limit():
    request, _ = sent("cerebras", OLD)
    assert (request.json["max_completion_tokens"], "max_tokens" in request.json) == (5, False)


def test_where_both_names_of_a_field_are_given_the_service_s_own_counts():
    request, _ = sent("deepseek", {**MODERN, "max_tokens": 3})
    assert request.json["max_tokens"] == 3
    assert "max_completion_tokens" not in request.json


@pytest.mark.parametrize("service", CHAT, ids=lambda each: each.name)
def test_a_request_without_such_fields_goes_out_byte_for_byte(service):
    request, _ = sent(service.name, ASKED)
    assert request.body == json.dumps(ASKED).encode()


def chunk(usage=None, *, choices=True, **delta):
    choice = {"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}
    value = {"id": "c1", "object": "chat.completion.chunk", "choices": [choice] if choices else []}
    return b"data: " + msgspec.json.encode({**value, "usage": usage}) + b"\n\n"


STREAMS = {
    # The last chunk with a choice tells it.
    "mistral": (
        [chunk(content="hi"), chunk({"prompt_tokens": 9, "completion_tokens": 2})],
        Usage(9, 2),
    ),
    "deepseek": (
        [
            chunk(content="hi"),
            chunk(
                {
                    "prompt_tokens": 9,
                    "completion_tokens": 2,
                    "total_tokens": 11,
                    "prompt_cache_hit_tokens": 6,
                    "prompt_cache_miss_tokens": 3,
                }
            ),
        ],
        Usage(3, 2, 6),
    ),
    # total = prompt + completion + reasoning.
    "xai": (
        [
            chunk(reasoning_content="hm"),
            chunk(content="hi"),
            chunk(),
            chunk(
                {
                    "prompt_tokens": 32,
                    "completion_tokens": 9,
                    "total_tokens": 135,
                    "prompt_tokens_details": {"cached_tokens": 6},
                    "completion_tokens_details": {"reasoning_tokens": 94},
                },
                choices=False,
            ),
        ],
        Usage(26, 103, 6, 0, 94),
    ),
    # OpenAI's own count has the reasoning within.
    "groq": (
        [
            chunk(reasoning="hm"),
            chunk(content="hi"),
            chunk(),
            chunk(
                {
                    "prompt_tokens": 9,
                    "completion_tokens": 8,
                    "total_tokens": 17,
                    "completion_tokens_details": {"reasoning_tokens": 5},
                },
                choices=False,
            ),
        ],
        Usage(9, 8, 0, 0, 5),
    ),
    # Each chunk tells the usage so far.
    "perplexity": (
        [
            chunk({"prompt_tokens": 9, "completion_tokens": 1}, content="h"),
            chunk({"prompt_tokens": 9, "completion_tokens": 2}, content="i"),
            chunk({"prompt_tokens": 9, "completion_tokens": 2}),
        ],
        Usage(9, 2),
    ),
    "openrouter": (
        [
            b": OPENROUTER PROCESSING\n\n",
            chunk(content="hi"),
            b": OPENROUTER PROCESSING\n\n",
            chunk({"prompt_tokens": 9, "completion_tokens": 2, "cost": 0.00014}),
        ],
        Usage(9, 2),
    ),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_what_a_stream_of_the_service_used_is_known_exactly(kind):
    pieces, usage = STREAMS[kind]
    reply = does(SendBytes(stream_answer([*pieces, DONE])))
    _, body = sent(kind, {**ASKED, "stream": True}, reply)
    reader, seen = stream_reader(), tap("chat")
    seen.feed(body)
    seen.end()
    answer = fold([*reader.feed(body), *reader.end()])
    assert (seen.usage, answer.usage, seen.stop_reason) == (usage, usage, "end")
    assert answer.content[-1] == Text("hi")
    assert (Thinking("hm") in answer.content) == (kind in {"xai", "groq"})


def test_reasoning_beside_the_completion_is_output_in_a_whole_answer_too():
    used = {
        "prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135,
        "completion_tokens_details": {"reasoning_tokens": 94},
    }  # fmt: skip
    choice = {"message": {"content": "hi"}, "finish_reason": "stop"}
    body = json.dumps({"choices": [choice], "usage": used}).encode()
    assert end_of("chat", body) == (Usage(32, 103, 0, 0, 94), "end")


def test_an_error_in_a_stream_of_openrouter_breaks_the_answer_off():
    error = {"error": {"code": 502, "message": "provider disconnected"}, "choices": []}
    seen = tap("chat")
    seen.feed(chunk(content="hi") + b"data: " + msgspec.json.encode(error) + b"\n\n")
    assert seen.is_broken


@pytest.mark.parametrize(
    ("kind", "status", "body", "error_class", "said"),
    [
        (
            "mistral", 422,
            {"object": "error", "message": {"detail": [
                {"type": "extra_forbidden", "loc": ["body", "user"], "msg": "Extra inputs"}
            ]}, "type": "invalid_request_error", "code": None},
            "invalid_request", "user: Extra inputs",
        ),
        (
            "cerebras", 401,
            {"message": "Wrong API Key", "type": "invalid_request_error", "param": "api_key",
             "code": "wrong_api_key"},
            "auth", "Wrong API Key",
        ),
        (
            "xai", 400, {"code": "invalid-argument", "error": "Model not found: grok-0"},
            "invalid_request", "Model not found: grok-0",
        ),
        (
            "sglang", 422, {"detail": [{"loc": ["body", "n"], "msg": "must be positive"}]},
            "invalid_request", "n: must be positive",
        ),
        (
            "vllm", 404, {"detail": "Not Found"}, "invalid_request", "Not Found",
        ),
        (
            "together", 429, {"error": {"type": "rate_limit", "message": "slow down"}},
            "rate_limit", "slow down",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)  # fmt: skip
def test_the_words_of_a_service_s_error_are_passed_on(kind, status, body, error_class, said):
    reply = does(SendBytes(plain(json.dumps(body).encode(), status)))
    _, error = sent(kind, ASKED, reply)
    assert (error.status, error.error_class, error.said) == (status, error_class, said)


def test_an_answer_is_no_complaint():
    assert complaint_of(b'{"choices":[{"message":{"content":"x"}}],"usage":{}}') is None


@pytest.mark.parametrize(
    ("kind", "region", "address"),
    [
        ("bedrock", "eu-west-1", "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        ("vertex", "europe-west1", "https://europe-west1-aiplatform.googleapis.com"),
        ("vertex", "global", "https://aiplatform.googleapis.com"),
    ],
)
def test_a_cloud_is_asked_in_its_region(kind, region, address):
    configured = Provider(kind=kind, region=region, project="p" if kind == "vertex" else "")
    vendor = vendor_of(configured)
    assert vendor.base_url == address
    assert all(region in path for path in vendor.paths.values()) is (kind == "vertex")
