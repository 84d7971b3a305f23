"""Requests and answers as plain ASGI, with the limits every request is held to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from pointsman.errors import BodyTooLarge, BodyTooSlow, PointsmanError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]

T = TypeVar("T")

JSON: Final = (b"content-type", b"application/json")
EVENTS: Final = (b"content-type", b"text/event-stream; charset=utf-8")
NO_STORE: Final = (b"cache-control", b"no-store")
CLOSE: Final = (b"connection", b"close")


class ClientGone(Exception):
    """The caller hung up."""


class Asked(Struct, frozen=True):
    """One request, its body read."""

    method: str
    path: str
    query: str
    headers: Mapping[bytes, bytes]
    body: bytes
    client: str

    def header(self, name: bytes) -> str:
        """Give a header as text, empty where it is absent."""
        return self.headers.get(name, b"").decode("latin-1")


async def read_body(receive: Receive, limit: int, timeout_s: float) -> bytes:
    """Read a request's body within its limits."""
    first = await receive()
    if first["type"] == "http.disconnect":
        raise ClientGone
    body: bytes = first.get("body", b"")
    if len(body) > limit:
        raise BodyTooLarge(hint=f"the limit is {limit} bytes")
    if not first.get("more_body", False):
        return body
    try:
        async with asyncio.timeout(timeout_s):
            return await _rest(receive, body, limit)
    except TimeoutError:
        raise BodyTooSlow from None


async def _rest(receive: Receive, first: bytes, limit: int) -> bytes:
    parts, size = [first], len(first)
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise BodyTooLarge(hint=f"the limit is {limit} bytes")
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def in_thread(work: Callable[[], T]) -> T:
    """Do what would block the event loop in a thread beside it."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


async def answer(send: Send, status: int, body: bytes, headers: Headers = (JSON,)) -> None:
    """Send a whole answer."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


async def answer_value(send: Send, value: object, status: int = 200, headers: Headers = ()) -> None:
    """Send a value as JSON."""
    await answer(send, status, msgspec.json.encode(value), [JSON, NO_STORE, *headers])


def error_value(error: PointsmanError, trace_id: str, timestamp: str) -> dict[str, object]:
    """Give an error in the product's own shape."""
    severity = "error" if error.http_status >= 500 else "warning"
    return {
        "error_code": error.code,
        "status": error.http_status,
        "severity": severity,
        "user_message": error.message,
        "developer_message": ": ".join(each for each in (error.where, error.hint) if each),
        "meta": {"trace_id": trace_id, "timestamp": timestamp},
    }
