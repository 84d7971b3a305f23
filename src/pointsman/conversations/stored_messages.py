"""Messages as rows: whole, redacted, or without their words, as the home retains them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Raw

from pointsman.kernel.content import Retain
from pointsman.providers.messages import (
    Block,
    Image,
    RedactedThinking,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)
from pointsman.sessions.message import Metadata, SessionMessage
from pointsman.storage.stores.conversations import MessageRow

Redact = Callable[[str], str]

NO_IMAGE = Text("[an image that was not kept]")
NOT_KEPT = Text("[a message that was not kept]")

_CONTENT = msgspec.json.Decoder(tuple[Block, ...])
_METADATA = msgspec.json.Decoder(Metadata)


def message_row(message: SessionMessage, retain: Retain, redact: Redact) -> MessageRow:
    """Return the row of a message."""
    content = b""
    if retain == "full":
        content = msgspec.json.encode(message.content)
    elif retain == "redacted":
        content = msgspec.json.encode([_redact_block(each, redact) for each in message.content])
    return MessageRow(
        message.id,
        message.session_id,
        message.turn_id,
        message.role,
        msgspec.json.encode(message.metadata),
        message.created_at,
        message.schema_version,
        retain,
        content,
    )


def read_message(row: MessageRow) -> SessionMessage:
    """Return the message of a row."""
    content: tuple[Block, ...] = _CONTENT.decode(row.content) if row.content else ()
    if row.kept in {"digest", "erased"} and row.role in {"user", "assistant"}:
        content = (NOT_KEPT,)
    return SessionMessage(
        row.id,
        row.session_id,
        row.turn_id,
        row.role,  # type: ignore[arg-type] # written from a role
        content,
        _METADATA.decode(row.metadata),
        row.created_at,
        row.schema_version,
    )


def read_messages(rows: Sequence[MessageRow]) -> tuple[SessionMessage, ...]:
    """Return the messages of rows."""
    return tuple(map(read_message, rows))


def _redact_block(block: Block, redact: Redact) -> Block:
    match block:
        case Text():
            return Text(redact(block.text))
        case Thinking():
            # A signature covers the words it was made for: without them it is worth nothing.
            return Thinking(redact(block.text))
        case ToolUse():
            given = _redact_value(msgspec.json.decode(block.input), redact)
            return ToolUse(block.id, block.name, Raw(msgspec.json.encode(given)))
        case ToolResult():
            content = tuple(_redact_result(each, redact) for each in block.content)
            return ToolResult(block.tool_use_id, content, block.is_error)
        case Image():
            return NO_IMAGE
        case RedactedThinking():
            return RedactedThinking("")


def _redact_result(block: Text | Image, redact: Redact) -> Text | Image:
    return Text(redact(block.text)) if isinstance(block, Text) else NO_IMAGE


def _redact_value(value: object, redact: Redact) -> object:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(key): _redact_value(each, redact) for key, each in value.items()}
    if isinstance(value, list):
        return [_redact_value(each, redact) for each in value]
    return value
