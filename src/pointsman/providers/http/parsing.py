"""Bytes of HTTP/1.1 answers in, heads and pieces of bodies out. Strict, and no sockets."""

from __future__ import annotations

from typing import Protocol

import httptools

HEAD_LIMIT = 64 * 1024
"""Bytes that the head of an answer may have, interim answers before it included."""

_SILENT_LIMIT = 64 * 1024
"""Bytes that may come between two pieces of a body: chunk extensions, trailers."""

_NAMES = {
    name.encode(): name
    for name in ("content-type", "content-length", "date", "server", "transfer-encoding")
} | {b"Content-Type": "content-type", b"Content-Length": "content-length"}


class BadAnswer(Exception):
    """the answer is not HTTP as it should be"""


class Sink(Protocol):
    """Takes the parsed parts of an answer."""

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        """Take the head."""

    def on_piece(self, piece: bytes) -> None:
        """Take a piece of the body."""


class AnswerReader:
    """Reads the answers of one connection, one after the other.

    The result does not depend on how the bytes are cut into pieces.
    """

    __slots__ = (
        "_head_left", "_headers", "_parser", "_pieces", "_silent", "_sink", "has_head",
        "is_close_delimited", "is_done", "keeps_alive", "on_body",
    )  # fmt: skip

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        # What httptools calls for each chunk of a body: with fifty in one read, a call of Python
        # for each would cost more than the rest of the answer.
        self.on_body = self._pieces.append
        self._parser = httptools.HttpResponseParser(self)
        self._sink: Sink | None = None
        self._headers: dict[str, str] = {}
        self._head_left = 0
        self._silent = 0
        self.has_head = False
        self.is_done = True
        self.keeps_alive = False
        self.is_close_delimited = False

    def expect(self, sink: Sink) -> None:
        """Begin a new answer."""
        self._sink = sink
        self._headers = {}
        self._head_left = HEAD_LIMIT
        self._silent = 0
        self.has_head = self.is_done = self.keeps_alive = self.is_close_delimited = False

    def feed(self, data: bytes) -> None:
        """Read on; raises `BadAnswer`. Look at `is_done` afterwards."""
        sink, pieces = self._sink, self._pieces
        try:
            if not self.has_head:
                if len(data) > self._head_left:
                    data = self._feed_head(data)
                else:
                    self._head_left -= len(data)
            self._parse(data)
        finally:
            body = b"".join(pieces) if len(pieces) != 1 else pieces[0]
            pieces.clear()
            if body and sink is not None:
                sink.on_piece(body)
        if body:
            self._silent = 0
            return
        self._silent += len(data)
        if self._silent > _SILENT_LIMIT and self.has_head:
            raise BadAnswer("it holds too much between two pieces of its body")

    def feed_eof(self) -> None:
        """End the answer with its connection; raises `BadAnswer` when something is missing."""
        if self.is_close_delimited:
            self.is_done = True
        elif not self.has_head:
            raise BadAnswer("the connection was closed before it began")
        elif not self.is_done:
            raise BadAnswer("the connection was closed before its end")

    def _feed_head(self, data: bytes) -> bytes:
        """Feed no more than a head may have, so that the limit is the same however it is cut."""
        allowed = self._head_left
        self._head_left = 0
        self._parse(data[:allowed])
        if not self.has_head:
            raise BadAnswer(f"its head is longer than {HEAD_LIMIT} bytes")
        return data[allowed:]

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise BadAnswer("it changes the protocol") from None
        except httptools.HttpParserError as error:
            if self.is_done:
                # Bytes after the end belong to no answer; the answer itself is whole.
                self.keeps_alive = False
                return
            cause = error.__context__
            raise BadAnswer(str(cause if isinstance(cause, BadAnswer) else error)) from None

    # What httptools calls.

    def on_message_begin(self) -> None:
        """Refuse a second answer to one request."""
        if self.is_done:
            raise BadAnswer("it is followed by another one")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers are ignored."""
        if self.has_head:
            return
        key = _NAMES.get(name) or name.decode("latin-1").lower()
        headers = self._headers
        if key == "transfer-encoding" and (key in headers or value.lower() != b"chunked"):
            raise BadAnswer("its transfer encoding is not `chunked`")
        headers[key] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Pass the head to the sink, or drop an interim one."""
        parser = self._parser
        status = parser.get_status_code()
        if status < 200:
            if status == 101 or status < 100:
                raise BadAnswer(f"its status is {status}")
            self._headers = {}
            return
        if status > 599:
            raise BadAnswer(f"its status is {status}")
        if parser.get_http_version() not in ("1.1", "1.0"):
            raise BadAnswer("it is not HTTP/1.1")
        headers = self._headers
        self.has_head = True
        self.keeps_alive = parser.should_keep_alive()
        self.is_close_delimited = not (
            "content-length" in headers or "transfer-encoding" in headers or status in (204, 304)
        )
        if self._sink is not None:
            self._sink.on_head(status, headers)

    def on_message_complete(self) -> None:
        """End the answer, unless it was an interim one."""
        if self.has_head:
            self.is_done = True
            self._sink = None
