"""Amazon's Converse as its server speaks it: answers as JSON, streams in binary frames."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import msgspec

from pointsman.providers.messages import (
    Block,
    RedactedThinking,
    Response,
    StopReason,
    Text,
    Thinking,
    ToolUse,
    Usage,
)

Json = dict[str, object]

_STOPS: dict[StopReason, str] = {
    "end": "end_turn", "length": "max_tokens", "tool_use": "tool_use",
    "stop_sequence": "stop_sequence", "refusal": "guardrail_intervened",
    "error": "malformed_model_output",
}  # fmt: skip


def frame(kind: str, value: Json, *, message_type: str = "event") -> bytes:
    """Write one frame of the event stream: an event or an exception of this kind."""
    name = ":event-type" if message_type == "event" else ":exception-type"
    headers = b"".join(
        _header(*each)
        for each in (
            (name, kind),
            (":content-type", "application/json"),
            (":message-type", message_type),
        )
    )
    payload = msgspec.json.encode(value)
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    before = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return before + struct.pack(">I", zlib.crc32(before))


def _header(name: str, value: str) -> bytes:
    text = value.encode()
    return bytes([len(name)]) + name.encode() + struct.pack(">BH", 7, len(text)) + text


def converse_whole(response: Response, _model: str) -> Json:
    """Return a whole answer."""
    content = [_block(each) for each in response.content]
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _STOPS[response.stop_reason],
        "usage": _usage(response.usage),
        "metrics": {"latencyMs": 551},
    }


def converse_frames(response: Response) -> list[bytes]:
    """Return a streamed answer, each event in a frame."""
    return [frame(kind, value) for kind, value in _events(response)]


def _usage(usage: Usage) -> Json:
    parts = {
        "inputTokens": usage.input_tokens or 0,
        "outputTokens": usage.output_tokens or 0,
        "cacheReadInputTokens": usage.cached_input_tokens,
        "cacheWriteInputTokens": usage.cache_creation_input_tokens,
    }
    return {**parts, "totalTokens": sum(parts.values())}


def _block(block: Block) -> Json:
    match block:
        case Text(text):
            return {"text": text}
        case Thinking(text, signature):
            told = {"text": text, **({"signature": signature} if signature else {})}
            return {"reasoningContent": {"reasoningText": told}}
        case RedactedThinking(data):
            return {"reasoningContent": {"redactedContent": data}}
        case ToolUse(own_id, name, given):
            return {"toolUse": {"toolUseId": own_id, "name": name, "input": given}}
    raise TypeError("a model does not say this")


def _events(response: Response) -> Iterator[tuple[str, Json]]:
    yield "messageStart", {"role": "assistant", "p": "abcdef"}
    for index, block in enumerate(response.content):
        at: Json = {"contentBlockIndex": index}
        if isinstance(block, ToolUse):
            call = {"toolUseId": block.id, "name": block.name}
            yield "contentBlockStart", {**at, "start": {"toolUse": call}}
        for delta in _deltas(block):
            yield "contentBlockDelta", {**at, "delta": delta, "p": "abc"}
        yield "contentBlockStop", at
    yield "messageStop", {"stopReason": _STOPS[response.stop_reason]}
    yield "metadata", {"usage": _usage(response.usage), "metrics": {"latencyMs": 551}}


def _deltas(block: Block) -> Iterator[Json]:
    match block:
        case Text(text):
            yield from _spread(text, "text")
        case Thinking(text, signature):
            yield from _spread(text, "reasoningContent", "text")
            if signature:
                yield {"reasoningContent": {"signature": signature}}
        case RedactedThinking(data):
            yield {"reasoningContent": {"redactedContent": data}}
        case ToolUse(_, _, given):
            yield from _spread(bytes(given).decode(), "toolUse", "input")


def _spread(text: str, *path: str) -> Iterator[Json]:
    """Say a text in two deltas, each below these names."""
    for part in _halves(text):
        told: Json | str = part
        for name in reversed(path):
            told = {name: told}
        assert isinstance(told, dict)  # noqa: S101 - a path has a name
        yield told


def _halves(text: str) -> Iterator[str]:
    middle = (len(text) + 1) // 2
    return (part for part in (text[:middle], text[middle:]) if part)
