"""Anthropic's own SDK as a client over a real port: on scripted providers of each format."""

from __future__ import annotations

import json
from collections.abc import Iterator

import anthropic
import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, Upstream, eventually, stalls

from pointsman.providers.messages import Text, Thinking, Usage
from pointsman.testing import answers, calls, fails, says
from pointsman.testing.upstream_replies import a_response

MODELS = ["claude:opus", "open:big"]
TOOLS = [
    {
        "name": "weather",
        "description": "Tells the weather.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]
ASKED = [{"role": "user", "content": "What is the weather?"}]
SIGNATURE = "EqQBCgIYAhIM+/aZ09=="


@pytest.fixture
def client(live: Running) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=live.url, api_key="anything", max_retries=0) as made:
        yield made


def upstream_of(town: Town, model: str) -> Upstream:
    return town.openai if model.startswith("open:") else town.anthropic


@pytest.mark.parametrize("model", MODELS)
def test_a_plain_answer_with_its_usage(town: Town, client: anthropic.Anthropic, model: str) -> None:
    upstream_of(town, model).then(says("forty-two", usage=Usage(10, 5, cached_input_tokens=100)))
    made = client.messages.create(model=model, max_tokens=100, messages=ASKED)
    assert made.content[0].text == "forty-two"
    assert made.stop_reason == "end_turn"
    assert (made.usage.input_tokens, made.usage.output_tokens) == (10, 5)
    assert made.usage.cache_read_input_tokens == 100


@pytest.mark.parametrize("model", MODELS)
def test_a_streamed_answer(town: Town, client: anthropic.Anthropic, model: str) -> None:
    upstream_of(town, model).then(says("one two three four"))
    with client.messages.stream(model=model, max_tokens=100, messages=ASKED) as stream:
        assert "".join(stream.text_stream) == "one two three four"
        assert stream.get_final_message().usage.output_tokens == 7


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_parallel_tool_calls_and_their_results(
    town: Town, client: anthropic.Anthropic, model: str, is_stream: bool
) -> None:
    cities = ["Bern", "Oslo"]
    upstream_of(town, model).then(calls(*(("weather", {"city": c}) for c in cities)), says("cold"))
    asked = {"model": model, "max_tokens": 100, "tools": TOOLS}
    if is_stream:
        with client.messages.stream(**asked, messages=ASKED) as stream:
            made = stream.get_final_message()
    else:
        made = client.messages.create(**asked, messages=ASKED)
    assert made.stop_reason == "tool_use"
    used = [each for each in made.content if each.type == "tool_use"]
    assert [each.input["city"] for each in used] == cities
    results = [
        {"type": "tool_result", "tool_use_id": each.id, "content": "4 degrees"} for each in used
    ]
    called = [
        {"type": "tool_use", "id": each.id, "name": each.name, "input": each.input} for each in used
    ]
    told = client.messages.with_raw_response.create(
        **asked,
        messages=[
            *ASKED,
            {"role": "assistant", "content": called},
            {"role": "user", "content": results},
        ],
    )
    assert told.headers["x-pointsman-policy"] == "turn_lock"
    assert told.parse().content[0].text == "cold"


@pytest.mark.parametrize("model", MODELS)
def test_an_image_reaches_the_provider(town: Town, client: anthropic.Anthropic, model: str) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "What is this?"}]
    client.messages.create(
        model=model, max_tokens=9, messages=[{"role": "user", "content": content}]
    )
    assert "iVBORw0KGgo=" in upstream_of(town, model).texts()


@pytest.mark.parametrize("model", MODELS)
def test_structured_output_reaches_the_provider(
    town: Town, client: anthropic.Anthropic, model: str
) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    upstream_of(town, model).then(says('{"city": "Bern"}'))
    made = client.messages.create(
        model=model,
        max_tokens=9,
        messages=ASKED,
        extra_body={"output_config": {"format": {"type": "json_schema", "schema": schema}}},
    )
    assert json.loads(made.content[0].text) == {"city": "Bern"}
    assert '"additionalProperties":false' in upstream_of(town, model).texts().replace(" ", "")


def test_a_signed_thought_passes_through_byte_for_byte(
    town: Town, client: anthropic.Anthropic
) -> None:
    thought = Thinking("let me think\u2028 — so", SIGNATURE, "anthropic")
    town.anthropic.then(answers(a_response(thought, Text("yes"))), says("and so on"))
    asked = {
        "model": "claude:opus",
        "max_tokens": 2000,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    with client.messages.stream(**asked, messages=ASKED) as stream:
        made = stream.get_final_message()
    assert (made.content[0].thinking, made.content[0].signature) == (thought.text, SIGNATURE)
    client.messages.create(
        **asked,
        messages=[
            *ASKED,
            {"role": "assistant", "content": [each.to_dict() for each in made.content]},
            {"role": "user", "content": "and then?"},
        ],
    )
    again = town.anthropic.requests[-1].json["messages"][1]["content"][0]
    assert (again["thinking"], again["signature"]) == (thought.text, SIGNATURE)


def test_unknown_fields_and_beta_headers_reach_a_provider_of_the_same_format(
    town: Town, live: Running
) -> None:
    body = (
        b'{"max_tokens" : 10,\n "model":"claude:opus", "messages":[{"role":"user","content":"hi"}]'
        b',"new_field":{"b":1.0, "a":[1e2]}}'
    )
    headers = {"anthropic_beta": "some-beta-2026", "anthropic_version": "2023-06-01"}
    live.post("/v1/messages?beta=true", body, **headers)
    (asked,) = town.anthropic.requests
    assert asked.body == body.replace(b'"claude:opus"', b'"opus"')
    assert asked.header("anthropic-beta") == "some-beta-2026"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (fails(429, "rate_limit_error"), anthropic.RateLimitError),
        (fails(400, "invalid_request_error", "bad"), anthropic.BadRequestError),
        (fails(500), anthropic.InternalServerError),
    ],
)
def test_failures_are_the_sdks_own_errors(
    town: Town, client: anthropic.Anthropic, model: str, reply, error
) -> None:
    upstream_of(town, model).then(*[reply] * 3)
    with pytest.raises(error) as caught:
        client.messages.create(model=model, max_tokens=9, messages=ASKED)
    assert caught.value.body["type"] == "error"
    assert caught.value.response.headers["x-pointsman-model"] == model


@pytest.mark.parametrize("model", MODELS)
def test_a_caller_who_hangs_up_ends_the_call(
    town: Town, live: Running, client: anthropic.Anthropic, model: str
) -> None:
    upstream_of(town, model).then(stalls("one two"))
    with client.messages.stream(model=model, max_tokens=9, messages=ASKED) as stream:
        next(iter(stream.text_stream))
    (end,) = live.outcomes(1)
    assert end["error_class"] == "cancelled"
    assert end["spent"]["is_estimated"]
    assert live.kinds() == ["decision.turn", "outcome"]
    eventually(lambda: upstream_of(town, model).scripted.open_connections == 0)


def test_tokens_are_counted(client: anthropic.Anthropic) -> None:
    count = client.messages.count_tokens(model="claude:opus", messages=ASKED, system="be brief")
    assert 5 <= count.input_tokens <= 20


def test_models_are_listed_for_this_sdk_too(client: anthropic.Anthropic) -> None:
    assert "claude:opus" in [each.id for each in client.models.list()]
    assert client.models.retrieve("claude:opus").id == "claude:opus"


def test_what_claude_code_sends_is_served(town: Town, live: Running) -> None:
    """System blocks with cache marks, tools, a user id, beta flags and a query."""
    mark = {"type": "ephemeral"}
    body = {
        "model": "claude-opus-4-8",
        "max_tokens": 32000,
        "stream": True,
        "temperature": 1,
        "metadata": {"user_id": '{"device_id":"d","session_id":"8b1c"}'},
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=00000;"},
            {"type": "text", "text": "You are Claude Code.", "cache_control": mark},
        ],
        "tools": [{**each, "cache_control": mark} for each in TOOLS],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "<system-reminder>today</system-reminder>"},
                    {"type": "text", "text": "hi", "cache_control": mark},
                ],
            }
        ],
    }
    told = live.post(
        "/v1/messages?beta=true",
        body,
        anthropic_beta="claude-code-20250219,interleaved-thinking-2025-05-14",
        anthropic_version="2023-06-01",
        authorization="Bearer sk-ant-oat01-whatever",
        x_app="cli",
        user_agent="claude-cli/2.1 (external, cli)",
        x_claude_code_session_id="8b1c",
    )
    assert told.status_code == 200
    assert told.headers["content-type"].startswith("text/event-stream")
    assert told.text.endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')
    (asked,) = town.anthropic.requests
    assert asked.json["system"] == body["system"]
    assert asked.json["model"] == "opus"
    assert asked.header("x-api-key") == "sk-ant-upstream-key"
    assert asked.header("authorization") is None
