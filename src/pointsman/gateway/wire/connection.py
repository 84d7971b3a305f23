"""One caller's connection: requests in, one after the other, and their replies out.

A head must arrive whole, in time and within its size, a body likewise; a caller that does not read
is cut. Times are looked at by one sweep over all connections, not by a timer a request. Who may not
send a body is refused by the head alone, and the body is not kept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from math import inf
from typing import Final, Protocol, cast

from pointsman.errors import BodyTooLarge, BodyTooSlow, NoRoomForBody, PointsmanError
from pointsman.gateway.serving.http import Asked, Handler, RouteHandler
from pointsman.gateway.wire.body_memory import BodyMemory
from pointsman.gateway.wire.head_cache import HeadCache, learn_head
from pointsman.gateway.wire.reply import STATUS_LINES, Reply
from pointsman.gateway.wire.request import BadRequest, IncomingRequest, RequestHead, may_be_head
from pointsman.storage.policies.settings import Server

KEEP_ALIVE_S: Final = 75.0
DISCARD_S: Final = 2.0
"""How long a refused caller may go on sending: closed at once, it would not read its answer."""
MOST_LEARNT: Final = 4
"""A caller whose heads never come again is not looked at any longer than this."""
_BLANK_LINE: Final = b"\r\n\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_INVALID: Final = "invalid HTTP request"
_LONG_HEAD: Final = "the head is larger than allowed"
_OVERRUN: Final = "too many connections"


class HttpService(Protocol):
    """Serves requests."""

    def admit(self, method: str, path: str, headers: dict[bytes, bytes]) -> RouteHandler:
        """Return the handler of a request, by its head alone, or raise why it is refused."""
        ...

    def check_caller(self, asked: Asked, handler: RouteHandler) -> bool:
        """Tell whether the caller is known, by the head alone, or raise why it is refused."""
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
    """Those that never had a request served, or were refused one, the oldest first."""
    tasks: set[asyncio.Task[None]]
    bodies: BodyMemory


class FastPath(Protocol):
    """A shorter way for some of the requests that one handler serves."""

    def take(self, connection: ClientConnection, request: IncomingRequest) -> None:
        """Serve a request without a task, or have the connection serve it in a task."""
        ...


class ClientConnection(asyncio.Protocol):
    """A connection that serves one request at a time, in the order they came."""

    __slots__ = (
        "_begun", "_current", "_discards", "_due", "_head_cache", "_is_held", "_is_over",
        "_is_stopping", "_learnt", "_request", "_server", "_stalled", "_transport", "_waiting",
        "_whole", "client", "pausing",
    )  # fmt: skip

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.client = ""
        self._begun = bytearray()
        """The head that comes in, until it is whole."""
        self._request: IncomingRequest | None = None
        """The request whose body comes in."""
        self._current: IncomingRequest | None = None
        """The request that is served."""
        self._waiting: deque[IncomingRequest] = deque()
        self._whole: IncomingRequest | None = None
        """The last request that came whole."""
        self._head_cache: HeadCache | None = None
        self._learnt = 0
        self._due = self._stalled = inf
        self._is_held = self._is_stopping = False
        self._is_over = self._discards = False
        """No more is read; bytes that still come are discarded for a while."""
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
        server = self._server
        server.connections.discard(self)
        server.untried.pop(self, None)
        self._drop_head()
        self._drop_request()
        for request in self._waiting:
            server.bodies.release(request)
        self._waiting.clear()
        self.resume_writing()
        if self._current is not None:
            server.bodies.release(self._current)
            self._current.reply.leave()

    def data_received(self, data: bytes) -> None:
        """Take the bytes of heads and bodies, in their order."""
        is_first = self._request is None and not self._begun and not self._is_over
        known = self._head_cache
        if is_first and known is not None and self._serve_from_cache(known, data):
            return
        self._take_all(data)
        if is_first and self._whole is not None and self._learnt < MOST_LEARNT:
            # A request that came whole: its head is kept for when it comes again.
            self._learnt += 1
            most = self._server.limits.max_head_bytes
            self._head_cache = learn_head(data, self._whole, most)
        self._whole = None

    def _take_all(self, data: bytes) -> None:
        while data and not self._is_over:
            data = self._take_head(data) if self._request is None else self._take_body(data)

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

    # Heads.

    def _serve_from_cache(self, known: HeadCache, data: bytes) -> bool:
        """Serve a request whose head is known and that came whole, if this is one."""
        if self._current is not None:
            return False
        body = known.body_of(data, self._server.limits.max_body_bytes)
        if body is None:
            return False
        self._learnt = 0
        self._due = inf
        request = known.request(Reply(self, True, False, True), body)  # noqa: FBT003 - see Reply
        self._server.bodies.hold(request, len(body))
        self._serve(request)
        return True

    def _take_head(self, data: bytes) -> bytes:
        """Take bytes of a head, and return those behind it."""
        begun = self._begun
        old = len(begun)
        if old:
            begun += data
            end = begun.find(_BLANK_LINE, max(old - len(_BLANK_LINE), 0))
        else:
            data = data.lstrip(b"\r\n")
            end = data.find(_BLANK_LINE)
            if end < 0:
                begun += data
        if end < 0:
            self._wait_for_head(old)
            return b""
        if old:
            data = bytes(begun)
            begun.clear()
            self._server.bodies.keyless -= old
        end += len(_BLANK_LINE)
        if end > self._server.limits.max_head_bytes:
            self._refuse(400, _LONG_HEAD)
            return b""
        try:
            head = RequestHead(data[:end])
        except BadRequest:
            self._refuse(400, _INVALID)
            return b""
        self._open_request(head, len(data) - end)
        return data[end:]

    def _wait_for_head(self, old: int) -> None:
        """Wait for the rest of a head of which there were so many bytes before."""
        server, begun = self._server, self._begun
        limits = server.limits
        server.bodies.keyless += len(begun) - old
        if len(begun) > limits.max_head_bytes:
            self._refuse(400, _LONG_HEAD)
        elif not may_be_head(begun):
            self._refuse(400, _INVALID)
        elif server.bodies.keyless > limits.max_keyless_bytes:
            self._refuse(503, _OVERRUN)
        elif begun and not old:
            self._due = server.loop.time() + limits.head_timeout_s

    def _drop_head(self) -> None:
        self._server.bodies.keyless -= len(self._begun)
        self._begun.clear()

    def _open_request(self, head: RequestHead, received: int) -> None:
        """Wait for the body of a request, of which so many bytes are here, or refuse it."""
        reply = Reply(self, head.keeps, head.method == "HEAD", head.is_new)
        request = IncomingRequest(head.method, head.target, head.headers, reply)
        request.length = head.length
        is_refused = False
        try:
            self._check_head(head, request, received)
        except PointsmanError as error:
            is_refused = True
            # Its traceback holds all that was read.
            error.with_traceback(None)
            if error is not request.refusal:
                request.handler = error
        self._request = request
        if request.length == 0:
            self._end_request(request)
        elif is_refused:
            self._serve_without_more(request)
        else:
            self._due = self._server.loop.time() + self._server.limits.body_timeout_s
            if head.waits and not received and self._current is None:
                self.write(_CONTINUE)

    def _check_head(self, head: RequestHead, request: IncomingRequest, received: int) -> None:
        """Find the handler of a request, or raise why it is refused by its head alone.

        The caller of a body that is here already is looked at by the handler.
        """
        server = self._server
        limits, length = server.limits, request.length
        head.check()
        handler = server.service.admit(request.method, request.path, head.headers)
        request.handler = handler
        if length is None or length > received:
            try:
                is_known = server.service.check_caller(request.to_asked(self.client), handler)
            except PointsmanError as error:
                request.refusal = error
                raise
            request.is_keyless = not is_known
        most = limits.max_body_bytes
        if request.is_keyless:
            most = min(most, limits.max_keyless_bytes)
        if length is not None and length > most:
            raise _too_large(most)
        if request.is_keyless and server.bodies.keyless + (length or 0) > limits.max_keyless_bytes:
            raise NoRoomForBody

    # Bodies.

    def _take_body(self, data: bytes) -> bytes:
        """Take bytes of the body that comes in, and return those behind it."""
        request, server = cast("IncomingRequest", self._request), self._server
        limits = server.limits
        old, rest = request.size, b""
        if request.length is None:
            try:
                is_whole = request.add_chunks(data)
            except BadRequest:
                self._refuse(400, _INVALID)
                return b""
        else:
            left = request.length - old
            rest = data[left:]
            request.add(data[:left] if rest else data)
            is_whole = request.size == request.length
        server.bodies.hold(request, request.size - old)
        if request.size > limits.max_body_bytes:
            request.handler = _too_large(limits.max_body_bytes)
            self._serve_without_more(request)
        elif request.is_keyless and server.bodies.keyless > limits.max_keyless_bytes:
            request.handler = NoRoomForBody()
            self._serve_without_more(request)
        elif is_whole:
            self._end_request(request)
        return rest

    def _end_request(self, request: IncomingRequest) -> None:
        """Serve a request that is whole, or have it wait for those before it."""
        self._request = None
        self._whole = request
        self._due = inf
        self._is_over = not request.reply.keeps
        if self._current is None:
            self._serve(request)
        else:
            self._waiting.append(request)
            self._is_held = True
            self._transport.pause_reading()

    def _serve_without_more(self, request: IncomingRequest) -> None:
        """Answer a request that is not read to its end: nothing can follow it."""
        self._drop_request()
        request.reply.keeps = False
        self._is_over = self._discards = True
        self._due = inf
        if self._current is None:
            self._serve(request)
        else:
            self._waiting.append(request)

    def _drop_request(self) -> None:
        """Let go of the body that comes in."""
        request, self._request = self._request, None
        if request is not None:
            request.drop_body()
            self._server.bodies.release(request)

    # What a reply calls.

    def write(self, data: bytes) -> None:
        """Write, or have it wait; nothing when the caller is gone."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def end_reply(self, keeps: bool, /) -> None:  # noqa: FBT001 - the reply's own word
        """Go on to the next request, or close."""
        current, self._current = self._current, None
        if current is not None:
            self._server.bodies.release(current)
        if keeps and self._waiting and not self._is_stopping:
            self._serve(self._waiting.popleft())
        elif not keeps or self._is_over or self._is_stopping:
            self._close()
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
        if not self._begun and self._request is None:
            self._due = self._server.loop.time() + KEEP_ALIVE_S
        if self._is_held:
            self._is_held = False
            self._transport.resume_reading()

    def _close(self) -> None:
        """Close; a caller that may still be sending first gets time to read its answer."""
        self._is_over = True
        transport = self._transport
        if not self._discards or self._is_stopping or transport.is_closing():
            transport.close()
            return
        transport.write_eof()
        if self._is_held:
            transport.resume_reading()
        self._due = self._server.loop.time() + DISCARD_S
        self._server.untried[self] = None

    def _late(self) -> None:
        if self._is_over:
            self._transport.abort()
        elif self._request is not None:
            self._request.handler = BodyTooSlow()
            self._serve_without_more(self._request)
        elif self._begun:
            self._refuse(400, "the head took too long to arrive")
        else:
            self._transport.close()

    def _serve(self, request: IncomingRequest) -> None:
        server = self._server
        if len(server.connections) > server.limits.max_connections:
            server.bodies.release(request)
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
        self._is_over = self._discards = True
        self._due = inf
        self._drop_head()
        self._drop_request()
        if self._current is not None:
            return
        body = message.encode()
        head = STATUS_LINES[status] + b"content-type: text/plain; charset=utf-8\r\n"
        self.write(b"%bcontent-length: %d\r\nconnection: close\r\n\r\n%b" % (head, len(body), body))
        self._close()


def _too_large(most: int) -> BodyTooLarge:
    return BodyTooLarge(hint=f"the limit is {most} bytes")
