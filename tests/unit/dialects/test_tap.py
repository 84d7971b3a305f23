"""Reading along with a stream that passes through."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.dialects.sdk import pieces
from tests.unit.dialects.test_answers import FULL, read_stream, streamed
from tests.unit.dialects.values import DIALECTS, responses

from pointsman.providers.dialects.tap import end_of, tap, usage_of
from pointsman.providers.dialects.whole import fold, unfold
from pointsman.providers.messages import Usage
from pointsman.providers.registry.dialects import speaker
from pointsman.providers.streaming import AnswerBroken, AnswerStarted, BlockStarted, Delta


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(deadline=None)
@given(response=responses(), size=st.integers(1, 80))
def test_the_tap_knows_what_the_reader_knows(dialect, response, size):
    data = streamed(dialect, unfold(response))
    tapped = tap(dialect)
    for piece in pieces(data, size):
        tapped.feed(piece)
    whole = fold(read_stream(dialect, [data]))
    assert tapped.usage == whole.usage
    assert tapped.stop_reason == whole.stop_reason
    assert not tapped.is_broken
    assert tapped.has_content == bool(whole.content)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(deadline=None)
@given(response=responses())
def test_a_whole_answer_tells_its_usage_and_its_end(dialect, response):
    body = speaker(dialect).write_response(response, "m", 7)
    assert usage_of(dialect, body) == response.usage
    assert end_of(dialect, body)[1] == response.stop_reason


@pytest.mark.parametrize("dialect", DIALECTS)
def test_content_is_seen_with_its_first_byte_and_not_before(dialect):
    writer = speaker(dialect).stream_writer("m", 7)
    tapped = tap(dialect)
    tapped.feed(writer.write(AnswerStarted("a", Usage(1, 0))))
    assert not tapped.has_content
    tapped.feed(writer.write(BlockStarted(0, "text")) + writer.write(Delta(0, "H")))
    assert tapped.has_content


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_is_seen(dialect):
    tapped = tap(dialect)
    tapped.feed(streamed(dialect, [AnswerStarted("a", Usage()), AnswerBroken("c", "m")]))
    assert tapped.is_broken
    assert not tapped.has_content


def test_words_about_usage_and_errors_are_only_words():
    said = '"usage":{"prompt_tokens":9} "finish_reason":"stop" "error": response.completed'
    for dialect in DIALECTS:
        tapped = tap(dialect)
        tapped.feed(
            streamed(
                dialect, [AnswerStarted("a", Usage()), BlockStarted(0, "text"), Delta(0, said)]
            )
        )
        assert tapped.stop_reason is None
        assert not tapped.is_broken
        assert not tapped.usage.output_tokens


def test_spaces_after_colons_are_read():
    tapped = tap("chat")
    tapped.feed(
        b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}], '
        b'"usage": {"prompt_tokens": 3, "completion_tokens": 2}}\r\n\r\n'
    )
    assert (tapped.usage, tapped.stop_reason) == (Usage(3, 2), "end")
    assert tapped.has_content


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_no_answer_tells_nothing(dialect):
    for body in (b"", b"nope", b"[]", b'{"usage":5}', b'{"usage":null}', b"[" * 100_000):
        assert usage_of(dialect, body) == Usage()
        assert end_of(dialect, body)[1] is None


def test_an_endless_line_is_not_kept():
    tapped = tap("chat")
    for _ in range(40):
        tapped.feed(b"x" * 1_000_000)
    assert sum(len(piece) for piece in tapped._pieces) <= 17_000_000
    tapped.feed(b"\n" + streamed("chat", unfold(FULL)))
    assert tapped.usage == FULL.usage
