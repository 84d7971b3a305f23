"""A stream folded into a whole answer, and a whole answer told as a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from pointsman.errors import InputError
from pointsman.providers.dialects.body import json_object, text_of
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
from pointsman.providers.streaming import (
    AnswerBroken,
    AnswerStarted,
    AnswerStopped,
    BlockEnded,
    BlockStarted,
    Delta,
    Event,
    Signature,
)


class _Growing(Struct):
    block: BlockStarted
    text: list[str]
    signature: Signature | None = None


def fold(events: Iterable[Event]) -> Response:
    """Fold the events of one answer; one that broke off ends with the reason `error`."""
    own_id, usage = "", Usage()
    reason: StopReason = "error"
    stop_sequence = ""
    growing: dict[int, _Growing] = {}
    for event in events:
        match event:
            case AnswerStarted():
                own_id, usage = event.id, event.usage
            case BlockStarted():
                growing[event.index] = _Growing(event, [])
            case Delta():
                growing[event.index].text.append(event.text)
            case Signature():
                growing[event.index].signature = event
            case AnswerStopped():
                reason, usage, stop_sequence = event.reason, event.usage, event.stop_sequence
            case AnswerBroken() | BlockEnded():
                pass
    content = tuple(_block(each) for each in growing.values())
    return Response(own_id, content, reason, usage, stop_sequence)


def _block(growing: _Growing) -> Block:
    started, text = growing.block, "".join(growing.text)
    match started.kind:
        case "text":
            return Text(text)
        case "thinking":
            return _thinking(text, growing)
        case "redacted_thinking":
            return RedactedThinking(started.data)
        case "tool_use":
            where = f"arguments of {started.name}"
            return ToolUse(started.id, started.name, json_object(text, where))


def _thinking(text: str, growing: _Growing) -> Thinking:
    signed = growing.signature
    if signed is None or not signed.signature:
        return Thinking(text)
    return Thinking(text, signed.signature, signed.vendor, signed.id)


def unfold(response: Response) -> Iterator[Event]:
    """Tell a whole answer as events."""
    yield AnswerStarted(response.id, response.usage)
    for index, block in enumerate(response.content):
        yield from _block_events(index, block)
        yield BlockEnded(index)
    yield AnswerStopped(response.stop_reason, response.usage, response.stop_sequence)


def _block_events(index: int, block: Block) -> Iterator[Event]:
    match block:
        case Text():
            yield BlockStarted(index, "text")
            yield Delta(index, block.text)
        case ToolUse():
            yield BlockStarted(index, "tool_use", block.id, block.name)
            yield Delta(index, text_of(block.input))
        case Thinking():
            yield BlockStarted(index, "thinking", block.id)
            if block.text:
                yield Delta(index, block.text)
            if block.signature:
                yield Signature(index, block.signature, block.vendor, block.id)
        case RedactedThinking():
            yield BlockStarted(index, "redacted_thinking", data=block.data)
        case Image() | ToolResult():
            raise InputError(f"an answer holds no {type(block).__name__.lower()}")
