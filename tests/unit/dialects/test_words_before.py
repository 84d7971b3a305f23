"""Words stand before the first text of an answer, and every other byte is as it was."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.dialects import sdk
from tests.unit.dialects.test_answers import FULL, expected, read_stream, streamed
from tests.unit.dialects.values import DIALECTS, responses

from pointsman.gateway.turns.stream_carriers import EditedStream, PassThroughStream
from pointsman.providers.dialects.look import look
from pointsman.providers.dialects.whole import fold, unfold
from pointsman.providers.dialects.words_before import WordsBefore, with_words_before
from pointsman.providers.messages import Text
from pointsman.providers.registry.dialects import speaker
from pointsman.testing.upstream_wire import events, whole

WORDS = '[pointsman: a:"é" failed]\n\n'
WRITTEN = json.dumps(WORDS, ensure_ascii=False)[1:-1].encode()


def edited(dialect, data, size=1000):
    carried = EditedStream(PassThroughStream(dialect), (WordsBefore(dialect, WORDS).edit,))
    return b"".join([*map(carried.feed, sdk.pieces(data, size)), carried.finish()])


def with_words(response):
    """What an answer must become."""
    content, is_said = [], False
    for block in response.content:
        if isinstance(block, Text) and block.text and not is_said:
            block, is_said = Text(WORDS + block.text), True  # noqa: PLW2901 - it stands in its place
        content.append(block)
    return replace(response, content=tuple(content))


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(deadline=None)
@given(response=responses())
def test_a_whole_answer_says_them_first(dialect, response):
    body = speaker(dialect).write_response(response, "m", 7)
    found = with_words_before(dialect, body, WORDS)
    assert found.replace(WRITTEN, b"", 1) == body
    assert speaker(dialect).read_response(found) == expected(dialect, with_words(response))
    sdk.check_answer(dialect, found)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(deadline=None)
@given(response=responses(), size=st.integers(1, 90))
def test_a_stream_says_them_first_however_it_is_cut(dialect, response, size):
    data = streamed(dialect, unfold(response))
    found = edited(dialect, data, size)
    assert found.replace(WRITTEN, b"") == data
    told = fold(read_stream(dialect, [found]))
    assert told == expected(dialect, with_words(response))
    sdk.check_stream(dialect, found)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_vendors_own_bytes_take_them_too(dialect):
    body = msgspec.json.format(msgspec.json.encode(whole(dialect, FULL, "m")), indent=1)
    found = with_words_before(dialect, body, WORDS)
    assert found.replace(WRITTEN, b"") == body
    assert found.count(WRITTEN) == 1
    data = b"".join(events(dialect, FULL, "m", has_usage=True))
    told = edited(dialect, data, 11)
    assert told.replace(WRITTEN, b"") == data
    # A stream of responses tells each text again: when it, its part, its item and all are done.
    assert told.count(WRITTEN) == (5 if dialect == "responses" else 1)


def test_the_sdk_of_openai_accumulates_what_the_end_of_responses_tells():
    data = edited("responses", b"".join(events("responses", FULL, "m", has_usage=True)))
    client = sdk.client("responses", 200, data, "text/event-stream")
    with client.responses.stream(model="m", input="x") as stream:
        deltas = "".join(each.delta for each in stream if each.type == "response.output_text.delta")
        last = stream.get_final_response()
    assert deltas == last.output_text == WORDS + "Hello é"
    assert last.usage.output_tokens == 50


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("chat", {"choices": [{"message": {"content": None, "tool_calls": [{}]}}]}),
        ("chat", {"choices": [{"message": {"content": "", "refusal": "no"}}]}),
        ("chat", {"choices": [{"message": {"content": "x", "annotations": [{"a": 1}]}}]}),
        ("chat", {"choices": []}),
        ("chat", {"choices": {"message": {"content": "x"}}}),
        ("chat", []),
        ("messages", {"content": [{"type": "tool_use", "text": "x"}]}),
        ("messages", {"content": [{"type": "text", "text": ""}, {"type": "tool_use"}]}),
        ("messages", {"content": "x"}),
        ("responses", {"output": [{"type": "function_call", "content": []}]}),
        ("responses", {"output": [{"type": "message", "content": [
            {"type": "refusal", "refusal": "no"}]}]}),
        ("responses", {"output": [{"type": "message", "content": [
            {"type": "output_text", "text": "x", "annotations": [{"start_index": 0}]}]}]}),
    ],
)  # fmt: skip
def test_an_answer_without_plain_text_stays_as_it_is(dialect, body):
    written = json.dumps(body).encode()
    assert with_words_before(dialect, written, WORDS) == written


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "data",
    [b"data: [DONE]\n\n", b"data: {\n\n", b': "text"\n\n', b"data: 7\n\n", b"event: x\ndata:\n\n",
     b'data: {"type":7,"choices":"no","delta":[]}\n\n', b'data: "\xff"\n\n'],
)  # fmt: skip
def test_what_cannot_be_read_passes(dialect, data):
    assert edited(dialect, data) == data


def test_text_written_as_parts_takes_them():
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "hi"}]
    body = json.dumps({"choices": [{"message": {"content": parts}}]}).encode()
    assert with_words_before("chat", body, "w ") == body.replace(b'"hi"', b'"w hi"')
    line = json.dumps({"choices": [{"delta": {"content": parts}}]}).encode()
    assert b'"[pointsman' in edited("chat", b"data: " + line + b"\n\n")


def test_a_block_that_begins_with_text_takes_them():
    line = b'data: {"type":"content_block_start","content_block":{"type":"text","text":"a"}}\n\n'
    more = b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"b"}}\n\n'
    assert edited("messages", line + more) == line.replace(b'"a"', b'"' + WRITTEN + b'a"') + more


def test_responses_that_only_tell_a_whole_text_take_them_once_in_each_telling():
    told = [
        each for each in events("responses", FULL, "m", has_usage=True) if b".delta" not in each
    ]
    assert edited("responses", b"".join(told)).count(WRITTEN) == 4


def test_only_the_first_of_two_texts_takes_them():
    both = replace(FULL, content=(Text("one"), Text("two")))
    told = edited("responses", b"".join(events("responses", both, "m", has_usage=True)))
    assert told.count(WRITTEN) == 5
    assert WRITTEN + b"two" not in told
    assert edited("messages", b"".join(events("messages", both, "m", has_usage=True))).count(
        WRITTEN
    ) == 1  # fmt: skip


ASKED = {
    "chat": {"messages": [{"role": "user", "content": "q"}]},
    "messages": {"messages": [{"role": "user", "content": "q"}], "max_tokens": 9},
    "responses": {"input": "q"},
}
FORM = {"type": "json_schema"}


def is_free(dialect, **more):
    return look(dialect, json.dumps({**ASKED[dialect], **more}).encode()).wants_free_text


@pytest.mark.parametrize(
    ("dialect", "more"),
    [
        ("chat", {}), ("messages", {}), ("responses", {}),
        ("chat", {"response_format": {"type": "text"}, "n": 1, "logprobs": False}),
        ("chat", {"tools": [{"type": "function", "function": {"name": "f"}}], "n": None}),
        ("responses", {"text": {"format": {"type": "text"}}, "tools": [{"type": "function"}]}),
        ("messages", {"output_config": {"effort": "low"}, "thinking": {"type": "enabled"}}),
    ],
)  # fmt: skip
def test_text_that_people_read_is_free(dialect, more):
    assert is_free(dialect, **more)


@pytest.mark.parametrize(
    ("dialect", "more"),
    [
        ("chat", {"response_format": FORM}), ("chat", {"response_format": {"type": "json_object"}}),
        ("chat", {"response_format": {"type": "grammar"}}), ("responses", {"tools": [7]}),
        ("chat", {"guided_json": {}}), ("chat", {"grammar": "root"}), ("chat", {"format": "json"}),
        ("chat", {"logprobs": True}), ("chat", {"n": 2}), ("chat", {"web_search_options": {}}),
        ("chat", {"messages": [*ASKED["chat"]["messages"], {"role": "assistant", "content": "{"}]}),
        ("responses", {"text": {"format": FORM}}), ("responses", {"top_logprobs": 3}),
        ("responses", {"tools": [{"type": "function"}, {"type": "web_search"}]}),
        ("messages", {"output_config": {"format": FORM}}), ("messages", {"output_format": FORM}),
        ("messages", {"messages": [
            *ASKED["messages"]["messages"], {"role": "assistant", "content": "Sure:"}]}),
    ],
)  # fmt: skip
def test_text_of_a_bound_form_is_not_free(dialect, more):
    assert not is_free(dialect, **more)


def test_only_the_first_of_two_parts_of_an_item_takes_them():
    told = b"".join(
        b"data: %b\n\n"
        % msgspec.json.encode({"type": f"response.{name}", "output_index": 0, **more})
        for at, text in enumerate(("one", "two"))
        for name, more in (
            ("output_text.delta", {"content_index": at, "delta": text}),
            ("output_text.done", {"content_index": at, "text": text}),
            ("content_part.done", {
                "content_index": at, "part": {"type": "output_text", "text": text}}),
        )
    )  # fmt: skip
    assert edited("responses", told) == told.replace(b'"one"', b'"' + WRITTEN + b'one"')
