"""Requests and answers as handlers see them: no sockets, no framing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import Struct

from pointsman.errors import PointsmanError
from pointsman.gateway.serving.addresses import public_words

Headers = Sequence[tuple[bytes, bytes]]

T = TypeVar("T")


class Receive(Protocol):
    """The caller's side of a request: tells when it hangs up."""

    def when_left(self, told: Callable[[], None] | None) -> None:
        """Call back once when the caller hangs up; at once if it did."""
        ...


class Send(Protocol):
    """Where an answer goes."""

    @property
    def status(self) -> int:
        """The status that was sent; 0 before."""
        ...

    def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Answer in one write; the length stands in the headers."""
        ...

    async def begin(self, status: int, headers: Headers, first: bytes) -> None:
        """Begin an answer of pieces: its head and its first piece in one write."""
        ...

    async def more(self, data: bytes) -> None:
        """Answer on, no faster than the caller reads."""
        ...

    def push(self, data: bytes) -> bool:
        """Answer on at once; False where the caller lags, and must be waited for."""
        ...

    def end(self, last: bytes = b"") -> None:
        """End an answer of pieces, with its last one in the same write."""
        ...

    def at_once(self, status: int, headers: Headers, data: bytes) -> None:
        """Answer as `begin` and `end` would, in one write: all the pieces are here."""
        ...


JSON: Final = (b"content-type", b"application/json")
EVENTS: Final = (b"content-type", b"text/event-stream; charset=utf-8")
NO_STORE: Final = (b"cache-control", b"no-store")
CLOSE: Final = (b"connection", b"close")


class Asked(Struct, frozen=True):
    """One request, its body read."""

    method: str
    path: str
    query: str
    headers: Mapping[bytes, bytes]
    body: bytes
    client: str
    refusal: PointsmanError | None = None
    """Why the caller is refused, where that was found before the body was read."""

    def header(self, name: bytes) -> str:
        """Return a header as text, empty where it is absent."""
        return self.headers.get(name, b"").decode("latin-1")


Handler = Callable[[Asked, Receive, Send], Awaitable[None]]


class RouteHandler(Protocol):
    """Serves the requests of a route."""

    def check_caller(self, asked: Asked) -> bool:
        """Tell whether the caller is known, before the body is read, or raise the refusal."""
        ...

    async def __call__(self, asked: Asked, receive: Receive, send: Send, /) -> None:
        """Serve one request."""
        ...


async def in_thread(work: Callable[[], T]) -> T:
    """Do what would block the event loop in a thread beside it."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


class Answer(Struct, frozen=True):
    """An answer in bytes."""

    body: bytes
    headers: Headers
    status: int = 200


class JsonAnswer(Struct, frozen=True):
    """A value to be answered as JSON, with a status or headers of its own."""

    value: object
    status: int = 200
    headers: Headers = ()


class AnswerWriter(Struct, frozen=True):
    """An answer of pieces, written by `write` as they come."""

    write: Callable[[Receive, Send], Awaitable[None]]


async def write_answer(result: object, status: int, receive: Receive, send: Send) -> None:
    """Write the answer that a handler returned: one of the above, or a value for JSON."""
    if isinstance(result, AnswerWriter):
        await result.write(receive, send)
    elif isinstance(result, Answer):
        await answer(send, result.status, result.body, result.headers)
    elif isinstance(result, JsonAnswer):
        await answer_value(send, result.value, result.status, result.headers)
    else:
        await answer_value(send, result, status)


async def answer(send: Send, status: int, body: bytes, headers: Headers = (JSON,)) -> None:
    """Send a whole answer."""
    send.whole(status, [*headers, (b"content-length", b"%d" % len(body))], body)


async def answer_value(send: Send, value: object, status: int = 200, headers: Headers = ()) -> None:
    """Send a value as JSON."""
    await answer(send, status, msgspec.json.encode(value), [JSON, NO_STORE, *headers])


def error_value(error: PointsmanError, trace_id: str, timestamp: str) -> dict[str, object]:
    """Return an error in the product's own shape."""
    severity = "error" if error.http_status >= 500 else "warning"
    message, where, hint = public_words(error)
    return {
        "error_code": error.code,
        "status": error.http_status,
        "severity": severity,
        "user_message": message,
        "developer_message": ": ".join(each for each in (where, hint) if each),
        "meta": {"trace_id": trace_id, "timestamp": timestamp},
    }
