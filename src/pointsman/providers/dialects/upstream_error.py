"""Errors that come inside a stream."""

from __future__ import annotations

from msgspec import Struct

from pointsman.providers.streaming import Broken


class UpstreamFault(Struct):
    """An error as a vendor tells it; some servers give numbers for codes."""

    message: str | None = None
    type: str | None = None
    code: str | int | None = None

    def broken(self) -> Broken:
        """Give it as an event."""
        code = self.code or self.type or "upstream_error"
        return Broken(str(code), self.message or "the provider told no more")


def incomplete() -> Broken:
    """Give the event for a stream that ends before its answer does."""
    return Broken("incomplete_stream", "the stream ended before the answer did")
