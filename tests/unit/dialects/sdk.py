"""The vendors' own SDKs as oracles: their types, strictly, and their clients without a network."""

import json
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import anthropic
import httpx2
import openai
from anthropic.types import Message as AnthropicMessage
from anthropic.types import RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParamsBase
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses import Response as OpenAIResponse
from openai.types.responses import ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import TypeAdapter
from typing_extensions import (
    get_type_hints,
    is_typeddict,
)

from pointsman.providers.dialects.sse import EventReader

ANSWERS = {
    "chat": TypeAdapter(ChatCompletion),
    "responses": TypeAdapter(OpenAIResponse),
    "messages": TypeAdapter(AnthropicMessage),
}
EVENTS = {
    "chat": TypeAdapter(ChatCompletionChunk),
    "responses": TypeAdapter(ResponseStreamEvent),
    "messages": TypeAdapter(RawMessageStreamEvent),
}
REQUESTS = {
    "chat": CompletionCreateParamsBase,
    "responses": ResponseCreateParamsBase,
    "messages": MessageCreateParamsBase,
}
# `stream` stands in subclasses; Anthropic's newest types have dropped what older models still take.
MORE_FIELDS = {
    "chat": {"stream"},
    "responses": {"stream"},
    "messages": {"stream", "temperature", "top_p", "top_k"},
}


def check_answer(dialect, body):
    return ANSWERS[dialect].validate_json(body, strict=True)


def check_stream(dialect, data):
    events = EventReader().feed(data)
    return [
        EVENTS[dialect].validate_json(event.data, strict=True)
        for event in events
        if event.data != b"[DONE]"
    ]


def check_request(dialect, body):
    value = {k: v for k, v in json.loads(body).items() if k not in MORE_FIELDS[dialect]}
    wrong = mismatch(value, REQUESTS[dialect], "$")
    assert not wrong, wrong


def mismatch(value, wanted, where):  # noqa: PLR0911 - one for each kind of type
    """Say where a value is not of a type of the SDK; unlike theirs, this refuses unknown keys."""
    wanted, origin = bare(wanted)
    inner = get_args(wanted)
    if origin in (Union, UnionType):
        found = [mismatch(value, each, where) for each in inner]
        return "" if "" in found else " | ".join(found)
    if origin is Literal:
        return "" if value in inner else f"{where}: {value!r} is none of {inner}"
    if is_typeddict(wanted):
        return mismatched_keys(value, wanted, where)
    if wanted in (Any, object):
        return ""
    if origin in (dict, Mapping):
        return "" if isinstance(value, dict) else f"{where}: not a dict"
    if origin is not None:
        if not isinstance(value, list):
            return f"{where}: not a list"
        found = (mismatch(each, inner[0], f"{where}[{at}]") for at, each in enumerate(value))
        return next((each for each in found if each), "")
    is_number = wanted is float and type(value) in (int, float)
    is_it = is_number or type(value) is wanted
    return "" if is_it else f"{where}: {value!r} is no {wanted}"


def mismatched_keys(value, wanted, where):
    if not isinstance(value, dict):
        return f"{where}: not an object"
    hints = get_type_hints(wanted, include_extras=True)
    missing = wanted.__required_keys__ - value.keys()
    if missing or value.keys() - hints.keys():
        return f"{where}: {wanted.__name__} lacks {missing}, not {value.keys() - hints.keys()}"
    found = (mismatch(value[key], hints[key], f"{where}.{key}") for key in value)
    return next((each for each in found if each), "")


def bare(wanted):
    while get_origin(wanted) in (Required, NotRequired, Annotated):
        wanted = get_args(wanted)[0]
    return wanted, get_origin(wanted)


def pieces(data, size):
    for start in range(0, len(data), size):
        yield data[start : start + size]


def client(dialect, status, body, content_type="application/json"):
    """Give the vendor's client whose every call is answered with these bytes, piece by piece."""

    def answer(request):
        return httpx2.Response(
            status, headers={"content-type": content_type}, content=pieces(body, 7)
        )

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    kind = anthropic.Anthropic if dialect == "messages" else openai.OpenAI
    return kind(api_key="k", base_url="http://upstream.test/v1", http_client=http, max_retries=0)
