"""A head that comes again is read as it was the first time, or left to the parser."""

from __future__ import annotations

import pytest

from pointsman.errors import NotFound
from pointsman.gateway.wire.head_cache import HeadCache, learn_head
from pointsman.gateway.wire.reply import Reply
from pointsman.gateway.wire.request import IncomingRequest

MOST_HEAD = 65_536
MOST_BODY = 1_000_000


class _Line:
    pausing = None

    def write(self, data: bytes) -> None:
        """Drop it."""

    def answered(self, keeps: bool, /) -> None:
        """Take no notice."""


async def _handler(*_: object) -> None:
    """Serve nothing."""


def _bytes(body: bytes, more: bytes = b"", length: bytes | None = None) -> bytes:
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: here\r\n%bContent-Length: %b\r\n"
        b"authorization: Bearer k\r\n\r\n%b"
    ) % (more, b"%d" % len(body) if length is None else length, body)


def _request(body: bytes = b"{}", **headers: bytes) -> IncomingRequest:
    found = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    reply = Reply(_Line(), True, False, True)
    request = IncomingRequest("POST", ("/v1/chat/completions", ""), found, reply)
    request.handler = _handler
    request.add(body)
    return request


def _known() -> HeadCache:
    found = learn_head(_bytes(b"{}"), _request(), MOST_HEAD)
    assert found is not None
    return found


def test_the_same_head_with_another_length_gives_its_body() -> None:
    for body in (b"{}", b'{"a":1}', b"x" * 12_345):
        assert _known().body_of(_bytes(body), MOST_BODY) == body


def test_a_request_with_a_known_head_is_what_the_first_was() -> None:
    first = _request(host=b"here")
    known = learn_head(_bytes(b"{}"), first, MOST_HEAD)
    assert known is not None
    found = known.request(first.reply, b'{"b":2}')
    assert (found.method, found.path, found.query) == (first.method, first.path, first.query)
    assert found.headers == first.headers
    assert found.handler is first.handler
    assert found.to_asked("127.0.0.1").body == b'{"b":2}'


@pytest.mark.parametrize(
    "data",
    [
        _bytes(b"{}")[:-1],
        _bytes(b"{}") + b"x",
        _bytes(b"{}") + _bytes(b"{}"),
        _bytes(b"{}").replace(b"Bearer k", b"Bearer l"),
        _bytes(b"{}").replace(b"Host", b"host"),
        _bytes(b"{}", more=b"x-session-id: 1\r\n"),
        _bytes(b"{}", length=b"02"),
        _bytes(b"{}", length=b"+2"),
        _bytes(b"{}", length=b" 2"),
        _bytes(b"{}", length=b"2 "),
        _bytes(b"{}", length=b""),
        _bytes(b"", length=b"0"),
        _bytes(b"{}", length=b"2\r\ncontent-length: 2"),
        _bytes(b"{}", length=b"\xb2"),
        _bytes(b"{}", length=b"1"),
        _bytes(b"{}", length=b"0000000000000000000002"),
        b"POST /",
        b"",
    ],
)
def test_whatever_differs_in_more_than_its_length_is_left_to_the_parser(data: bytes) -> None:
    assert _known().body_of(data, MOST_BODY) is None


def test_a_body_past_its_limit_is_left_to_the_parser() -> None:
    assert _known().body_of(_bytes(b"x" * 11), 10) is None
    assert _known().body_of(_bytes(b"x" * 10), 10) == b"x" * 10


def test_only_a_plain_head_of_an_admitted_request_is_learnt() -> None:
    refused = _request()
    refused.handler = NotFound()
    read = _request()
    read.method = "GET"
    assert learn_head(_bytes(b"{}"), refused, MOST_HEAD) is None
    assert learn_head(_bytes(b"{}"), read, MOST_HEAD) is None
    for name in ("expect", "transfer_encoding", "upgrade", "connection"):
        assert learn_head(_bytes(b"{}"), _request(**{name: b"x"}), MOST_HEAD) is None


@pytest.mark.parametrize(
    "data",
    [
        _bytes(b"{}").replace(b"HTTP/1.1", b"HTTP/1.0"),
        _bytes(b"{}") + _bytes(b"{}"),
        _bytes(b"{}").replace(b"\r\n", b"\n"),
        _bytes(b"{}", length=b"2\r\ncontent-length: 2"),
        _bytes(b"{}").replace(b"Content-Length: ", b"Content-Length:"),
        _bytes(b"{}", length=b"3"),
    ],
)
def test_bytes_that_are_not_one_plain_request_are_not_learnt(data: bytes) -> None:
    assert learn_head(data, _request(), MOST_HEAD) is None


def test_a_head_that_a_longer_number_would_make_too_large_is_not_learnt() -> None:
    data = _bytes(b"{}")
    size = len(data) - 2
    assert learn_head(data, _request(), size + 8) is None
    assert learn_head(data, _request(), size + 9) is not None
