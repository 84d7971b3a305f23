"""Reading answers: the same however the bytes are cut, and strict about what they may be."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.providers.http.parsing import HEAD_LIMIT, AnswerReader, BadAnswer
from pointsman.testing.upstream_replies import LAST_CHUNK, STREAM_HEAD, chunk, plain


class Taken:
    def __init__(self):
        self.status = 0
        self.headers = {}
        self.body = b""

    def on_head(self, status, headers):
        self.status, self.headers = status, headers

    def on_piece(self, piece):
        self.body += piece


def read(pieces, *, has_eof=True):
    """Give what is told of an answer, whatever happens to it."""
    reader, taken = AnswerReader(), Taken()
    reader.expect(taken)
    error = ""
    try:
        for piece in pieces:
            if reader.is_done:
                break
            reader.feed(piece)
        if has_eof and not reader.is_done:
            reader.feed_eof()
    except BadAnswer as bad:
        error = str(bad)
    return error, reader.is_done, taken.status, taken.headers, taken.body


def cut(data, places):
    at = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(at) if a < b]


GOOD = st.one_of(
    st.binary(max_size=300).map(plain),
    st.lists(st.binary(min_size=1, max_size=50), max_size=6).map(
        lambda parts: STREAM_HEAD + b"".join(map(chunk, parts)) + LAST_CHUNK
    ),
    st.binary(max_size=99).map(lambda body: b"HTTP/1.1 200 OK\r\nx-a: b\r\n\r\n" + body),
    st.binary(max_size=9).map(lambda body: b"HTTP/1.1 103 Hints\r\na: b\r\n\r\n" + plain(body)),
)
BAD = st.tuples(GOOD, st.integers(0, 400), st.binary(min_size=1, max_size=3)).map(
    lambda given: given[0][: given[1]] + given[2] + given[0][given[1] + 1 :]
)


@given(GOOD, st.lists(st.integers(0, 10_000), max_size=12))
def test_a_good_answer_reads_the_same_however_it_is_cut(data, places):
    whole = read([data])
    assert whole[:2] == ("", True)
    assert read(cut(data, places)) == whole


@given(BAD, st.lists(st.integers(0, 10_000), max_size=12))
def test_a_damaged_answer_is_judged_the_same_however_it_is_cut(data, places):
    one, other = read([data]), read(cut(data, places))
    # What was given out before the damage may differ in length, what is said of it may not.
    assert (one[0] == "", one[1]) == (other[0] == "", other[1])
    if one[0] == "":
        assert one == other


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"content-length: 5\r\ntransfer-encoding: chunked\r\n", "Transfer-Encoding"),
        (b"transfer-encoding: chunked\r\ncontent-length: 5\r\n", "Content-Length"),
        (b"content-length: 5\r\ncontent-length: 5\r\n", "Content-Length"),
        (b"content-length: +5\r\n", "Content-Length"),
        (b"content-length: 5, 5\r\n", "Content-Length"),
        (b"transfer-encoding: gzip, chunked\r\n", "transfer encoding"),
        (b"transfer-encoding: xchunked\r\n", "transfer encoding"),
        (b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", "transfer encoding"),
        (b"x: a\r\n b\r\n", "whitespace"),
        (b"x : a\r\n", "header"),
        (b"x: a\x00\r\n", "header"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(head, said):
    error, *_rest = read([b"HTTP/1.1 200 OK\r\n" + head + b"\r\n5\r\nhello\r\n0\r\n\r\n"])
    assert said.lower() in error.lower()


@pytest.mark.parametrize(
    "line", [b"HTTP/2.0 200 OK", b"HTTP/1.1 999 No", b"HTTP/1.1 20 No", b"HTTP/1.1 101 Switch"]
)
def test_other_protocols_and_statuses_are_refused(line):
    upgrade = b"\r\nconnection: upgrade\r\nupgrade: x\r\ncontent-length: 0\r\n\r\n"
    assert read([line + upgrade])[0]


@pytest.mark.parametrize("size", [1, 1000, 100_000, 1_000_000])
def test_a_head_may_have_its_limit_and_not_a_byte_more(size):
    empty = len(plain(b"", headers={"x-long": ""})) + len(b"x-long: \r\n")
    fits = plain(b"", headers={"x-long": "a" * (HEAD_LIMIT - empty)})
    longer = plain(b"", headers={"x-long": "a" * (HEAD_LIMIT - empty + 1)})
    assert len(fits) == HEAD_LIMIT

    def cut_evenly(data):
        return [data[at : at + size] for at in range(0, len(data), size)]

    assert read(cut_evenly(fits))[0] == ""
    assert "longer than" in read(cut_evenly(longer))[0]


def test_endless_trailers_are_refused():
    begun = STREAM_HEAD + chunk(b"x") + b"0\r\n"
    error, *_rest = read([begun, *[b"x-t: " + b"a" * 1000 + b"\r\n"] * 100])
    assert "too much" in error


def test_bytes_after_the_end_do_not_harm_the_answer_but_end_the_connection():
    reader, taken = AnswerReader(), Taken()
    reader.expect(taken)
    reader.feed(plain(b"{}") + plain(b"another"))
    assert (reader.is_done, reader.keeps_alive, taken.body) == (True, False, b"{}")


def test_one_reader_reads_many_answers():
    reader = AnswerReader()
    for body in (b"one", b"two"):
        taken = Taken()
        reader.expect(taken)
        reader.feed(plain(body))
        assert (reader.is_done, reader.keeps_alive, taken.body) == (True, True, body)


def test_an_answer_that_breaks_off_is_not_whole():
    assert "before it began" in read([b"HTTP/1.1 20"])[0]
    assert "before its end" in read([plain(b"12345")[:-1]])[0]
    assert "before its end" in read([STREAM_HEAD + chunk(b"12345")])[0]
