"""Errors in OpenAI's shape."""

from __future__ import annotations

import msgspec

_TYPES = {
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_error",
    408: "timeout_error",
    429: "rate_limit_error",
}


def error_type(status: int) -> str:
    """Give OpenAI's word for a status."""
    return _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")


def error_object(status: int, code: str, message: str) -> dict[str, object]:
    """Give the error itself."""
    return {"message": message, "type": error_type(status), "param": None, "code": code}


def write_error(status: int, code: str, message: str, request_id: str = "") -> bytes:  # noqa: ARG001 - OpenAI tells the request's id in a header only
    """Write an error as a whole body."""
    return msgspec.json.encode({"error": error_object(status, code, message)})
