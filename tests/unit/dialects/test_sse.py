"""Server-sent events, however their bytes are cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.errors import InputError
from pointsman.providers.dialects.sse import EventReader, ServerEvent

lines = st.sampled_from(
    [
        b"data: a", b"data:b", b"data:  c", b"data", b"event: ping", b"event:x", b": comment", b":",
        b"id: 3", b"retry: 10", b"", b"", b"data: \xc3\xa9", b"data: [DONE]", b"data: a\x0bb\x1c",
    ]
)  # fmt: skip
ends = st.sampled_from([b"\n", b"\r\n", b"\r"])


def read(pieces):
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


@settings(deadline=None)
@given(st.lists(st.tuples(lines, ends), max_size=20), st.integers(1, 9))
def test_any_cut_gives_the_same_events(parts, size):
    data = b"".join(line + end for line, end in parts)
    cut = [data[at : at + size] for at in range(0, len(data), size)]
    assert read(cut) == read([data])


def test_lines_of_data_are_joined_and_comments_passed_over():
    text = b"\xef\xbb\xbf: hi\nevent: e\ndata: a\ndata:b\n\ndata: c\r\n\r\n\n\n"
    assert read([text]) == [ServerEvent("e", b"a\nb"), ServerEvent("", b"c")]


def test_an_event_without_its_empty_line_is_not_an_event():
    assert read([b"data: a\n"]) == []


def test_an_endless_line_is_refused():
    reader = EventReader(max_event_bytes=1000)
    reader.feed(b"x" * 990)
    with pytest.raises(InputError, match="larger than 1000 bytes"):
        reader.feed(b"x" * 50)


def test_endless_lines_of_one_event_are_refused():
    reader = EventReader(max_event_bytes=1000)
    reader.feed((b"data: " + b"x" * 90 + b"\n") * 10)
    with pytest.raises(InputError, match="larger than 1000 bytes"):
        reader.feed(b"data: " + b"x" * 50 + b"\n")
