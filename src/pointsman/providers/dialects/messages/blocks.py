"""Messages: the blocks of a message, read and written."""

from __future__ import annotations

from typing import assert_never

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.providers.dialects import foreign
from pointsman.providers.dialects.body import EMPTY_OBJECT, NULL, checked_object, decode, is_null
from pointsman.providers.dialects.foreign import for_messages
from pointsman.providers.dialects.loss import CannotSayCode, Loss, refuse
from pointsman.providers.messages import (
    Block,
    Image,
    RedactedThinking,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)

_FILES = frozenset({"document", "search_result", "container_upload"})


class _Source(Struct):
    type: str
    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class WireBlock(Struct):
    """A block as it stands in a body, of any type."""

    type: str
    text: str | None = None
    source: _Source | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = NULL
    tool_use_id: str | None = None
    content: Raw = NULL
    is_error: bool | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    cache_control: Raw = NULL
    citations: Raw = NULL


def read_block(wire: WireBlock, where: str, unsaid: list[str]) -> Block:
    """Read one block."""
    if not is_null(wire.cache_control):
        unsaid.append(Loss.CACHE_CONTROL)
    if not is_null(wire.citations):
        unsaid.append(Loss.CITATIONS)
    match wire.type:
        case "text":
            return Text(_require(wire.text, where, "text"))
        case "image":
            return _image(wire, where)
        case "tool_use":
            return _tool_use(wire, where)
        case "tool_result":
            return _tool_result(wire, where, unsaid)
        case "thinking":
            return _thinking(wire, where)
        case "redacted_thinking":
            return RedactedThinking(_require(wire.data, where, "data"))
    raise _unreadable(wire.type, where)


def _require(value: str | None, where: str, key: str) -> str:
    if value is None:
        raise InputError(f"`{where}.{key}` is missing")
    return value


def _unreadable(kind: str, where: str) -> InputError:
    if kind in _FILES:
        return refuse(CannotSayCode.FILE, f"{where}.type: {kind}")
    if kind == "server_tool_use" or kind.endswith("_tool_result"):
        return refuse(CannotSayCode.SERVER_TOOL, f"{where}.type: {kind}")
    return refuse(CannotSayCode.CONTENT, f"{where}.type: {kind[:64]}")


def _image(wire: WireBlock, where: str) -> Image:
    source = wire.source
    if source is None:
        raise InputError(f"`{where}.source` is missing")
    if source.type == "url":
        return Image("url", _require(source.url, where, "source.url"))
    if source.type == "base64":
        media_type = _require(source.media_type, where, "source.media_type")
        return Image("base64", _require(source.data, where, "source.data"), media_type)
    raise refuse(CannotSayCode.FILE, f"{where}.source.type: {source.type}")


def _tool_use(wire: WireBlock, where: str) -> ToolUse:
    given = EMPTY_OBJECT if is_null(wire.input) else wire.input
    return ToolUse(
        _require(wire.id, where, "id"),
        _require(wire.name, where, "name"),
        checked_object(given, f"{where}.input"),
    )


def _tool_result(wire: WireBlock, where: str, unsaid: list[str]) -> ToolResult:
    return ToolResult(
        _require(wire.tool_use_id, where, "tool_use_id"),
        tuple(_shown_blocks(wire.content, f"{where}.content", unsaid)),
        wire.is_error or False,
    )


def _shown_blocks(content: Raw, where: str, unsaid: list[str]) -> list[Text | Image]:
    if is_null(content):
        return []
    found = decode(_CONTENT, content, where)
    if isinstance(found, str):
        return [Text(found)] if found else []
    blocks = [read_block(each, f"{where}[{at}]", unsaid) for at, each in enumerate(found)]
    shown = [each for each in blocks if isinstance(each, Text | Image)]
    if len(shown) < len(blocks):
        raise InputError(f"`{where}` holds something else than texts and images")
    return [each for each in shown if each != Text("")]


def _thinking(wire: WireBlock, where: str) -> Block:
    text = _require(wire.thinking, where, "thinking")
    return foreign.read(text, wire.signature or "", "anthropic")


def write_block(block: Block) -> dict[str, object]:
    """Write one block."""
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Image():
            return {"type": "image", "source": foreign.source_of(block)}
        case ToolUse():
            return {
                "type": "tool_use",
                "id": for_messages(block.id),
                "name": block.name,
                "input": block.input,
            }
        case ToolResult():
            return _written_result(block)
        case Thinking():
            signature = foreign.write_signature(block, "anthropic")
            return {"type": "thinking", "thinking": block.text, "signature": signature}
        case RedactedThinking():
            return {"type": "redacted_thinking", "data": block.data}
    assert_never(block)


def _written_result(block: ToolResult) -> dict[str, object]:
    written: dict[str, object] = {
        "type": "tool_result",
        "tool_use_id": for_messages(block.tool_use_id),
    }
    if len(block.content) == 1 and isinstance(block.content[0], Text):
        written["content"] = block.content[0].text
    elif block.content:
        written["content"] = [write_block(each) for each in block.content]
    if block.is_error:
        written["is_error"] = True
    return written


_CONTENT = msgspec.json.Decoder(str | list[WireBlock])
