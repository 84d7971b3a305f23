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
from pointsman.gateway.http import Asked, Handler
from pointsman.gateway.wire.again import Again, again
from pointsman.gateway.wire.reply import STATUS_LINES, Reply
from pointsman.gateway.wire.request import ONCE, Head, Request
from pointsman.storage.policies.settings import Server

KEEP_ALIVE_S: Final = 75.0
MOST_LEARNT: Final = 4
"""A caller whose heads never come again is not looked at any longer than this."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_METHODS: Final = {each.encode(): each for each in ("POST", "GET", "HEAD", "DELETE", "PUT")}
_INVALID: Final = "invalid HTTP request"
_OVERRUN: Final = "too many connections"


class Service(Protocol):
    """What requests are for."""

    def admitted(self, method: str, path: str, headers: dict[bytes, bytes]) -> Handler:
        """Give what serves a request, by its head alone, or raise why it is refused."""
        ...

    async def served(self, asked: Asked, handler: Handler | PointsmanError, reply: Reply) -> None:
        """Serve a request, or tell why it is refused."""
        ...


class House(Protocol):
    """What the connections of one server share."""

    @property
    def service(self) -> Service:
        """What requests are for."""
        ...

    limits: Server
    loop: asyncio.AbstractEventLoop
    connections: set[Connection]
    untried: dict[Connection, None]
    """Those that never had a request served, the oldest first."""
    tasks: set[asyncio.Task[None]]


class Lane(Protocol):
    """A shorter way for some of the requests that one handler serves."""

    def take(self, connection: Connection, request: Request) -> None:
        """Serve a request without a task, or have the connection serve it at length."""
        ...


class Connection(asyncio.Protocol):
    """A connection that serves one request at a time, in the order they came."""

    __slots__ = (
        "_again", "_current", "_due", "_head", "_house", "_is_held", "_is_over", "_is_stopping",
        "_learnt", "_parser", "_received", "_request", "_stalled", "_transport", "_waiting",
        "_whole", "client", "pausing",
    )  # fmt: skip

    def __init__(self, house: House) -> None:
        self._house = house
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._parser = httptools.HttpRequestParser(self)
        # What follows `connection: close` is not read; without this it would undo the request.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.client = ""
        self._head: Head | None = None
        self._received = 0
        self._request: Request | None = None
        """The request whose body comes in."""
        self._current: Request | None = None
        """The request that is served."""
        self._waiting: deque[Request] = deque()
        self._whole: Request | None = None
        """The last request that the parser gave."""
        self._again: Again | None = None
        self._learnt = 0
        self._due = self._stalled = inf
        self._is_held = self._is_over = self._is_stopping = False
        self.pausing: asyncio.Future[None] | None = None
        """Done once a caller that did not read has read enough for more."""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first head."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.client = peer[0] if peer else ""
        house = self._house
        house.connections.add(self)
        house.untried[self] = None
        if len(house.connections) > house.limits.max_connections:
            # Whoever has said nothing whole yet makes room; callers that were served stay.
            oldest = next(iter(house.untried))
            if oldest is not self:
                oldest.cut()
        self._due = house.loop.time() + house.limits.head_timeout_s

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's own
        """Tell whoever is served that its caller is gone."""
        self._is_over = True
        self._due = inf
        self._house.connections.discard(self)
        self._house.untried.pop(self, None)
        self._waiting.clear()
        self.resume_writing()
        if self._current is not None:
            self._current.reply.leave()

    def data_received(self, data: bytes) -> None:
        """Take what came in; a head may be no larger than allowed."""
        if self._is_over:
            return
        is_first = self._request is None and not self._received
        if is_first and self._again is not None and self._is_served_again(self._again, data):
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
            self._again = again(data, request, self._house.limits.max_head_bytes)

    def _is_served_again(self, known: Again, data: bytes) -> bool:
        """Serve a request whose head is known and that came whole, if this is one."""
        if self._current is not None:
            return False
        body = known.body_of(data, self._house.limits.max_body_bytes)
        if body is None:
            return False
        self._learnt = 0
        self._due = inf
        self._serve(known.request(Reply(self, True, False, True), body))  # noqa: FBT003 - see Reply
        return True

    def pause_writing(self) -> None:
        """Learn that the caller does not read; it has a while to begin again."""
        self.pausing = self._house.loop.create_future()
        self._stalled = self._house.loop.time() + self._house.limits.write_timeout_s

    def resume_writing(self) -> None:
        """Learn that the caller reads again."""
        self._stalled = inf
        pausing, self.pausing = self.pausing, None
        if pausing is not None and not pausing.done():
            pausing.set_result(None)

    # What httptools calls.

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._head = Head()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the address."""
        if self._head is not None:
            self._head.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; what follows a body is ignored."""
        head = self._head
        if head is None:
            return
        name = name.lower()
        headers = head.headers
        if name in headers and name in ONCE:
            head.twice = name
        headers[name] = value

    def on_headers_complete(self) -> None:
        """Find out what serves the request; one that is refused is not read on."""
        head, self._head = self._head, None
        if head is None or self._is_over:
            return
        limits = self._house.limits
        if self._received > limits.max_head_bytes and head.size() > limits.max_head_bytes:
            # The parser turns it into a 400 and the end of the connection.
            raise ValueError("the head is larger than allowed")
        self._received = 0
        request = self._request = self._begun(head)
        try:
            if head.twice:
                raise head.refusal()
            request.handler = self._house.service.admitted(
                request.method, request.path, head.headers
            )
        except PointsmanError as error:
            request.handler = error
            if request.method != "GET":
                self._serve_without_more(request)
                return
        self._due = self._house.loop.time() + limits.body_timeout_s
        if b"expect" in head.headers and self._current is None:
            self.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        request = self._request
        if request is None or self._is_over:
            return
        request.add(body)
        limit = self._house.limits.max_body_bytes
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

    def answered(self, keeps: bool, /) -> None:  # noqa: FBT001 - the reply's own word
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

    def swept(self, now: float) -> None:
        """Cut what is late."""
        if self._stalled <= now:
            self._transport.abort()
        elif self._due <= now:
            self._due = inf
            self._late()

    def cut(self) -> None:
        """Make room for another caller."""
        self._house.connections.discard(self)
        self._house.untried.pop(self, None)
        self._transport.abort()

    def stop(self) -> None:
        """Close, once what is served has been answered."""
        self._is_stopping = True
        if self._current is None:
            self._transport.close()

    def _rest(self) -> None:
        """Wait for the next request."""
        if not self._received:
            self._due = self._house.loop.time() + KEEP_ALIVE_S
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
        house = self._house
        if self._received > house.limits.max_head_bytes:
            self._refuse(400, "the head is larger than allowed")
        elif is_new:
            self._due = house.loop.time() + house.limits.head_timeout_s

    def _begun(self, head: Head) -> Request:
        parser = self._parser
        method = parser.get_method()
        is_new = parser.get_http_version() == "1.1"
        keeps = is_new and parser.should_keep_alive()
        reply = Reply(self, keeps, method == b"HEAD", is_new)
        name = _METHODS.get(method) or method.decode("ascii")
        return Request(name, head.target(), head.headers, reply)

    def _serve_without_more(self, request: Request) -> None:
        """Answer a request that is not read to its end: nothing can follow it."""
        self._request = None
        self._is_over = True
        self._due = inf
        if self._current is None:
            self._serve(request)
        else:
            self._waiting.append(request)

    def _serve(self, request: Request) -> None:
        house = self._house
        if len(house.connections) > house.limits.max_connections:
            self._refuse(503, _OVERRUN)
            return
        house.untried.pop(self, None)
        self._current = request
        lane: Lane | None = getattr(request.handler, "lane", None)
        if lane is None:
            self.serve_at_length(request, request.handler)
        else:
            lane.take(self, request)

    def serve_at_length(self, request: Request, handler: Handler | PointsmanError) -> None:
        """Serve a request in a task of its own."""
        house = self._house
        request.task = house.loop.create_task(self._served(request, handler))
        house.tasks.add(request.task)

    async def _served(self, request: Request, handler: Handler | PointsmanError) -> None:
        """Have a request served; never leave a caller waiting for what nobody writes."""
        house, reply = self._house, request.reply
        try:
            await house.service.served(request.asked(self.client), handler, reply)
        finally:
            house.tasks.discard(request.task)
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
