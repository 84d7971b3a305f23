"""Messages: answers in events."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pointsman.errors import InputError
from pointsman.providers.dialects import foreign, stops, usage
from pointsman.providers.dialects.body import decode
from pointsman.providers.dialects.foreign import for_messages
from pointsman.providers.dialects.loss import CannotSayCode, refuse
from pointsman.providers.dialects.messages.response import message_object
from pointsman.providers.dialects.sse import EventReader, named_event
from pointsman.providers.dialects.upstream_error import UpstreamFault, incomplete
from pointsman.providers.messages import StopReason, Thinking, Usage
from pointsman.providers.streaming import (
    AnswerBroken,
    AnswerStarted,
    AnswerStopped,
    BlockEnded,
    BlockKind,
    BlockStarted,
    Delta,
    Event,
    Signature,
)

_DELTAS = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}
_DELTA_TYPES = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}


class _Message(Struct):
    id: str | None = None
    usage: usage.MessagesUsage | None = None


class _Block(Struct):
    type: str
    id: str | None = None
    name: str | None = None
    data: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None


class _Delta(Struct):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


class _Event(Struct):
    type: str
    index: int | None = None
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: usage.MessagesUsage | None = None
    error: UpstreamFault | None = None


_DECODER = msgspec.json.Decoder(_Event)


class MessagesReader:
    """Reads Anthropic's events into ours."""

    def __init__(self) -> None:
        self._events = EventReader()
        self._is_over = False
        self._open: set[int] = set()
        self._usage = Usage()
        self._reason: StopReason = "end"
        self._stop_sequence = ""

    def feed(self, data: bytes) -> list[Event]:
        """Take more bytes and give the events they complete."""
        found: list[Event] = []
        for event in self._events.feed(data):
            if self._is_over:
                break
            self._event(decode(_DECODER, event.data, "event"), found)
        return found

    def end(self) -> list[Event]:
        """End the stream, and return its last events."""
        if self._is_over:
            return []
        self._is_over = True
        return [incomplete()]

    def _event(self, event: _Event, found: list[Event]) -> None:
        match event.type:
            case "message_start":
                self._start(event, found)
            case "content_block_start":
                found.extend(self._begin(event))
            case "content_block_delta":
                self._check_open(event)
                found.extend(_more(event))
            case "content_block_stop":
                self._check_open(event)
                self._open.discard(_index(event))
                found.append(BlockEnded(_index(event)))
            case "message_delta":
                self._note(event)
            case "message_stop":
                self._is_over = True
                found.append(AnswerStopped(self._reason, self._usage, self._stop_sequence))
            case "error":
                self._is_over = True
                found.append((event.error or UpstreamFault()).broken())
            case _:
                pass  # pings, and events of later versions, which Anthropic says to pass over

    def _begin(self, event: _Event) -> list[Event]:
        if _index(event) in self._open:
            raise InputError("a block of the stream begins twice")
        self._open.add(_index(event))
        return _block(event)

    def _check_open(self, event: _Event) -> None:
        if _index(event) not in self._open:
            raise InputError(f"a `{event.type}` of the stream belongs to no open block")

    def _start(self, event: _Event, found: list[Event]) -> None:
        message = event.message or _Message()
        if message.usage is not None:
            self._usage = message.usage.read()
        found.append(AnswerStarted(message.id or "", self._usage))

    def _note(self, event: _Event) -> None:
        if event.usage is not None:
            self._usage = event.usage.read(self._usage)
        delta = event.delta or _Delta()
        if delta.stop_reason:
            self._reason = stops.FROM_MESSAGES.get(delta.stop_reason, "end")
        self._stop_sequence = delta.stop_sequence or self._stop_sequence


def _index(event: _Event) -> int:
    if event.index is None:
        raise InputError(f"a `{event.type}` of the stream has no index")
    return event.index


def _block(event: _Event) -> list[Event]:
    block, index = event.content_block, _index(event)
    if block is None:
        raise InputError("a block of the stream begins without itself")
    started: list[Event]
    match block.type:
        case "text" | "thinking":
            started = [BlockStarted(index, block.type)]
        case "tool_use":
            started = [BlockStarted(index, block.type, block.id or "", block.name or "")]
        case "redacted_thinking":
            started = [BlockStarted(index, block.type, data=block.data or "")]
        case _:
            raise refuse(CannotSayCode.SERVER_TOOL, f"content_block.type: {block.type[:64]}")
    begun = block.text or block.thinking
    return [*started, Delta(index, begun)] if begun else started


def _more(event: _Event) -> list[Event]:
    delta, index = event.delta or _Delta(), _index(event)
    if delta.type == "signature_delta":
        known = foreign.read("", delta.signature or "", "anthropic")
        return [Signature(index, known.signature, known.vendor, known.id)]
    text = delta.text or delta.thinking or delta.partial_json
    return [Delta(index, text)] if text else []


class MessagesWriter:
    """Writes our events as Anthropic's."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._blocks: dict[int, BlockStarted] = {}
        self._signed: set[int] = set()

    def write(self, event: Event) -> bytes:  # noqa: PLR0911 - one for each kind of event
        """Write one event."""
        match event:
            case AnswerStarted():
                message = message_object(event.id, self._model, event.usage)
                return _write_event({"type": "message_start", "message": message})
            case BlockStarted():
                self._blocks[event.index] = event
                return _start_block(event)
            case Delta():
                return _more_of(self._kind(event.index), event)
            case Signature():
                return self._sign(event)
            case BlockEnded():
                return self._end_block(event)
            case AnswerStopped():
                return _stop(event)
            case AnswerBroken():
                return error_event(event.code, event.message)

    def _kind(self, index: int) -> BlockKind:
        block = self._blocks.get(index)
        return "text" if block is None else block.kind

    def _sign(self, event: Signature) -> bytes:
        self._signed.add(event.index)
        thinking = Thinking("", event.signature, event.vendor, event.id)
        signature = foreign.write_signature(thinking, "anthropic")
        delta = {"type": "signature_delta", "signature": signature}
        return _write_event({"type": "content_block_delta", "index": event.index, "delta": delta})

    def _end_block(self, event: BlockEnded) -> bytes:
        unsigned = b""
        if self._kind(event.index) == "thinking" and event.index not in self._signed:
            # Marked as no one's, or Anthropic would refuse it when the client sends it back.
            unsigned = self._sign(Signature(event.index, ""))
        return unsigned + _write_event({"type": "content_block_stop", "index": event.index})


def _start_block(event: BlockStarted) -> bytes:
    block: dict[str, object]
    match event.kind:
        case "text":
            block = {"type": "text", "text": ""}
        case "thinking":
            block = {"type": "thinking", "thinking": "", "signature": ""}
        case "redacted_thinking":
            block = {"type": "redacted_thinking", "data": event.data}
        case "tool_use":
            call_id = for_messages(event.id)
            block = {"type": "tool_use", "id": call_id, "name": event.name, "input": {}}
    return _write_event(
        {"type": "content_block_start", "index": event.index, "content_block": block}
    )


def _more_of(kind: BlockKind, event: Delta) -> bytes:
    if kind == "redacted_thinking":
        return b""
    delta = {"type": _DELTA_TYPES[kind], _DELTAS[kind]: event.text}
    return _write_event({"type": "content_block_delta", "index": event.index, "delta": delta})


def _stop(event: AnswerStopped) -> bytes:
    delta = {
        "stop_reason": stops.TO_MESSAGES[event.reason],
        "stop_sequence": event.stop_sequence or None,
    }
    used = usage.write_messages(event.usage)
    last = _write_event({"type": "message_delta", "delta": delta, "usage": used})
    return last + _write_event({"type": "message_stop"})


def _write_event(event: dict[str, object]) -> bytes:
    return named_event(str(event["type"]), event)


def stream_reader() -> MessagesReader:
    """Read one streamed answer."""
    return MessagesReader()


def stream_writer(model: str, created: int, *, wants_usage: bool = True) -> MessagesWriter:  # noqa: ARG001 - this format says neither
    """Write one streamed answer."""
    return MessagesWriter(model)


def error_event(code: str, message: str) -> bytes:
    """Write an error in the middle of a stream."""
    error = {"type": "api_error", "message": f"{code}: {message}"}
    return named_event("error", {"type": "error", "error": error})
