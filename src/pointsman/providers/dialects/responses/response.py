"""Responses: whole answers."""

from __future__ import annotations

from typing import assert_never

import msgspec
from msgspec import UNSET, Struct

from pointsman.errors import InputError
from pointsman.providers.dialects import foreign, stops, usage
from pointsman.providers.dialects.body import decode, text_of
from pointsman.providers.dialects.responses.items import ResponsesItem, read_said
from pointsman.providers.messages import (
    Block,
    Image,
    RedactedThinking,
    Response,
    StopReason,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    Usage,
)


class Incomplete(Struct):
    """Why a response is not whole."""

    reason: str | None = None


class ResponseObject(Struct):
    """A response as it stands in a body or an event."""

    id: str | None = None
    status: str | None = None
    output: list[ResponsesItem] = []
    usage: usage.ResponsesUsage | None = None
    incomplete_details: Incomplete | None = None


_DECODER = msgspec.json.Decoder(ResponseObject)


def read_response(body: bytes) -> Response:
    """Read a whole answer."""
    wire = decode(_DECODER, body)
    if wire.status is None and not wire.output:
        raise InputError("`output` is missing")
    blocks: list[Block] = []
    for at, item in enumerate(wire.output):
        blocks.extend(read_said(item, f"output[{at}]", []))
    return Response(
        id=wire.id or "",
        content=tuple(blocks),
        stop_reason=stop_reason(wire),
        usage=Usage() if wire.usage is None else wire.usage.read(),
    )


def stop_reason(wire: ResponseObject) -> StopReason:
    """Return why a response ended."""
    details = wire.incomplete_details
    return stops.from_responses(
        wire.status or "completed",
        (details.reason if details else "") or "",
        calls_tool=any(item.type == "function_call" for item in wire.output),
        refuses=any(_refuses(item) for item in wire.output),
    )


def _refuses(item: ResponsesItem) -> bool:
    return isinstance(item.content, list) and any(p.type == "refusal" for p in item.content)


def write_response(response: Response, model: str, created: int) -> bytes:
    """Write a whole answer."""
    head = ResponseHead(response.id, model, created)
    items = [item_of(block, head.item_id(at, block)) for at, block in enumerate(response.content)]
    return msgspec.json.encode(head.finish(items, response.stop_reason, response.usage))


class ResponseHead:
    """What stands around the items of a response."""

    def __init__(self, own_id: str, model: str, created: int) -> None:
        self.id = own_id if own_id.startswith("resp_") else f"resp_{own_id}"
        self._model = model
        self._created = created

    def item_id(self, at: int, block: Block) -> str:
        """Return the id of the item at a place: the same whenever it is written."""
        if isinstance(block, Thinking) and block.vendor == "openai" and block.id:
            return block.id
        return f"{_PREFIXES.get(type(block), 'msg')}_{self.id.removeprefix('resp_')}_{at}"

    def in_progress(self) -> dict[str, object]:
        """Return a response of which nothing has come yet."""
        return self._object("in_progress", [], None)

    def finish(
        self, items: list[dict[str, object]], reason: StopReason, used: Usage
    ) -> dict[str, object]:
        """Return a response that is over."""
        cut = stops.INCOMPLETE.get(reason)
        if reason == "error":
            return self.fail(items, "server_error", "the provider broke off")
        written = self._object("incomplete" if cut else "completed", items, used)
        if cut is not None:
            written["incomplete_details"] = {"reason": cut}
        return written

    def fail(self, items: list[dict[str, object]], code: str, message: str) -> dict[str, object]:
        """Return a response that broke off."""
        written = self._object("failed", items, None)
        written["error"] = {"code": code, "message": message}
        return written

    def _object(
        self, status: str, items: list[dict[str, object]], used: Usage | None
    ) -> dict[str, object]:
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "model": self._model,
            "output": items,
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "store": False,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "truncation": "disabled",
            "usage": None if used is None else usage.write_responses(used),
            "user": None,
            "metadata": {},
        }


_PREFIXES: dict[type, str] = {ToolUse: "fc", Thinking: "rs", RedactedThinking: "rs"}


def item_of(block: Block, item_id: str, status: str = "completed") -> dict[str, object]:
    """Write one block as an item."""
    match block:
        case Text():
            return message_item(item_id, status, [text_part(block.text)])
        case ToolUse():
            written = call_item(item_id, status, block.id, block.name, text_of(block.input))
            return (
                written if block.namespace is UNSET else {**written, "namespace": block.namespace}
            )
        case Thinking():
            sealed = foreign.write_signature(block, "openai")
            return reasoning_item(item_id, [summary_part(block.text)] if block.text else [], sealed)
        case RedactedThinking():
            return reasoning_item(item_id, [], foreign.write_redacted(block))
        case Image() | ToolResult():
            raise InputError(f"an answer holds no {type(block).__name__.lower()}")
    assert_never(block)


def message_item(item_id: str, status: str, content: list[object]) -> dict[str, object]:
    """Write words."""
    return {
        "id": item_id,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def text_part(text: str) -> dict[str, object]:
    """Write the one part of words."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def call_item(
    item_id: str, status: str, call_id: str, name: str, arguments: str
) -> dict[str, object]:
    """Write a call of a tool."""
    return {
        "id": item_id,
        "type": "function_call",
        "status": status,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


def summary_part(text: str) -> dict[str, object]:
    """Write the one part of reasoning."""
    return {"type": "summary_text", "text": text}


def reasoning_item(item_id: str, summary: list[object], sealed: str | None) -> dict[str, object]:
    """Write reasoning."""
    return {"id": item_id, "type": "reasoning", "summary": summary, "encrypted_content": sealed}
