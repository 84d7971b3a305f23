"""Amazon's event stream, whatever way its bytes are cut; botocore reads the same frames."""

from __future__ import annotations

import struct
import zlib

import msgspec
import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from pointsman.providers.http.event_stream import BadFrame, EventStreamDecoder
from pointsman.testing.converse_wire import frame

EVENTS = [
    ("messageStart", {"role": "assistant"}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": 'å\n\n"data: x'}}),
    ("messageStop", {"stopReason": "end_turn"}),
]
STREAM = b"".join(frame(*each) for each in EVENTS)


def test_the_frames_of_the_test_kit_are_those_that_botocore_reads() -> None:
    buffer = EventStreamBuffer()
    buffer.add_data(STREAM)
    found = [(each.headers[":event-type"], msgspec.json.decode(each.payload)) for each in buffer]
    assert found == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_frames_are_read_from_any_cut(cuts: list[int]) -> None:
    decoder, at, text = EventStreamDecoder("req-1"), 0, b""
    for end in (*sorted(cuts), len(STREAM)):
        text += decoder.feed(STREAM[at:end])
        at = end
    assert not decoder.is_within
    lines = text.decode().split("\n\n")
    assert lines.pop() == ""
    told = [msgspec.json.decode(line.removeprefix("data: ")) for line in lines]
    first = {"messageStart": EVENTS[0][1], "requestId": "req-1"}
    assert told == [first, *({kind: value} for kind, value in EVENTS[1:])]


def test_a_frame_that_is_not_whole_is_known() -> None:
    decoder = EventStreamDecoder("")
    decoder.feed(STREAM[:-1])
    assert decoder.is_within


@pytest.mark.parametrize(
    ("message_type", "kind", "wanted"),
    [("exception", "throttlingException", "ThrottlingException")],
)
def test_an_exception_becomes_an_error(message_type: str, kind: str, wanted: str) -> None:
    data = frame(kind, {"message": "slow down"}, message_type=message_type)
    told = msgspec.json.decode(EventStreamDecoder("").feed(data).removeprefix(b"data: "))
    assert told == {"error": {"type": wanted, "message": "slow down"}}


def test_headers_of_every_type_are_passed_over() -> None:
    def header(name: bytes, kind: int, value: bytes) -> bytes:
        return bytes([len(name)]) + name + bytes([kind]) + value

    sizes = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
    headers = b"".join(header(b"h%d" % kind, kind, b"\1" * size) for kind, size in sizes.items())
    headers += header(b"b", 6, b"\0\2ab") + header(b":event-type", 7, b"\0\1x")
    prelude = struct.pack(">II", 16 + len(headers) + 2, len(headers))
    before = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + b"{}"
    data = before + struct.pack(">I", zlib.crc32(before))
    assert EventStreamDecoder("").feed(data) == b'data: {"x":{}}\n\n'


def spoilt(at: int, data: bytes = STREAM) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("at", range(0, len(frame(*EVENTS[0])), 3))
def test_a_changed_bit_is_noticed(at: int) -> None:
    with pytest.raises(BadFrame):
        EventStreamDecoder("").feed(spoilt(at))


@pytest.mark.parametrize(("size", "headers"), [(15, 0), (16, 1), (1 << 30, 0)])
def test_lengths_that_cannot_be_are_refused(size: int, headers: int) -> None:
    prelude = struct.pack(">II", size, headers)
    with pytest.raises(BadFrame, match="length"):
        EventStreamDecoder("").feed(prelude + struct.pack(">I", zlib.crc32(prelude)))
