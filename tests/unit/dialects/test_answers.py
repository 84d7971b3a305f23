"""Answers, whole and streamed: read back, folded, and parsed by the vendors' own SDKs."""

import anthropic
import msgspec
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.unit.dialects import sdk
from tests.unit.dialects.values import DIALECTS, responses

from pointsman.providers.dialects.whole import fold, unfold
from pointsman.providers.messages import (
    RedactedThinking,
    Response,
    Text,
    Thinking,
    ToolUse,
    Usage,
)
from pointsman.providers.registry.dialects import speaker
from pointsman.providers.streaming import (
    AnswerBroken,
    AnswerStarted,
    AnswerStopped,
    BlockEnded,
    BlockStarted,
    Delta,
)

PREFIXES = {"chat": "chatcmpl-", "responses": "resp_", "messages": "msg_"}
FULL = Response(
    "x1",
    (
        Thinking("let me see", "c2ln", "anthropic"),
        Text("Hello é"),
        ToolUse("call_1", "look_up", Raw(b'{"q":"a"}')),
        ToolUse("call_2", "look_up", Raw(b'{"q":"b"}')),
    ),
    "tool_use",
    Usage(100, 50, 30, 20, 10),
)


def expected(dialect, response):
    """What must come back: everything but what the page lists as lost."""
    content = response.content
    if dialect == "chat":
        content = tuple(
            Thinking(block.text) if isinstance(block, Thinking) else block
            for block in content
            if not isinstance(block, RedactedThinking)
            and not (isinstance(block, Thinking) and not block.text)
        )
    return msgspec.structs.replace(response, id=PREFIXES[dialect] + response.id, content=content)


def streamed(dialect, events, **options):
    writer = speaker(dialect).stream_writer("m", 7, **options)
    return b"".join(writer.write(event) for event in events)


def read_stream(dialect, pieces):
    reader = speaker(dialect).stream_reader()
    found = [event for piece in pieces for event in reader.feed(piece)]
    return found + reader.end()


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(deadline=None)
@given(response=responses())
def test_an_answer_written_and_read_is_the_same_answer(dialect, response):
    body = speaker(dialect).write_response(response, "m", 7)
    assert speaker(dialect).read_response(body) == expected(dialect, response)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(deadline=None)
@given(response=responses())
def test_the_sdk_of_the_vendor_takes_every_answer_strictly(dialect, response):
    sdk.check_answer(dialect, speaker(dialect).write_response(response, "m", 7))


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(deadline=None)
@given(response=responses(), size=st.integers(1, 60))
def test_a_stream_cut_anywhere_folds_into_the_whole_answer(dialect, response, size):
    data = streamed(dialect, unfold(response))
    found = read_stream(dialect, sdk.pieces(data, size))
    assert found == read_stream(dialect, [data])
    assert fold(found) == expected(dialect, response)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(deadline=None)
@given(response=responses())
def test_the_sdk_of_the_vendor_takes_every_event_strictly(dialect, response):
    sdk.check_stream(dialect, streamed(dialect, unfold(response)))


@pytest.mark.parametrize("source", DIALECTS)
@pytest.mark.parametrize("target", DIALECTS)
def test_a_stream_of_one_dialect_becomes_a_stream_of_another(source, target):
    heard = read_stream(source, [streamed(source, unfold(FULL))])
    told = read_stream(target, [streamed(target, heard)])
    assert [block for block in fold(told).content if not isinstance(block, Thinking)] == [
        *FULL.content[1:]
    ]
    assert fold(told).stop_reason == "tool_use"
    assert fold(told).usage == FULL.usage


def test_the_openai_client_reads_a_chat_stream_as_its_own():
    body = streamed("chat", unfold(FULL))
    client = sdk.client("chat", 200, body, "text/event-stream")
    with client.chat.completions.stream(
        model="m", messages=[{"role": "user", "content": "q"}]
    ) as stream:
        stream.until_done()
        final = stream.get_final_completion()
    message = final.choices[0].message
    assert message.content == "Hello é"
    assert [call.function.arguments for call in message.tool_calls] == ['{"q":"a"}', '{"q":"b"}']
    assert final.choices[0].finish_reason == "tool_calls"
    assert final.usage.prompt_tokens == 150
    assert final.usage.prompt_tokens_details.cached_tokens == 30


def test_the_openai_client_reads_a_responses_stream_as_its_own():
    body = streamed("responses", unfold(FULL))
    client = sdk.client("responses", 200, body, "text/event-stream")
    with client.responses.stream(model="m", input="q") as stream:
        final = stream.get_final_response()
    assert final.output_text == "Hello é"
    assert [each.type for each in final.output] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert final.usage.total_tokens == 200


def test_the_anthropic_client_reads_a_messages_stream_as_its_own():
    body = streamed("messages", unfold(FULL))
    client = sdk.client("messages", 200, body, "text/event-stream")
    with client.messages.stream(
        model="m", max_tokens=9, messages=[{"role": "user", "content": "q"}]
    ) as stream:
        final = stream.get_final_message()
    assert [block.type for block in final.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert final.content[0].signature == "c2ln"
    assert final.content[3].input == {"q": "b"}
    assert final.stop_reason == "tool_use"
    assert final.usage.input_tokens == 100
    assert final.usage.cache_read_input_tokens == 30


def test_a_chat_stream_is_role_then_words_then_calls_then_its_end_then_usage_then_done():
    lines = streamed("chat", unfold(FULL)).decode().strip().split("\n\n")
    chunks = [msgspec.json.decode(line.removeprefix("data: ")) for line in lines[:-1]]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "let me see"},
        {"content": "Hello é"},
        {"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                         "function": {"name": "look_up", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"q":"a"}'}}]},
        {"tool_calls": [{"index": 1, "id": "call_2", "type": "function",
                         "function": {"name": "look_up", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": '{"q":"b"}'}}]},
        {},
    ]  # fmt: skip
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["usage"]["total_tokens"] == 200
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert lines[-1] == "data: [DONE]"


def test_a_chat_stream_tells_its_usage_only_when_asked():
    data = streamed("chat", unfold(FULL), wants_usage=False)
    assert b"usage" not in data
    assert data.endswith(b"data: [DONE]\n\n")


def test_a_messages_stream_has_the_events_of_anthropic_in_their_order():
    events = sdk.check_stream("messages", streamed("messages", unfold(FULL)))
    assert [event.type for event in events] == [
        "message_start",
        "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
        *["content_block_start", "content_block_delta", "content_block_stop"] * 3,
        "message_delta",
        "message_stop",
    ]  # fmt: skip


def test_a_responses_stream_has_the_events_of_openai_in_their_order_with_their_numbers():
    events = sdk.check_stream("responses", streamed("responses", unfold(FULL)))
    assert [event.sequence_number for event in events] == [*range(len(events))]
    assert [event.type.removeprefix("response.") for event in events] == [
        "created", "in_progress",
        "output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta",
        "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
        "content_part.done", "output_item.done",
        *["output_item.added", "function_call_arguments.delta", "function_call_arguments.done",
          "output_item.done"] * 2,
        "completed",
    ]  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_that_ends_early_is_told_as_broken(dialect):
    data = streamed(dialect, [*unfold(FULL)][:-1])
    assert read_stream(dialect, [data])[-1] == AnswerBroken(
        "incomplete_stream", "the stream ended before the answer did"
    )
    assert fold(read_stream(dialect, [data])).stop_reason == "error"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_in_the_middle_comes_in_the_form_of_the_vendor(dialect):
    begun = [AnswerStarted("a", Usage()), BlockStarted(0, "text"), Delta(0, "He")]
    data = streamed(dialect, [*begun, AnswerBroken("provider_failed", "the provider broke off")])
    assert read_stream(dialect, [data])[-1].message.endswith("the provider broke off")
    raw = streamed(dialect, begun) + speaker(dialect).error_event("provider_failed", "no more")
    assert read_stream(dialect, [raw])[-1].message.endswith("no more")


def test_the_clients_raise_what_they_would_raise_for_their_vendor_in_mid_stream():
    begun = [AnswerStarted("a", Usage()), BlockStarted(0, "text"), Delta(0, "He")]
    broken = AnswerBroken("provider_failed", "the provider broke off")
    body = streamed("chat", [*begun, broken])
    chat = sdk.client("chat", 200, body, "text/event-stream")
    with pytest.raises(openai.APIError, match="broke off"):
        [*chat.chat.completions.create(model="m", messages=[], stream=True)]
    body = streamed("messages", [*begun, broken])
    messages = sdk.client("messages", 200, body, "text/event-stream")
    with pytest.raises(anthropic.APIStatusError, match="broke off"):
        [*messages.messages.create(model="m", max_tokens=1, messages=[], stream=True)]
    body = streamed("responses", [*begun, broken])
    events = [
        *sdk.client("responses", 200, body, "text/event-stream").responses.create(
            model="m", input="q", stream=True
        )
    ]
    assert [event.type for event in events[-2:]] == ["error", "response.failed"]


@pytest.mark.parametrize("dialect", ["chat", "responses"])
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (503, openai.InternalServerError),
    ],
)
def test_an_error_has_the_shape_of_openai(dialect, status, kind):
    body = speaker(dialect).write_error(status, "over_budget", "nothing is left")
    with pytest.raises(kind) as caught:
        sdk.client(dialect, status, body).models.list()
    assert caught.value.code == "over_budget"
    assert "nothing is left" in caught.value.message
    assert set(msgspec.json.decode(body)["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("status", "kind", "name"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (401, anthropic.AuthenticationError, "authentication_error"),
        (402, anthropic.APIStatusError, "billing_error"),
        (403, anthropic.PermissionDeniedError, "permission_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (503, anthropic.InternalServerError, "api_error"),
    ],
)
def test_an_error_has_the_shape_of_anthropic(status, kind, name):
    body = speaker("messages").write_error(status, "over_budget", "nothing is left", "req_1")
    with pytest.raises(kind) as caught:
        sdk.client("messages", status, body).models.list()
    assert caught.value.body == {
        "type": "error",
        "error": {"type": name, "message": "over_budget: nothing is left"},
        "request_id": "req_1",
    }


@pytest.mark.parametrize(
    ("dialect", "stops"),
    [
        ("chat", {"end": "stop", "length": "length", "tool_use": "tool_calls",
                  "stop_sequence": "stop", "refusal": "content_filter"}),
        ("messages", {"end": "end_turn", "length": "max_tokens", "tool_use": "tool_use",
                      "stop_sequence": "stop_sequence", "refusal": "refusal"}),
        ("responses", {"end": None, "length": "max_output_tokens", "tool_use": None,
                       "stop_sequence": None, "refusal": "content_filter"}),
    ],
)  # fmt: skip
def test_the_reasons_to_stop_have_the_words_of_each_vendor(dialect, stops):
    for reason, word in stops.items():
        answer = Response("x", (Text("a"),), reason, Usage(1, 1))
        body = msgspec.json.decode(speaker(dialect).write_response(answer, "m", 7))
        if dialect == "chat":
            found = body["choices"][0]["finish_reason"]
        elif dialect == "messages":
            found = body["stop_reason"]
        else:
            found = (body["incomplete_details"] or {}).get("reason")
        assert found == word


def test_usage_of_openai_includes_what_was_cached_and_ours_does_not():
    body = (
        b'{"id":"c","choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":'
        b'{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":'
        b'{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":2}}}'
    )
    assert speaker("chat").read_response(body).usage == Usage(40, 5, 60, 0, 2)


def test_reasoning_of_deepseek_and_of_openrouter_is_thinking():
    for key in ("reasoning_content", "reasoning"):
        body = msgspec.json.encode(
            {"choices": [{"message": {"content": "a", key: "why"}, "finish_reason": "stop"}]}
        )
        assert speaker("chat").read_response(body).content == (Thinking("why"), Text("a"))
        data = msgspec.json.encode({"choices": [{"delta": {key: "why"}}]})
        found = speaker("chat").stream_reader().feed(b"data: " + data + b"\n\n")
        assert found[1:] == [BlockStarted(0, "thinking"), Delta(0, "why")]


def test_calls_that_all_have_index_0_are_told_apart_by_their_ids():
    reader = speaker("chat").stream_reader()
    for number in (1, 2):
        call = {"index": 0, "id": f"c{number}", "function": {"name": "f", "arguments": "{}"}}
        data = msgspec.json.encode({"choices": [{"delta": {"tool_calls": [call]}}]})
        found = reader.feed(b"data: " + data + b"\n\n")
        assert BlockStarted(number - 1, "tool_use", f"c{number}", "f") in found
    assert reader.feed(b'data: {"choices":[{"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n') == [
        BlockEnded(1),
        AnswerStopped("tool_use", Usage()),
    ]
