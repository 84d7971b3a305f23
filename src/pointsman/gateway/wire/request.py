"""A request as it comes in: its head, then its body, within its limits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import httptools

from pointsman.errors import InputError, NotFound, PointsmanError
from pointsman.gateway.serving.http import Asked, Handler
from pointsman.gateway.wire.reply import Reply

ONCE: Final = frozenset(
    {b"host", b"authorization", b"x-api-key", b"content-type", b"content-length", b"x-session-id",
     b"x-pointsman-privacy", b"x-pointsman-workspace"}
)  # fmt: skip
"""Headers that decide how a request is understood: readers disagree about which of two counts."""

_NOT_FOUND: Final = NotFound()

_TARGETS: Final = {
    f"/v1/{each}".encode(): (f"/v1/{each}", "")
    for each in ("chat/completions", "messages", "responses", "embeddings", "completions")
}
"""The targets of most requests, already split."""


class IncomingRequest:
    """One request, from the last byte of its head on."""

    __slots__ = ("_parts", "handler", "headers", "method", "path", "query", "reply", "size", "task")

    def __init__(
        self, method: str, target: tuple[str, str], headers: Mapping[bytes, bytes], reply: Reply
    ) -> None:
        self.method = method
        self.path, self.query = target
        self.headers = headers
        self.reply = reply
        self.handler: Handler | PointsmanError = _NOT_FOUND
        """Its handler, or why it is refused."""
        self.task: asyncio.Task[None] | None = None
        self.size = 0
        self._parts: list[bytes] = []

    def add(self, part: bytes) -> None:
        """Take a piece of the body."""
        self._parts.append(part)
        self.size += len(part)

    def to_asked(self, client: str) -> Asked:
        """Return it as handlers see it."""
        parts = self._parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return Asked(self.method, self.path, self.query, self.headers, body, client)


class RequestHead:
    """The head of a request while it comes in."""

    __slots__ = ("headers", "twice", "url")

    def __init__(self) -> None:
        self.url = b""
        self.headers: dict[bytes, bytes] = {}
        self.twice = b""

    def refusal(self) -> InputError:
        """Say that a header stands twice that may stand once."""
        return InputError(f"`{self.twice.decode()}` stands twice")

    def size(self) -> int:
        """Return its size in bytes, roughly."""
        return len(self.url) + sum(
            len(name) + len(value) + 4 for name, value in self.headers.items()
        )

    def target(self) -> tuple[str, str]:
        """Return the undecoded path and the query; raise where there is no path."""
        url = self.url
        known = _TARGETS.get(url)
        if known is not None:
            return known
        if url[:1] == b"/" and b"#" not in url:
            path, _, query = url.partition(b"?")
            return path.decode("ascii"), query.decode("latin-1")
        found = httptools.parse_url(url)
        # Not decoded: a slash inside a name would look like one between two.
        return found.path.decode("ascii"), (found.query or b"").decode("latin-1")
