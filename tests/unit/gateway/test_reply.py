"""An answer of pieces has the same bytes however many writes it takes."""

from __future__ import annotations

import asyncio

import pytest

from pointsman.gateway.serving.http import CLOSE, EVENTS, Headers
from pointsman.gateway.wire.reply import Reply


class _Line:
    """A connection that remembers what was written."""

    pausing = None

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.ended: list[bool] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def end_reply(self, keeps: bool, /) -> None:
        self.ended.append(keeps)


def _in_pieces(reply: Reply, headers: Headers, pieces: list[bytes]) -> None:
    async def told() -> None:
        await reply.begin(200, headers, pieces[0])
        for each in pieces[1:]:
            await reply.more(each)
        reply.end()

    asyncio.run(told())


@pytest.mark.parametrize("headers", [[EVENTS], [EVENTS, CLOSE], [(b"content-length", b"4")]])
@pytest.mark.parametrize("is_bare", [False, True])
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
def test_an_answer_at_once_is_the_answer_in_pieces(
    headers: Headers,
    is_bare: bool,
    is_chunked: bool,
    keeps: bool,
) -> None:
    one, other = _Line(), _Line()
    Reply(one, keeps, is_bare, is_chunked).at_once(200, headers, b"abcd")
    _in_pieces(Reply(other, keeps, is_bare, is_chunked), headers, [b"abcd"])
    assert len(one.writes) == 1
    assert b"".join(one.writes) == b"".join(other.writes)
    assert one.ended == other.ended


@pytest.mark.parametrize("is_chunked", [False, True])
def test_the_last_piece_goes_out_with_the_end(is_chunked: bool) -> None:
    one, other = _Line(), _Line()
    reply = Reply(one, True, False, is_chunked)
    asyncio.run(reply.begin(200, [EVENTS], b"first"))
    reply.end(b"last")
    _in_pieces(Reply(other, True, False, is_chunked), [EVENTS], [b"first", b"last"])
    assert len(one.writes) == 2
    assert b"".join(one.writes) == b"".join(other.writes)
    assert one.ended == other.ended
