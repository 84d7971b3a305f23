"""Heads seen before: a caller that keeps its connection sends the same one, but for its length.

A head that was parsed and admitted is kept, cut before and behind its length. Bytes that equal both
parts say the same as it did, so a request that came whole in one read is not parsed once more.
"""

from __future__ import annotations

import re
from typing import Final

from pointsman.errors import PointsmanError
from pointsman.gateway.wire.reply import Reply
from pointsman.gateway.wire.request import IncomingRequest

_LENGTH: Final = re.compile(rb"\r\ncontent-length: ([0-9]+)(?=\r\n)", re.IGNORECASE)
_END: Final = b"\r\n\r\n"
_LINE_END: Final = b"\r\n"
_MOST_DIGITS: Final = 9
_FOR_ONCE: Final = frozenset({b"connection", b"expect", b"transfer-encoding", b"upgrade"})
"""Headers about the body's framing or the next request: a head with one is always parsed."""


class HeadCache:
    """A head without its length, and its parsed request."""

    __slots__ = ("_after", "_before", "_handler", "_headers", "_method", "_target")

    def __init__(self, before: bytes, after: bytes, request: IncomingRequest) -> None:
        self._before = before
        self._after = after
        self._method = request.method
        self._target = (request.path, request.query)
        self._headers = request.headers
        self._handler = request.handler

    def body_of(self, data: bytes, most: int) -> bytes | None:
        """Return the body behind this head; None if the head differs or the body is not whole."""
        start, after = len(self._before), self._after
        end = data.find(after, start, start + _MOST_DIGITS + len(after))
        if end < 0 or not data.startswith(self._before):
            return None
        digits, at = data[start:end], end + len(after)
        # Only plain digits: a number that could be read in two ways is left to the parser.
        if not digits.isdigit() or digits.startswith(b"0"):
            return None
        return data[at:] if len(data) - at == int(digits) <= most else None

    def request(self, reply: Reply, body: bytes) -> IncomingRequest:
        """Return another request with this head."""
        request = IncomingRequest(self._method, self._target, self._headers, reply)
        request.handler = self._handler
        request.add(body)
        return request


def learn_head(data: bytes, request: IncomingRequest, most: int) -> HeadCache | None:
    """Learn the head of an admitted request that is all of these bytes, if it may come again.

    `most` is how large heads may be: with a longer number it must still be allowed.
    """
    is_plain = request.method == "POST" and _FOR_ONCE.isdisjoint(request.headers)
    if not is_plain or isinstance(request.handler, PointsmanError):
        return None
    end = data.find(_END) + len(_END)
    places = [*_LENGTH.finditer(data, 0, end)]
    if len(places) != 1 or end + request.size != len(data) or end + _MOST_DIGITS > most:
        return None
    is_new = data[: data.find(_LINE_END)].endswith(b" HTTP/1.1")
    place = places[0]
    if not is_new or int(place[1]) != request.size:
        return None
    return HeadCache(data[: place.start(1)], data[place.end(1) : end], request)
