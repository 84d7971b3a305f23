"""Errors that come inside a stream."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pointsman.providers.streaming import AnswerBroken


class UpstreamFault(Struct):
    """An error as a vendor tells it; some servers give numbers for codes."""

    message: str | None = None
    type: str | None = None
    code: str | int | None = None
    status: str | int | None = None

    def broken(self) -> AnswerBroken:
        """Return it as an event."""
        word = self.status if isinstance(self.status, str) else None
        code = word or self.code or self.type or "upstream_error"
        return AnswerBroken(str(code), self.message or "the provider told no more")


def incomplete() -> AnswerBroken:
    """Return the event for a stream that ends before its answer does."""
    return AnswerBroken("incomplete_stream", "the stream ended before the answer did")


_TYPES = {
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_error",
    408: "timeout_error",
    429: "rate_limit_error",
}


def error_type(status: int) -> str:
    """Return OpenAI's word for a status."""
    return _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")


def error_object(status: int, code: str, message: str) -> dict[str, object]:
    """Return the error itself."""
    return {"message": message, "type": error_type(status), "param": None, "code": code}


def write_error(status: int, code: str, message: str, request_id: str = "") -> bytes:  # noqa: ARG001 - OpenAI tells the request's id in a header only
    """Write an error as a whole body."""
    return msgspec.json.encode({"error": error_object(status, code, message)})
