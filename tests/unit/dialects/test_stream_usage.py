"""A provider is asked what a stream uses, and a caller who did not ask sees nothing of it."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.dialects.sdk import pieces
from tests.unit.dialects.test_answers import FULL, streamed
from tests.unit.dialects.test_spans import written_oddly
from tests.unit.dialects.values import json_values, words

from pointsman.gateway.turns.stream_carriers import EditedStream, PassThroughStream
from pointsman.providers.dialects.chat.stream import UnaskedUsage, asking_usage
from pointsman.providers.dialects.look import look
from pointsman.providers.dialects.tap import tap
from pointsman.providers.dialects.whole import unfold

SAID = b'data: {"id":"a","choices":[{"index":0,"delta":{"content":"hi"}}],"usage":null}\n\n'
TOLD = b'data: {"id":"a","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"


def asked(body: bytes) -> bytes:
    return asking_usage(body, look("chat", body).stream_options)


def body(options: str) -> bytes:
    return f'{{"messages": [ ],\t"stream_options" : {options} , "model":"m"}}'.encode()


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("null", '{"include_usage":true}'),
        ("{}", '{"include_usage":true}'),
        ('{ "include_usage" : false }', '{ "include_usage" : true }'),
        ('{"include_usage": null,"x":1}', '{"include_usage": true,"x":1}'),
        ('{ "include_obfuscation":false}', '{ "include_usage":true,"include_obfuscation":false}'),
    ],
)
def test_the_option_joins_the_callers_own_and_no_other_byte_changes(given: str, sent: str) -> None:
    assert asked(body(given)) == body(sent)


@pytest.mark.parametrize(
    "given",
    [
        '{"include_usage":true}', '{"x":1, "include_usage": true}', '{"include_usage":"yes"}',
        '"all"', "[]", "7", '{"include_usage":false,"include_usage":false}',
    ],
)  # fmt: skip
def test_what_asks_already_or_would_be_refused_stays_the_same_object(given: str) -> None:
    sent = body(given)
    assert asked(sent) is sent


@settings(deadline=None)
@given(
    st.dictionaries(words, json_values, max_size=4)
    .map(lambda more: {**more, "model": "m", "messages": []})
    .flatmap(lambda value: st.tuples(st.just(value), written_oddly(value)))
)
def test_without_options_they_are_added_at_the_end_of_any_body(pair) -> None:
    value, text = pair
    sent = asking_usage(text.encode(), None)
    added = b',"stream_options":{"include_usage":true}'
    assert json.loads(sent) == {**value, "stream_options": {"include_usage": True}}
    assert sent.replace(added, b"", 1) == text.encode()


def taken(data: bytes, size: int) -> bytes:
    carried = EditedStream(PassThroughStream("chat"), (UnaskedUsage().without,))
    return b"".join([*map(carried.feed, pieces(data, size)), carried.finish()])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_only_the_chunk_that_tells_the_usage_is_taken_out(size: int, ending: bytes) -> None:
    before = (SAID * 3).replace(b"\n", ending)
    whole = (SAID * 3 + TOLD + DONE).replace(b"\n", ending)
    assert taken(whole, size) == before + DONE.replace(b"\n", ending)


@pytest.mark.parametrize(
    "event",
    [
        SAID,
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"x":1}}\n\n',
        b'data: {"choices":[],"prompt_filter_results":[{}]}\n\n',
        b'data: {"choices":[],"usage":null}\n\n',
        b'data: {"choices":[],"usage":{},"error":{"message":"m"}}\n\n',
        b'data: {"choices":[],"usage":{\n\n',
        b'data: {"choices":[{"delta":{"content":"\\"choices\\":[],\\"usage\\":{"}}]}\n\n',
        b': "usage":{\n\n',
        b"\n",
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_everything_else_passes_as_it_is(event: bytes, size: int) -> None:
    assert taken(event + TOLD + event + DONE, size) == event + event + DONE


@pytest.mark.parametrize("size", [1, 1000])
def test_an_event_with_more_fields_keeps_them_and_tells_no_data(size: int) -> None:
    told = b"id: 4\n" + TOLD + DONE
    assert taken(told, size) == b"id: 4\n\n" + DONE


def test_a_last_line_without_an_end_is_taken_out_too() -> None:
    assert taken(SAID + TOLD.rstrip(b"\n"), 5) == SAID


LINES = st.sampled_from([
    b"\n", b"\r\n", b"id: 4\n", b': "usage":{\n', b"data: x\n", b"data: y\rdata: x\n",
    SAID[:-1], TOLD[:-1], TOLD[:-1].replace(b'":{', b'": {'), TOLD[:-2] + b"\r\n",
    TOLD[:-2] + b"\rid: 4\n", b"id: 4\r" + TOLD[:-1], DONE[:-1],
])  # fmt: skip


def seen_line_by_line(data: bytes) -> bytes:
    """Say it again the plain way: no line of a usage, nor the blank line that ends its event."""
    kept, is_between, takes_blank = [], True, False
    for line in data.splitlines(keepends=True):
        is_blank = line in (b"\n", b"\r\n")
        is_dropped_blank = takes_blank and is_blank
        takes_blank = False
        if is_dropped_blank:
            continue
        if line.replace(b'": {', b'":{').startswith(TOLD[:-2]):
            takes_blank = is_between
            continue
        is_between = is_blank
        kept.append(line)
    return b"".join(kept)


@settings(deadline=None)
@given(st.lists(st.lists(LINES, max_size=6), max_size=6))
def test_however_lines_come_together_the_same_ones_are_taken_out(blocks) -> None:
    usage = UnaskedUsage()
    seen = b"".join([usage.without(b"".join(block)) for block in blocks])
    assert seen == seen_line_by_line(b"".join([line for block in blocks for line in block]))


def test_lines_that_tell_no_usage_are_not_copied() -> None:
    lines = SAID * 50
    assert UnaskedUsage().without(lines) is lines


@settings(deadline=None)
@given(st.integers(1, 90))
def test_the_tap_still_learns_what_the_caller_does_not(size: int) -> None:
    data = streamed("chat", unfold(FULL))
    tapped = tap("chat")
    for piece in pieces(data, size):
        tapped.feed(piece)
    left = taken(data, size)
    assert tapped.usage == FULL.usage
    assert b"prompt_tokens" in data
    assert b"prompt_tokens" not in left
    assert [line for line in data.splitlines() if b"prompt_tokens" not in line and line] == [
        line for line in left.splitlines() if line
    ]
