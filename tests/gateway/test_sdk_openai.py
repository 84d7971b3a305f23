"""OpenAI's own SDK as a client over a real port: on scripted providers of each vendor's format."""

from __future__ import annotations

import json
from collections.abc import Iterator

import openai
import pytest
from pydantic import BaseModel
from tests.gateway.conftest import Town
from tests.gateway.house import Running, Upstream, eventually, stalls

from pointsman.providers.messages import Text, Thinking, Usage
from pointsman.testing import answers, calls, fails, says
from pointsman.testing.upstream_replies import a_response

MODELS = ["open:big", "claude:opus"]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Tells the weather.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
PIXEL = "data:image/png;base64,iVBORw0KGgo="
ASKED = [{"role": "user", "content": "What is the weather?"}]


@pytest.fixture
def client(live: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="anything", max_retries=0) as made:
        yield made


def upstream_of(town: Town, model: str) -> Upstream:
    return town.openai if model.startswith("open:") else town.anthropic


@pytest.mark.parametrize("model", MODELS)
def test_a_plain_answer_with_its_usage(town: Town, client: openai.OpenAI, model: str) -> None:
    used = Usage(10, 5, cached_input_tokens=100, cache_creation_input_tokens=0)
    upstream_of(town, model).then(says("forty-two", usage=used))
    made = client.chat.completions.create(model=model, messages=ASKED)
    assert made.choices[0].message.content == "forty-two"
    assert made.choices[0].finish_reason == "stop"
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (110, 5)
    assert made.usage.prompt_tokens_details.cached_tokens == 100


@pytest.mark.parametrize("model", MODELS)
def test_a_streamed_answer(town: Town, client: openai.OpenAI, model: str) -> None:
    upstream_of(town, model).then(says("one two three four"))
    with client.chat.completions.create(
        model=model, messages=ASKED, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    text = "".join(each.choices[0].delta.content or "" for each in chunks if each.choices)
    assert text == "one two three four"
    assert [each.usage.total_tokens for each in chunks if each.usage] == [19]


@pytest.mark.parametrize("model", MODELS)
def test_no_chunk_lacks_a_choice_unless_usage_was_asked_for(
    client: openai.OpenAI, model: str
) -> None:
    with client.chat.completions.create(model=model, messages=ASKED, stream=True) as stream:
        assert all(each.choices for each in stream)


def asked_for_tools(client: openai.OpenAI, model: str, *, is_stream: bool):
    if not is_stream:
        return client.chat.completions.create(model=model, messages=ASKED, tools=TOOLS)
    with client.chat.completions.stream(model=model, messages=ASKED, tools=TOOLS) as stream:
        return stream.get_final_completion()


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_parallel_tool_calls_and_their_results(
    town: Town, client: openai.OpenAI, model: str, is_stream: bool
) -> None:
    cities = ["Bern", "Oslo"]
    wanted = [("weather", {"city": each}) for each in cities]
    upstream_of(town, model).then(calls(*wanted), says("cold"))
    choice = asked_for_tools(client, model, is_stream=is_stream).choices[0]
    assert choice.finish_reason == "tool_calls"
    used = choice.message.tool_calls or []
    assert [json.loads(each.function.arguments)["city"] for each in used] == cities
    called = {
        "role": "assistant",
        "tool_calls": [
            {"id": each.id, "type": "function",
             "function": {"name": each.function.name, "arguments": each.function.arguments}}
            for each in used
        ],
    }  # fmt: skip
    results = [{"role": "tool", "tool_call_id": each.id, "content": "4 degrees"} for each in used]
    told = client.chat.completions.with_raw_response.create(
        model=model, messages=[*ASKED, called, *results], tools=TOOLS
    )
    assert told.headers["x-pointsman-policy"] == "turn_lock"
    assert told.parse().choices[0].message.content == "cold"


@pytest.mark.parametrize("model", MODELS)
def test_an_image_reaches_the_provider(town: Town, client: openai.OpenAI, model: str) -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": PIXEL}},
    ]
    client.chat.completions.create(model=model, messages=[{"role": "user", "content": parts}])
    assert "iVBORw0KGgo=" in upstream_of(town, model).texts()


class Capital(BaseModel):
    city: str


@pytest.mark.parametrize("model", MODELS)
def test_structured_output_is_parsed(town: Town, client: openai.OpenAI, model: str) -> None:
    upstream_of(town, model).then(says('{"city": "Bern"}'))
    made = client.chat.completions.parse(model=model, messages=ASKED, response_format=Capital)
    assert made.choices[0].message.parsed == Capital(city="Bern")
    assert '"city"' in upstream_of(town, model).texts()


@pytest.mark.parametrize("model", MODELS)
def test_reasoning_is_shown(town: Town, client: openai.OpenAI, model: str) -> None:
    upstream_of(town, model).then(
        answers(a_response(Thinking("hm", "sig", "anthropic"), Text("yes")))
    )
    made = client.chat.completions.create(model=model, messages=ASKED)
    assert made.choices[0].message.content == "yes"
    assert made.choices[0].message.to_dict()["reasoning_content"] == "hm"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("reply", "error", "status"),
    [
        (fails(429, "rate_limit_error"), openai.RateLimitError, 429),
        (fails(400, "invalid_request_error", "bad"), openai.BadRequestError, 400),
        (fails(401, "authentication_error"), openai.InternalServerError, 502),
        (fails(500), openai.InternalServerError, 502),
    ],
)
def test_failures_are_the_sdks_own_errors(
    town: Town, client: openai.OpenAI, model: str, reply, error, status: int
) -> None:
    upstream_of(town, model).then(*[reply] * 3)
    with pytest.raises(error) as caught:
        client.chat.completions.create(model=model, messages=ASKED)
    assert caught.value.status_code == status
    assert caught.value.response.headers["x-pointsman-model"] == model
    assert "upstream-key" not in str(caught.value.body)


def test_an_unknown_model_is_404_with_the_nearest_name(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="did you mean `open:big`"):
        client.chat.completions.create(model="open:bigg", messages=ASKED)


@pytest.mark.parametrize("model", MODELS)
def test_a_caller_who_hangs_up_ends_the_call(
    town: Town, live: Running, client: openai.OpenAI, model: str
) -> None:
    upstream_of(town, model).then(stalls("one two"))
    with client.chat.completions.create(model=model, messages=ASKED, stream=True) as stream:
        next(each for each in stream if each.choices[0].delta.content)
    (end,) = live.outcomes(1)
    assert end["error_class"] == "cancelled"
    assert live.kinds() == ["decision.turn", "outcome"]
    eventually(lambda: upstream_of(town, model).scripted.open_connections == 0)


@pytest.mark.parametrize("model", MODELS)
def test_responses_plain_and_streamed(town: Town, client: openai.OpenAI, model: str) -> None:
    upstream_of(town, model).then(says("one two"), says("three four"))
    made = client.responses.create(model=model, input="hello", instructions="be brief")
    assert made.output_text == "one two"
    assert made.usage is not None
    assert made.usage.total_tokens == 19
    with client.responses.stream(model=model, input="hello") as stream:
        assert stream.get_final_response().output_text == "three four"


@pytest.mark.parametrize("model", MODELS)
def test_responses_call_tools_and_go_on(town: Town, client: openai.OpenAI, model: str) -> None:
    upstream_of(town, model).then(calls(("weather", {"city": "Bern"})), says("cold"))
    tools = [{"type": "function", **TOOLS[0]["function"], "strict": False}]
    made = client.responses.create(model=model, input="weather?", tools=tools)
    (call,) = made.output
    assert json.loads(call.arguments) == {"city": "Bern"}
    given = [
        {"role": "user", "content": "weather?"},
        {"type": "function_call", "call_id": call.call_id, "name": call.name,
         "arguments": call.arguments},
        {"type": "function_call_output", "call_id": call.call_id, "output": "4 degrees"},
    ]  # fmt: skip
    told = client.responses.with_raw_response.create(model=model, input=given, tools=tools)
    assert told.headers["x-pointsman-policy"] == "turn_lock"
    assert told.parse().output_text == "cold"


@pytest.mark.parametrize("model", MODELS)
def test_responses_structured_output(town: Town, client: openai.OpenAI, model: str) -> None:
    upstream_of(town, model).then(says('{"city": "Bern"}'))
    made = client.responses.parse(model=model, input="capital?", text_format=Capital)
    assert made.output_parsed == Capital(city="Bern")


def test_models_are_listed(client: openai.OpenAI) -> None:
    names = [each.id for each in client.models.list()]
    assert names[0] == "auto"
    assert {"open:big", "claude:opus", "house:llama", "embedded:smollm2-135m"} <= set(names)
    assert client.models.retrieve("open:big").owned_by == "open"
