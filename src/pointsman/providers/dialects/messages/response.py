"""Messages: whole answers, and errors."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pointsman.errors import InputError
from pointsman.providers.dialects import stops, usage
from pointsman.providers.dialects.body import decode
from pointsman.providers.dialects.messages.blocks import WireBlock, read_block, write_block
from pointsman.providers.messages import Block, Image, Response, ToolResult, Usage

_ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class _Message(Struct):
    content: list[WireBlock]
    id: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: usage.MessagesUsage | None = None


_DECODER = msgspec.json.Decoder(_Message)


def read_response(body: bytes) -> Response:
    """Read a whole answer. Cited text is kept, its source is not."""
    wire = decode(_DECODER, body)
    return Response(
        id=wire.id or "",
        content=tuple(
            _answer_block(each, f"content[{at}]") for at, each in enumerate(wire.content)
        ),
        stop_reason=stops.FROM_MESSAGES.get(wire.stop_reason or "end_turn", "end"),
        usage=Usage() if wire.usage is None else wire.usage.read(),
        stop_sequence=wire.stop_sequence or "",
    )


def _answer_block(wire: WireBlock, where: str) -> Block:
    block = read_block(wire, where, [])
    if isinstance(block, Image | ToolResult):
        raise InputError(f"`{where}`: an answer holds no {wire.type}")
    return block


def write_response(response: Response, model: str, created: int) -> bytes:  # noqa: ARG001 - this format does not say when
    """Write a whole answer."""
    body = message_object(response.id, model, response.usage)
    body["content"] = [write_block(each) for each in response.content]
    body["stop_reason"] = stops.TO_MESSAGES[response.stop_reason]
    body["stop_sequence"] = response.stop_sequence or None
    return msgspec.json.encode(body)


def message_object(own_id: str, model: str, used: Usage) -> dict[str, object]:
    """Return an answer that has only begun."""
    return {
        "id": own_id if own_id.startswith("msg_") else f"msg_{own_id}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage.write_messages(used),
    }


def error_type(status: int) -> str:
    """Return Anthropic's word for a status."""
    return _ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")


def write_error(status: int, code: str, message: str, request_id: str = "") -> bytes:
    """Write an error as a whole body; this shape has no place for a code but its words."""
    error = {"type": error_type(status), "message": f"{code}: {message}"}
    return msgspec.json.encode({"type": "error", "error": error, "request_id": request_id or None})
