from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.providers.embedded.frames import (
    MOST_BYTES,
    AskFrame,
    BrokenFrame,
    CancelFrame,
    CountFrame,
    DoneFrame,
    FailedFrame,
    HeadFrame,
    PieceFrame,
    PingFrame,
    ReadyFrame,
    RefusedFrame,
    encode,
    gateway_reader,
    worker_reader,
)

NUMBERS = st.integers(0, 2**32)
TO_WORKER = st.one_of(
    st.builds(AskFrame, NUMBERS, st.binary(max_size=300)),
    st.builds(CountFrame, NUMBERS, st.text(max_size=50)),
    st.builds(PingFrame, NUMBERS),
    st.builds(CancelFrame, NUMBERS),
)
FROM_WORKER = st.one_of(
    st.builds(ReadyFrame, NUMBERS, NUMBERS, st.none() | NUMBERS),
    st.builds(RefusedFrame, st.text(max_size=50)),
    st.builds(HeadFrame, NUMBERS, st.text(max_size=20)),
    st.builds(PieceFrame, NUMBERS, st.binary(max_size=300)),
    st.builds(DoneFrame, NUMBERS, NUMBERS),
    st.builds(FailedFrame, NUMBERS, NUMBERS, st.text(max_size=20), NUMBERS, NUMBERS),
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(places)]


@given(st.lists(TO_WORKER, max_size=6), st.lists(st.integers(0, 2000), max_size=40))
def test_messages_arrive_whole_and_in_order_however_the_bytes_are_cut(messages, cuts):
    reader = worker_reader()
    data = b"".join(map(encode, messages))
    assert [each for piece in pieces(data, cuts) for each in reader.feed(piece)] == messages


@given(st.lists(FROM_WORKER, max_size=6), st.lists(st.integers(0, 2000), max_size=40))
def test_replies_arrive_whole_and_in_order_however_the_bytes_are_cut(messages, cuts):
    reader = gateway_reader()
    data = b"".join(map(encode, messages))
    assert [each for piece in pieces(data, cuts) for each in reader.feed(piece)] == messages


@given(st.lists(FROM_WORKER, min_size=1, max_size=3))
def test_one_byte_at_a_time_gives_the_same_messages(messages):
    reader = gateway_reader()
    data = b"".join(map(encode, messages))
    assert [each for byte in data for each in reader.feed(bytes([byte]))] == messages


@given(st.binary(max_size=200))
def test_bytes_that_are_no_frames_give_messages_or_one_error(data):
    with suppress(BrokenFrame):
        worker_reader().feed(data)


def test_a_frame_that_claims_too_much_is_refused_before_it_is_kept():
    with pytest.raises(BrokenFrame, match="claims"):
        gateway_reader().feed((MOST_BYTES + 1).to_bytes(4))


def test_a_message_that_is_too_long_is_not_sent():
    with pytest.raises(BrokenFrame, match="longer"):
        encode(AskFrame(1, bytes(MOST_BYTES)))


def test_a_message_of_the_other_side_is_refused():
    with pytest.raises(BrokenFrame):
        worker_reader().feed(encode(DoneFrame(1)))
