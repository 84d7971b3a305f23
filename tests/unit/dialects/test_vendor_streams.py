"""Streams as the vendors and other servers really send them, not as we write them."""

import json

import pytest
from msgspec import Raw
from tests.unit.dialects.test_answers import read_stream

from pointsman.errors import InputError
from pointsman.providers.dialects.loss import CannotSay
from pointsman.providers.dialects.whole import fold
from pointsman.providers.messages import Text, Thinking, ToolUse, Usage
from pointsman.providers.registry.dialects import speaker
from pointsman.providers.streaming import AnswerBroken, AnswerStarted, Signature


def named(*events):
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (each["type"].encode(), json.dumps(each).encode())
        for each in events
    )


def test_anthropic_pings_and_tells_its_usage_in_two_parts():
    data = named(
        {"type": "message_start", "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "c",
            "stop_reason": None, "stop_sequence": None, "usage": {
                "input_tokens": 25, "cache_creation_input_tokens": 7,
                "cache_read_input_tokens": 9, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0,
         "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0,
         "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0,
         "delta": {"type": "signature_delta", "signature": "EqQB"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1,
         "delta": {"type": "citations_delta", "citation": {"type": "x"}}},
        {"type": "content_block_delta", "index": 1,
         "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "some_later_event", "x": 1},
        {"type": "message_delta", "delta": {"stop_reason": "stop_sequence", "stop_sequence": "#"},
         "usage": {"output_tokens": 15}},
        {"type": "message_stop"},
    )  # fmt: skip
    found = fold(read_stream("messages", [data]))
    assert found.content == (Thinking("hm", "EqQB", "anthropic"), Text("Hi"))
    assert found.usage == Usage(25, 15, 9, 7)
    assert (found.stop_reason, found.stop_sequence) == ("stop_sequence", "#")


def test_anthropic_says_overloaded_in_the_middle():
    error = {"type": "overloaded_error", "message": "O"}
    data = named({"type": "error", "error": error})
    assert read_stream("messages", [data]) == [AnswerBroken("overloaded_error", "O")]


def test_a_server_tool_in_a_stream_is_refused_and_a_delta_without_its_block_too():
    block = {"type": "server_tool_use", "id": "s", "name": "web_search"}
    with pytest.raises(CannotSay):
        read_stream(
            "messages", [named({"type": "content_block_start", "index": 0, "content_block": block})]
        )
    delta = {
        "type": "content_block_delta",
        "index": 3,
        "delta": {"type": "text_delta", "text": "a"},
    }
    with pytest.raises(InputError, match="no open block"):
        read_stream("messages", [named(delta)])


def test_openai_reasons_in_several_parts_and_seals_it():
    place = {"item_id": "rs_1", "output_index": 0}
    part = {"type": "summary_text", "text": ""}
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"}
    data = named(
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}},
        {"type": "response.in_progress", "response": {"id": "resp_1", "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0,
         "item": {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e0"}},
        {"type": "response.reasoning_summary_part.added", **place, "summary_index": 0,
         "part": part},
        {"type": "response.reasoning_summary_text.delta", **place, "summary_index": 0,
         "delta": "one"},
        {"type": "response.reasoning_summary_text.done", **place, "summary_index": 0,
         "text": "one"},
        {"type": "response.reasoning_summary_text.delta", **place, "summary_index": 1,
         "delta": "two"},
        {"type": "response.output_item.done", "output_index": 0,
         "item": {"type": "reasoning", "id": "rs_1", "encrypted_content": "e1", "summary": [
             {"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]}},
        {"type": "response.output_item.added", "output_index": 1, "item": {
            "type": "message", "id": "msg_1", "role": "assistant", "content": []}},
        {"type": "response.content_part.added", "item_id": "msg_1", "output_index": 1,
         "content_index": 0, "part": {"type": "output_text", "text": "", "annotations": []}},
        {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1,
         "content_index": 0, "delta": "Hi", "logprobs": []},
        {"type": "response.output_item.done", "output_index": 1, "item": {"type": "message"}},
        {"type": "response.output_item.added", "output_index": 2,
         "item": {**call, "arguments": ""}},
        {"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 2,
         "arguments": '{"a":1}'},
        {"type": "response.output_item.done", "output_index": 2,
         "item": {**call, "arguments": '{"a":1}'}},
        {"type": "response.completed", "response": {
            "id": "resp_1", "status": "completed", "output": [{**call, "arguments": '{"a":1}'}],
            "usage": {"input_tokens": 30, "output_tokens": 9, "total_tokens": 39,
                      "input_tokens_details": {"cached_tokens": 10},
                      "output_tokens_details": {"reasoning_tokens": 4}}}},
    )  # fmt: skip
    events = read_stream("responses", [data])
    assert Signature(0, "e1", "openai", "rs_1") in events
    found = fold(events)
    assert found.content == (
        Thinking("one\n\ntwo", "e1", "openai", "rs_1"),
        Text("Hi"),
        ToolUse("call_1", "f", Raw(b'{"a":1}')),
    )
    assert found.usage == Usage(20, 9, 10, 0, 4)
    assert found.stop_reason == "tool_use"


def test_openai_refuses_in_its_own_part():
    data = named(
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.refusal.delta", "output_index": 0, "content_index": 0, "delta": "No."},
        {"type": "response.completed", "response": {"status": "completed"}},
    )
    found = fold(read_stream("responses", [data]))
    assert (found.content, found.stop_reason) == ((Text("No."),), "refusal")


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "server_error", "message": "gone", "sequence_number": 3},
        {"type": "error", "error": {"code": "server_error", "message": "gone"}},
        {"type": "response.failed", "response": {
            "status": "failed", "error": {"code": "server_error", "message": "gone"}}},
    ],
)  # fmt: skip
def test_openai_fails_in_three_ways(event):
    assert read_stream("responses", [named(event)]) == [AnswerBroken("server_error", "gone")]


def test_other_servers_send_comments_numbers_for_codes_and_no_done():
    data = (
        b": OPENROUTER PROCESSING\n\n"
        b'data: {"id":"gen-1","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"}}]}'
        b'\r\n\r\ndata: {"id":"gen-1","choices":[{"index":0,"delta":{"content":""},'
        b'"finish_reason":"eos"}]}\n\n'
    )
    found = fold(read_stream("chat", [data]))
    assert (found.id, found.content, found.stop_reason) == ("gen-1", (Text("Hi"),), "end")
    bad = b'data: {"error":{"code":502,"message":"bad gateway"}}\n\n'
    assert read_stream("chat", [bad]) == [AnswerBroken("502", "bad gateway")]
    assert read_stream("chat", [b'data: {"error":"no"}\n\n']) == [
        AnswerBroken("upstream_error", "no")
    ]


def test_a_second_choice_is_refused():
    data = b'data: {"id":"a","choices":[{"index":1,"delta":{"content":"x"}}]}\n\n'
    with pytest.raises(InputError, match="second choice"):
        read_stream("chat", [data])


def test_reasoning_of_openai_survives_a_turn_in_the_format_of_anthropic():
    """A client of messages gets it marked, sends it back, and OpenAI gets its own again."""
    openai = (
        b'{"id":"resp_1","status":"completed","output":[{"type":"reasoning","id":"rs_1",'
        b'"summary":[],"encrypted_content":"sealed"},{"type":"message","role":"assistant",'
        b'"content":[{"type":"output_text","text":"Hi"}]}]}'
    )
    answer = speaker("responses").read_response(openai)
    shown = json.loads(speaker("messages").write_response(answer, "m", 7))
    history = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": shown["content"]},
        {"role": "user", "content": "and?"},
    ]
    again = speaker("messages").read_request(
        json.dumps({"max_tokens": 9, "messages": history}).encode()
    )
    sent = speaker("responses").write_request(again, "gpt-5.1")
    assert json.loads(sent.body)["input"][1] == {
        "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed",
    }  # fmt: skip
    assert sent.lost == ()
    assert [
        each.what for each in speaker("messages").write_request(again, "claude-opus-4-8").lost
    ] == ["thinking"]
    assert isinstance(read_stream("chat", [b'data: {"id":"a","choices":[]}\n\n'])[0], AnswerStarted)
