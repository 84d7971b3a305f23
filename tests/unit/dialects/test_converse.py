"""Converse: what is written is what botocore's model of the service takes, and what is read."""

from __future__ import annotations

import base64
from typing import Any

import botocore.session
import msgspec
import pytest
from botocore.validate import ParamValidator
from msgspec import Raw

from pointsman.errors import InputError
from pointsman.providers.dialects import chat, converse, messages
from pointsman.providers.dialects.loss import CannotSay
from pointsman.providers.dialects.tap import end_of, said_in_answer, said_in_stream, tap
from pointsman.providers.dialects.whole import fold
from pointsman.providers.http.event_stream import EventStreamDecoder
from pointsman.providers.messages import (
    RedactedThinking,
    Response,
    Text,
    Thinking,
    ToolUse,
    Usage,
)
from pointsman.providers.streaming import AnswerBroken
from pointsman.testing.converse_wire import converse_frames, converse_whole, frame

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVA = "amazon.nova-pro-v1:0"
PIXEL = "iVBORw0KGgo="
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def operation() -> Any:
    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    return service.operation_model("Converse")


def written(body: dict[str, Any], model: str = CLAUDE, dialect: Any = chat) -> dict[str, Any]:
    request = dialect.read_request(msgspec.json.encode({"model": "m", **body}))
    found: dict[str, Any] = msgspec.json.decode(converse.write_request(request, model).body)
    return found


def lost(body: dict[str, Any], model: str = CLAUDE, dialect: Any = chat) -> set[str]:
    request = dialect.read_request(msgspec.json.encode({"model": "m", **body}))
    return {each.what for each in converse.write_request(request, model).lost}


def blobs(value: Any) -> Any:
    """Turn base64 into bytes, as botocore takes blobs."""
    if isinstance(value, list):
        return [blobs(each) for each in value]
    if isinstance(value, dict):
        return {
            key: base64.b64decode(each) if key in ("bytes", "redactedContent") else blobs(each)
            for key, each in value.items()
        }
    return value


FULL = {
    "model": "m",
    "system": "be brief",
    "max_tokens": 4000,
    "stop_sequences": ["END"],
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "tools": [{"name": "weather", "description": "d", "input_schema": SCHEMA, "strict": True}],
    "tool_choice": {"type": "auto"},
    "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                             "data": PIXEL}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hmm", "signature": "SIG"},
                {"type": "redacted_thinking", "data": PIXEL},
                {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain",
                 "is_error": True},
                {"type": "text", "text": "and?"},
            ],
        },
    ],
}  # fmt: skip


def test_a_full_request_is_written_as_the_service_takes_it(operation: Any) -> None:
    found = written(FULL, dialect=messages)
    assert found == {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"text": "see"},
                    {"image": {"format": "png", "source": {"bytes": PIXEL}}},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hmm", "signature": "SIG"}}},
                    {"reasoningContent": {"redactedContent": PIXEL}},
                    {"toolUse": {"toolUseId": "toolu_1", "name": "weather",
                                 "input": {"city": "Oslo"}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "toolu_1", "content": [{"text": "rain"}],
                                    "status": "error"}},
                    {"text": "and?"},
                ],
            },
        ],
        "system": [{"text": "be brief"}],
        "toolConfig": {
            "tools": [{"toolSpec": {"name": "weather", "description": "d",
                                    "inputSchema": {"json": SCHEMA}, "strict": True}}],
            "toolChoice": {"auto": {}},
        },
        "outputConfig": {
            "textFormat": {
                "type": "json_schema",
                "structure": {"jsonSchema": {
                    "schema": msgspec.json.encode(SCHEMA).decode()}},
            }
        },
        "inferenceConfig": {"maxTokens": 4000, "stopSequences": ["END"]},
        "additionalModelRequestFields": {
            "thinking": {"type": "enabled", "budget_tokens": 2000}
        },
    }  # fmt: skip
    report = ParamValidator().validate(blobs({"modelId": CLAUDE, **found}), operation.input_shape)
    assert not report.has_errors(), report.generate_report()


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ("auto", {"auto": {}}),
        ("required", {"any": {}}),
        ({"type": "function", "function": {"name": "weather"}}, {"tool": {"name": "weather"}}),
    ],
)
def test_choices_of_tools(choice: Any, wanted: Any, operation: Any) -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
    found = written({"messages": HI, "tools": [tool], "tool_choice": choice})
    assert found["toolConfig"]["toolChoice"] == wanted
    shape = operation.input_shape
    assert not ParamValidator().validate({"modelId": "m", **found}, shape).has_errors()


CALL = {
    "role": "assistant",
    "tool_calls": [
        {"id": "x" * 60, "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    ],
}
DONE = {"role": "tool", "tool_call_id": "x" * 60, "content": "  "}


def test_calls_of_a_history_have_their_tools_declared_where_the_caller_names_none() -> None:
    found = written({"messages": [*HI, CALL, DONE]})
    (spec,) = found["toolConfig"]["tools"]
    assert spec["toolSpec"]["name"] == "weather"
    call, result = found["messages"][1]["content"][0], found["messages"][2]["content"][0]
    assert call["toolUse"]["toolUseId"] == result["toolResult"]["toolUseId"]
    assert len(call["toolUse"]["toolUseId"]) <= 64
    assert result["toolResult"]["content"] == [], "a blank text is refused"


def test_tools_that_must_not_be_called_are_left_out_unless_the_history_calls_them() -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
    body = {"messages": HI, "tools": [tool], "tool_choice": "none"}
    assert "toolConfig" not in written(body)
    with pytest.raises(CannotSay, match="forbid"):
        written({**body, "messages": [*HI, CALL, DONE]})


def test_settings_of_claude_stand_beside_those_of_all_models() -> None:
    asked = {"messages": HI, "temperature": 0.5, "top_p": 0.9, "max_tokens": 9}
    assert written(asked)["inferenceConfig"] == {"maxTokens": 9, "temperature": 0.5}
    both = {"maxTokens": 9, "temperature": 0.5, "topP": 0.9}
    assert written(asked, NOVA)["inferenceConfig"] == both
    assert lost({**asked, "reasoning_effort": "low"}, NOVA) == {"thinking_effort"}
    adaptive = written({"messages": HI, "reasoning_effort": "high"}, "anthropic.claude-opus-4-7")
    assert adaptive["additionalModelRequestFields"] == {
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
    }
    top_k = {"messages": HI, "max_tokens": 5, "top_k": 3}
    assert written(top_k, dialect=messages)["additionalModelRequestFields"] == {"top_k": 3}
    assert lost(top_k, NOVA, messages) == {"top_k"}
    assert lost({"messages": HI, "user": "u", "seed": 1}) == {"user", "seed"}
    assert "inferenceConfig" not in written({"messages": HI}, NOVA)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"messages": HI, "response_format": {"type": "json_object"}}, "json without a schema"),
        ({"messages": [{"role": "user", "content": " "}]}, "no message has any content"),
        (
            {"messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}}]}]},
            "image",
        ),
        (
            {"messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/tiff;base64,AA=="}}]}]},
            "image",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_refused(body: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        written(body)


ANSWER = Response(
    "id",
    (
        Thinking("hmm so", "SIG", "anthropic"),
        RedactedThinking(PIXEL),
        Text("hello there"),
        ToolUse("toolu_1", "weather", Raw(b'{"city":"Oslo"}')),
    ),
    "tool_use",
    Usage(100, 30, 60, 5),
)


def read_stream(data: bytes, size: int) -> tuple[Response, Any]:
    decoder, reader, seen, events = (
        EventStreamDecoder("req-1"),
        converse.stream_reader(),
        tap("converse"),
        [],
    )
    for at in range(0, len(data), size):
        piece = decoder.feed(data[at : at + size])
        seen.feed(piece)
        events += reader.feed(piece)
    seen.end()
    return fold([*events, *reader.end()]), seen


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_stream_is_read_as_what_was_said(size: int) -> None:
    found, seen = read_stream(b"".join(converse_frames(ANSWER)), size)
    assert found == msgspec.structs.replace(ANSWER, id="req-1")
    assert (seen.usage, seen.stop_reason, seen.has_content) == (ANSWER.usage, "tool_use", True)
    assert "hello there" in seen.sampled_text()[0]


def test_a_whole_answer_is_read_as_what_was_said() -> None:
    body = msgspec.json.encode(converse_whole(ANSWER, "m"))
    found = converse.read_response(body)
    assert msgspec.structs.replace(found, id="id") == ANSWER
    assert len(found.id) == 24
    assert end_of("converse", body) == (ANSWER.usage, "tool_use")
    assert "hello there" in said_in_answer("converse", body)


def test_unsigned_reasoning_belongs_to_no_vendor_and_does_not_go_back() -> None:
    told = Response("i", (Thinking("hmm"), Text("x")), "end", Usage())
    found = converse.read_response(msgspec.json.encode(converse_whole(told, "m")))
    assert found.content[0] == Thinking("hmm")


def test_an_error_inside_a_stream_ends_it() -> None:
    data = frame("throttlingException", {"message": "slow"}, message_type="exception")
    reader = converse.stream_reader()
    text = EventStreamDecoder("").feed(data)
    assert reader.feed(text) == [AnswerBroken("ThrottlingException", "slow")]
    assert reader.end() == []
    seen = tap("converse")
    seen.feed(text)
    assert seen.is_broken


def test_a_stream_that_ends_early_is_told() -> None:
    pieces = converse_frames(ANSWER)
    found, seen = read_stream(b"".join(pieces[:6]), 100)
    assert (found.stop_reason, seen.stop_reason) == ("error", None)
    assert said_in_stream("converse", b'{"text":"a"}') == "a"


@pytest.mark.parametrize(
    ("reason", "wanted"),
    [
        ("guardrail_intervened", "refusal"),
        ("content_filtered", "refusal"),
        ("model_context_window_exceeded", "length"),
        ("malformed_tool_use", "error"),
        ("something_new", "end"),
    ],
)
def test_reasons_to_stop(reason: str, wanted: str) -> None:
    body = {"output": {"message": {"content": [{"text": "x"}]}}, "stopReason": reason}
    assert converse.read_response(msgspec.json.encode(body)).stop_reason == wanted
    stop = {"messageStop": {"stopReason": reason}}
    reader = converse.stream_reader()
    reader.feed(b"data: " + msgspec.json.encode(stop) + b"\n\n")
    assert reader.end()[-1].reason == wanted  # type: ignore[union-attr]
