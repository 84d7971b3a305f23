"""A request as it comes in: its head, read at once, then its body, within its limits."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Final

import httptools

from pointsman.errors import ExpectationRefused, InputError, NotFound, PointsmanError
from pointsman.gateway.serving.http import Asked, Handler
from pointsman.gateway.wire.reply import Reply

ONCE: Final = frozenset(
    {b"host", b"authorization", b"x-api-key", b"content-type", b"x-session-id",
     b"transfer-encoding", b"expect", b"x-pointsman-privacy", b"x-pointsman-workspace",
     b"x-pointsman-agent", b"x-pointsman-key", b"x-pointsman-labels"}
)  # fmt: skip
"""Headers that decide how a request is understood: readers disagree about which of two counts."""

_LINE: Final = re.compile(rb"([A-Z]+) ([!-~]+) HTTP/1\.([01])\r\n")
_LINE_BEGUN: Final = re.compile(rb"[A-Z]{1,32}(?: [!-~]*(?: [HTP/1.0]*\r?)?)?")

MOST_FRAMING: Final = 64 * 1024
"""How many more bytes than its chunks hold a body in chunks may take, beside as many as they do."""

_CONTINUE: Final = b"100-continue"
_METHODS: Final = {each.encode(): each for each in ("POST", "GET", "HEAD", "DELETE", "PUT")}
_NOT_FOUND: Final = NotFound()

_TARGETS: Final = {
    f"/v1/{each}".encode(): (f"/v1/{each}", "")
    for each in ("chat/completions", "messages", "responses", "embeddings", "completions")
}
"""The targets of most requests, already split."""


class BadRequest(Exception):
    """the bytes are no request"""


class RequestHead:
    """The head of a request; made of its bytes, or `BadRequest`.

    `length` is that of its body, None where it comes in chunks. An `Upgrade` is not looked at: the
    request is served as it is, its body included.
    """

    __slots__ = ("_parser", "_repeated", "headers", "is_new", "keeps", "length", "method", "target")

    def __init__(self, data: bytes) -> None:
        line = _LINE.match(data)
        if line is None:
            raise BadRequest
        self.headers: dict[bytes, bytes] = {}
        self.keeps = False
        self._repeated = b""
        parser = self._parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError as error:
            raise BadRequest from error
        finally:
            # It holds this head: in a cycle, both would stay for long.
            del self._parser
        self.method = _METHODS.get(line[1]) or line[1].decode("ascii")
        self.is_new = line[3] == b"1"
        self.target = _split_target(line[2])
        self.length = self._body_length()

    def check(self) -> None:
        """Raise where a header stands twice that may stand once, or expects something unknown."""
        if self._repeated:
            raise InputError(f"`{self._repeated.decode()}` stands twice")
        expected = self.headers.get(b"expect", _CONTINUE)
        if self.is_new and expected.lower() != _CONTINUE:
            raise ExpectationRefused(f"`expect: {expected.decode('latin-1')[:80]}` is not known")

    @property
    def waits(self) -> bool:
        """Whether the client sends the body only when it is told to go on."""
        return self.is_new and b"expect" in self.headers

    def _body_length(self) -> int | None:
        coding = self.headers.get(b"transfer-encoding")
        if coding is None:
            return int(self.headers.get(b"content-length", b"0"))
        if coding.lower() != b"chunked" or not self.is_new:
            raise BadRequest
        return None

    # What httptools calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        name = name.lower()
        if name in self.headers and name in ONCE:
            self._repeated = name
        self.headers[name] = value

    def on_headers_complete(self) -> None:
        """Ask while the parser knows; an old client is always let go."""
        parser = self._parser
        self.keeps = parser.get_http_version() == "1.1" and parser.should_keep_alive()


def may_be_head(begun: bytearray) -> bool:
    """Tell whether bytes may be the beginning of a head: its first line, or a part of it."""
    return not begun or bool(_LINE.match(begun) or _LINE_BEGUN.fullmatch(begun))


def _split_target(url: bytes) -> tuple[str, str]:
    """Return the undecoded path and the query; raise where there is no path."""
    known = _TARGETS.get(url)
    if known is not None:
        return known
    if url[:1] == b"/" and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path.decode("ascii"), query.decode("ascii")
    try:
        parts = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError as error:
        raise BadRequest from error
    # Not decoded: a slash inside a name would look like one between two.
    return (parts.path or b"").decode("ascii"), (parts.query or b"").decode("ascii")


class ChunkedBody:
    """Joins the chunks of one body."""

    __slots__ = ("_read", "data", "has_more", "is_whole")

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_whole = False
        self.has_more = False
        """Whether bytes followed the last chunk in the read that brought it."""
        self._read = 0

    def feed(self, parser: httptools.HttpRequestParser, data: bytes) -> None:
        """Read on with a parser that reports to this body; raise `BadRequest`."""
        try:
            parser.feed_data(data)
        except httptools.HttpParserError as error:
            if not self.is_whole:
                raise BadRequest from error
            self.has_more = True
        self._read += len(data)
        # A byte a chunk costs more to read than to send.
        if self._read > MOST_FRAMING + 2 * len(self.data):
            raise BadRequest

    # What httptools calls.

    def on_message_begin(self) -> None:
        """Learn that another message follows."""
        self.has_more = self.is_whole

    def on_body(self, piece: bytes) -> None:
        """Take a piece of the body, but no byte behind it."""
        if not self.is_whole:
            self.data += piece

    def on_message_complete(self) -> None:
        """Learn that the body is whole."""
        self.is_whole = True


def chunk_parser(body: ChunkedBody) -> httptools.HttpRequestParser:
    """Return a parser of chunks; the body must not hold it, or both would stay for long."""
    parser = httptools.HttpRequestParser(body)
    parser.feed_data(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n")
    return parser


class IncomingRequest:
    """One request, from the last byte of its head on."""

    __slots__ = (
        "_chunks", "_parts", "handler", "headers", "held", "is_keyless", "length", "method", "path",
        "query", "refusal", "reply", "size", "task",
    )  # fmt: skip

    def __init__(
        self, method: str, target: tuple[str, str], headers: Mapping[bytes, bytes], reply: Reply
    ) -> None:
        self.method = method
        self.path, self.query = target
        self.headers = headers
        self.reply = reply
        self.handler: Handler | PointsmanError = _NOT_FOUND
        """Its handler, or why it is refused."""
        self.refusal: PointsmanError | None = None
        """Why its caller is refused, by the head alone; its handler tells and counts it."""
        self.is_keyless = False
        """Whether its body counts as one of a caller without a valid key."""
        self.task: asyncio.Task[None] | None = None
        self.length: int | None = 0
        """How many bytes its body has; none where it comes in chunks."""
        self.size = 0
        """How many of them are here."""
        self.held = 0
        """How many of them count as held in memory."""
        self._chunks: tuple[ChunkedBody, httptools.HttpRequestParser] | None = None
        self._parts: list[bytes] = []

    def add(self, part: bytes) -> None:
        """Take a piece of the body."""
        self._parts.append(part)
        self.size += len(part)

    def add_chunks(self, data: bytes) -> bool:
        """Take bytes of a body in chunks, and return whether it is whole."""
        if self._chunks is None:
            begun = ChunkedBody()
            self._chunks = begun, chunk_parser(begun)
        chunks, parser = self._chunks
        chunks.feed(parser, data)
        self.size = len(chunks.data)
        if chunks.is_whole:
            self._parts.append(bytes(chunks.data))
            self._chunks = None
            # Where the bytes behind it begin is not known, so they are not read.
            self.reply.keeps = self.reply.keeps and not chunks.has_more
        return chunks.is_whole

    def drop_body(self) -> None:
        """Drop the part of the body that has come."""
        self._parts.clear()
        self._chunks = None

    def to_asked(self, client: str) -> Asked:
        """Return it as handlers see it."""
        parts = self._parts
        if len(parts) > 1:
            parts[:] = [b"".join(parts)]
        body = parts[0] if parts else b""
        return Asked(self.method, self.path, self.query, self.headers, body, client, self.refusal)
