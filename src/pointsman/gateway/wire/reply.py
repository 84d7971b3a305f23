"""The answer to one request, written as it comes: whole in one write, or piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from http import HTTPStatus
from operator import itemgetter
from typing import Final, Protocol

from pointsman.gateway.serving.http import CLOSE, Headers

STATUS_LINES: Final = {
    each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus
}
_LENGTH: Final = b"content-length"
_LAST_CHUNK: Final = b"0\r\n\r\n"
_NAME: Final = itemgetter(0)
_JOINED: Final = b": ".join
"""Writes a header's line."""
_LAST_LINES: Final = (b"", b"")


class ReplyConnection(Protocol):
    """The connection a reply is written to."""

    pausing: asyncio.Future[None] | None
    """Done once a caller that did not read has read enough for more."""

    def write(self, data: bytes) -> None:
        """Write, or have it wait; nothing when the caller is gone."""
        ...

    def end_reply(self, keeps: bool, /) -> None:  # noqa: FBT001 - the reply's own word
        """Learn that the reply is whole, and whether another request may follow."""
        ...


class Reply:
    """The answer to one request, and word of its caller."""

    __slots__ = (
        "_connection", "_is_bare", "_is_chunked", "_left", "_told_left",
        "has_begun", "is_whole", "keeps", "status",
    )  # fmt: skip

    def __init__(self, line: ReplyConnection, keeps: bool, is_bare: bool, is_chunked: bool) -> None:  # noqa: FBT001 - made for every request
        self._connection = line
        self.keeps = keeps
        """Whether another request may follow on the connection."""
        self._is_bare = is_bare
        """Whether only the head is asked for."""
        self._is_chunked = is_chunked
        """Whether the caller understands chunks; else a length that is not known ends it all."""
        self._left = False
        self._told_left: Callable[[], None] | None = None
        self.has_begun = False
        self.is_whole = False
        self.status = 0

    def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Answer in one write; the length stands in the headers."""
        self.out(status, self.render(status, headers, body))

    def render(self, status: int, headers: Headers, body: bytes) -> bytes:
        """Return the bytes that `whole` would write; nothing is written yet."""
        if CLOSE in headers:
            self.keeps = False
        head = self._head(status, headers)
        return head if self._is_bare else head + body

    def out(self, status: int, written: bytes) -> None:
        """Answer with what `written` gave."""
        self.has_begun = True
        self.status = status
        self._connection.write(written)
        self._end()

    async def begin(self, status: int, headers: Headers, first: bytes) -> None:
        """Begin an answer of pieces: its head and its first piece in one write."""
        self._connection.write(self._begin(status, headers, first))
        await self._wait_writable()

    def at_once(self, status: int, headers: Headers, data: bytes) -> None:
        """Answer as `begin` and `end` would, in one write: all the pieces are here."""
        written = self._begin(status, headers, data)
        if self._is_chunked and not self._is_bare:
            written += _LAST_CHUNK
        self._connection.write(written)
        self._end()

    async def more(self, data: bytes) -> None:
        """Answer on, no faster than the caller reads."""
        if not self.push(data):
            await self._wait_writable()

    def push(self, data: bytes) -> bool:
        """Answer on at once, and tell whether the caller reads as fast as that."""
        if data and not self._is_bare:
            self._connection.write(self._chunk(data))
        return self._connection.pausing is None

    def end(self, last: bytes = b"") -> None:
        """End an answer of pieces, with its last one in the same write."""
        if not self._is_bare:
            written = self._chunk(last) + (_LAST_CHUNK if self._is_chunked else b"")
            if written:
                self._connection.write(written)
        self._end()

    def when_left(self, told: Callable[[], None] | None) -> None:
        """Call back once when the caller hangs up; at once if it did."""
        self._told_left = told
        if self._left and told is not None:
            told()

    def leave(self) -> None:
        """Learn that the caller hung up."""
        self._left = True
        if self._told_left is not None:
            self._told_left()

    def _begin(self, status: int, headers: Headers, first: bytes) -> bytes:
        self.has_begun = True
        self.status = status
        if CLOSE in headers:
            self.keeps = False
        if self._is_bare:
            return self._head(status, headers)
        if _LENGTH in map(_NAME, headers):
            self._is_chunked = False
        elif self._is_chunked:
            headers = [*headers, (b"transfer-encoding", b"chunked")]
        else:
            self.keeps = False
        return self._head(status, headers) + self._chunk(first)

    async def _wait_writable(self) -> None:
        while self._connection.pausing is not None:
            await self._connection.pausing

    def _head(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        lines = [*map(_JOINED, headers)]
        if not self.keeps and CLOSE not in headers:
            lines.append(_JOINED(CLOSE))
        lines += _LAST_LINES
        return STATUS_LINES[status] + b"\r\n".join(lines)

    def _chunk(self, data: bytes) -> bytes:
        if not self._is_chunked or not data:
            return data
        return b"%x\r\n%b\r\n" % (len(data), data)

    def _end(self) -> None:
        self.is_whole = True
        self._connection.end_reply(self.keeps)
