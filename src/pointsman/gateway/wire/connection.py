"""One caller's connection: requests in, one after the other, and their replies out.

A head must arrive whole, in time and within its size, a body likewise; a caller that does not read
is cut. Times are looked at by one sweep over all connections, not by a timer a request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from math import inf
from typing import Final, Protocol, cast

import httptools

from pointsman.errors import BodyTooLarge, BodyTooSlow, PointsmanError
from pointsman.gateway.serving.http import Asked, Handler
from pointsman.gateway.wire.head_cache import HeadCache, learn_head
from pointsman.gateway.wire.reply import STATUS_LINES, Reply
from pointsman.gateway.wire.request import ONCE, IncomingRequest, RequestHead
from pointsman.storage.policies.settings import Server

KEEP_ALIVE_S: Final = 75.0
MOST_LEARNT: Final = 4
"""A caller whose heads never come again is not looked at any longer than this."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_METHODS: Final = {each.encode(): each for each in ("POST", "GET", "HEAD", "DELETE", "PUT")}
_INVALID: Final = "invalid HTTP request"
_OVERRUN: Final = "too many connections"


class HttpService(Protocol):
    """Serves requests."""

    def admit(self, method: str, path: str, headers: dict[bytes, bytes]) -> Handler:
        """Return the handler of a request, by its head alone, or raise why it is refused."""
        ...

    async def serve(self, asked: Asked, handler: Handler | PointsmanError, reply: Reply) -> None:
        """Serve a request, or answer why it is refused."""
        ...


class ServerState(Protocol):
    """What the connections of one server share."""

    @property
    def service(self) -> HttpService:
        """Serves requests."""
        ...

    limits: Server
    loop: asyncio.AbstractEventLoop
    connections: set[ClientConnection]
    untried: dict[ClientConnection, None]
    """Those that never had a request served, the oldest first."""
    tasks: set[asyncio.Task[None]]


class FastPath(Protocol):
    """A shorter way for some of the requests that one handler serves."""

    def take(self, connection: ClientConnection, request: IncomingRequest) -> None:
        """Serve a request without a task, or have the connection serve it in a task."""
        ...


class ClientConnection(asyncio.Protocol):
    """A connection that serves one request at a time, in the order they came."""

    __slots__ = (
        "_current", "_due", "_head", "_head_cache", "_is_held", "_is_over", "_is_stopping",
        "_learnt", "_parser", "_received", "_request", "_server", "_stalled", "_transport",
        "_waiting", "_whole", "client", "pausing",
    )  # fmt: skip

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._parser = httptools.HttpRequestParser(self)
        # Bytes after `connection: close` are not read; without this they would undo the request.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.client = ""
        self._head: RequestHead | None = None
        self._received = 0
        self._request: IncomingRequest | None = None
        """The request whose body comes in."""
        self._current: IncomingRequest | None = None
        """The request that is served."""
        self._waiting: deque[IncomingRequest] = deque()
        self._whole: IncomingRequest | None = None
        """The last request that the parser gave."""
        self._head_cache: HeadCache | None = None
        self._learnt = 0
        self._due = self._stalled = inf
        self._is_held = self._is_over = self._is_stopping = False
        self.pausing: asyncio.Future[None] | None = None
        """Done once a caller that did not read has read enough for more."""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first head."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.client = peer[0] if peer else ""
        server = self._server
        server.connections.add(self)
        server.untried[self] = None
        if len(server.connections) > server.limits.max_connections:
            # The oldest connection without a request makes room; callers that were served stay.
            oldest = next(iter(server.untried))
            if oldest is not self:
                oldest.abort()
        self._due = server.loop.time() + server.limits.head_timeout_s

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's own
        """Tell the request being served that its caller is gone."""
        self._is_over = True
        self._due = inf
        self._server.connections.discard(self)
        self._server.untried.pop(self, None)
        self._waiting.clear()
        self.resume_writing()
        if self._current is not None:
            self._current.reply.leave()

    def data_received(self, data: bytes) -> None:
        """Parse incoming bytes; a head may be no larger than allowed."""
        if self._is_over:
            return
        is_first = self._request is None and not self._received
        if (
            is_first
            and self._head_cache is not None
            and self._serve_from_cache(self._head_cache, data)
        ):
            return
        self._whole = None
        if self._request is None:
            self._received += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Nothing is changed to: the request is served as it is, and nothing follows it.
            self._is_over = True
            return
        except httptools.HttpParserError:
            self._refuse(400, _INVALID)
            return
        if self._received:
            self._wait_for_head(is_new=self._received == len(data))
        elif is_first:
            self._learn(data)

    def _learn(self, data: bytes) -> None:
        """Keep the head of a request that came whole, for when it comes again."""
        request = self._whole
        if request is not None and self._learnt < MOST_LEARNT:
            self._learnt += 1
            self._head_cache = learn_head(data, request, self._server.limits.max_head_bytes)

    def _serve_from_cache(self, known: HeadCache, data: bytes) -> bool:
        """Serve a request whose head is known and that came whole, if this is one."""
        if self._current is not None:
            return False
        body = known.body_of(data, self._server.limits.max_body_bytes)
        if body is None:
            return False
        self._learnt = 0
        self._due = inf
        self._serve(known.request(Reply(self, True, False, True), body))  # noqa: FBT003 - see Reply
        return True

    def pause_writing(self) -> None:
        """Learn that the caller does not read; it has a while to begin again."""
        self.pausing = self._server.loop.create_future()
        self._stalled = self._server.loop.time() + self._server.limits.write_timeout_s

    def resume_writing(self) -> None:
        """Learn that the caller reads again."""
        self._stalled = inf
        pausing, self.pausing = self.pausing, None
        if pausing is not None and not pausing.done():
            pausing.set_result(None)

    # What httptools calls.

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._head = RequestHead()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the address."""
        if self._head is not None:
            self._head.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers after a body are ignored."""
        head = self._head
        if head is None:
            return
        name = name.lower()
        headers = head.headers
        if name in headers and name in ONCE:
            head.twice = name
        headers[name] = value

    def on_headers_complete(self) -> None:
        """Find the request's handler; a refused request is not read on."""
        head, self._head = self._head, None
        if head is None or self._is_over:
            return
        limits = self._server.limits
        if self._received > limits.max_head_bytes and head.size() > limits.max_head_bytes:
            # The parser turns it into a 400 and the end of the connection.
            raise ValueError("the head is larger than allowed")
        self._received = 0
        request = self._request = self._new_request(head)
        try:
            if head.twice:
                raise head.refusal()
            request.handler = self._server.service.admit(request.method, request.path, head.headers)
        except PointsmanError as error:
            request.handler = error
            if request.method != "GET":
                self._serve_without_more(request)
                return
        self._due = self._server.loop.time() + limits.body_timeout_s
        if b"expect" in head.headers and self._current is None:
            self.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        request = self._request
        if request is None or self._is_over:
            return
        request.add(body)
        limit = self._server.limits.max_body_bytes
        if request.size > limit:
            request.handler = BodyTooLarge(hint=f"the limit is {limit} bytes")
            self._serve_without_more(request)

    def on_message_complete(self) -> None:
        """Serve the request, or have it wait for those before it."""
        request, self._request = self._request, None
        if request is None or self._is_over:
            return
        self._whole = request
        self._due = inf
        if self._current is None:
            self._serve(request)
        else:
            self._waiting.append(request)
            self._is_held = True
            self._transport.pause_reading()

    # What a reply calls.

    def write(self, data: bytes) -> None:
        """Write, or have it wait; nothing when the caller is gone."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def end_reply(self, keeps: bool, /) -> None:  # noqa: FBT001 - the reply's own word
        """Go on to the next request, or close."""
        self._current = None
        if keeps and self._waiting and not self._is_stopping:
            self._serve(self._waiting.popleft())
        elif not keeps or self._is_over or self._is_stopping:
            self._is_over = True
            self._transport.close()
        else:
            self._rest()

    # What the server calls.

    def check_deadlines(self, now: float) -> None:
        """Close the connection if it missed a deadline."""
        if self._stalled <= now:
            self._transport.abort()
        elif self._due <= now:
            self._due = inf
            self._late()

    def abort(self) -> None:
        """Make room for another caller."""
        self._server.connections.discard(self)
        self._server.untried.pop(self, None)
        self._transport.abort()

    def stop(self) -> None:
        """Close, once the current request has been answered."""
        self._is_stopping = True
        if self._current is None:
            self._transport.close()

    def _rest(self) -> None:
        """Wait for the next request."""
        if not self._received:
            self._due = self._server.loop.time() + KEEP_ALIVE_S
        if self._is_held:
            self._is_held = False
            self._transport.resume_reading()

    def _late(self) -> None:
        if self._request is not None:
            self._request.handler = BodyTooSlow()
            self._serve_without_more(self._request)
        elif self._received:
            self._refuse(400, "the head took too long to arrive")
        else:
            self._transport.close()

    def _wait_for_head(self, *, is_new: bool) -> None:
        server = self._server
        if self._received > server.limits.max_head_bytes:
            self._refuse(400, "the head is larger than allowed")
        elif is_new:
            self._due = server.loop.time() + server.limits.head_timeout_s

    def _new_request(self, head: RequestHead) -> IncomingRequest:
        parser = self._parser
        method = parser.get_method()
        is_new = parser.get_http_version() == "1.1"
        keeps = is_new and parser.should_keep_alive()
        reply = Reply(self, keeps, method == b"HEAD", is_new)
        name = _METHODS.get(method) or method.decode("ascii")
        return IncomingRequest(name, head.target(), head.headers, reply)

    def _serve_without_more(self, request: IncomingRequest) -> None:
        """Answer a request that is not read to its end: nothing can follow it."""
        self._request = None
        self._is_over = True
        self._due = inf
        if self._current is None:
            self._serve(request)
        else:
            self._waiting.append(request)

    def _serve(self, request: IncomingRequest) -> None:
        server = self._server
        if len(server.connections) > server.limits.max_connections:
            self._refuse(503, _OVERRUN)
            return
        server.untried.pop(self, None)
        self._current = request
        fast_path: FastPath | None = getattr(request.handler, "batcher", None)
        if fast_path is None:
            self.serve_in_task(request, request.handler)
        else:
            fast_path.take(self, request)

    def serve_in_task(self, request: IncomingRequest, handler: Handler | PointsmanError) -> None:
        """Serve a request in a task of its own."""
        server = self._server
        request.task = server.loop.create_task(self._run_handler(request, handler))
        server.tasks.add(request.task)

    async def _run_handler(
        self, request: IncomingRequest, handler: Handler | PointsmanError
    ) -> None:
        """Run a request's handler; close the connection if it leaves the reply unfinished."""
        server, reply = self._server, request.reply
        try:
            await server.service.serve(request.to_asked(self.client), handler, reply)
        finally:
            server.tasks.discard(request.task)
            if not reply.is_whole:
                self._transport.abort()

    def _refuse(self, status: int, message: str) -> None:
        """Say in few words that this is no request, and close; a reply under way comes first."""
        self._is_over = True
        if self._current is not None:
            return
        body = message.encode()
        head = STATUS_LINES[status] + b"content-type: text/plain; charset=utf-8\r\n"
        self.write(b"%bcontent-length: %d\r\nconnection: close\r\n\r\n%b" % (head, len(body), body))
        self._transport.close()
