"""Converse: answers, whole and in events."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.providers.dialects import stops, usage
from pointsman.providers.dialects.body import EMPTY_OBJECT, NULL, decode, is_null
from pointsman.providers.dialects.loss import CannotSayCode, refuse
from pointsman.providers.dialects.sse import EventReader
from pointsman.providers.dialects.upstream_error import UpstreamFault, incomplete
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
from pointsman.providers.streaming import (
    AnswerStarted,
    AnswerStopped,
    BlockEnded,
    BlockStarted,
    Delta,
    Event,
    Signature,
)


class _ReasoningText(Struct):
    text: str = ""
    signature: str = ""


class _Reasoning(Struct, rename="camel"):
    """Reasoning, whole below `reasoningText`; in a delta its parts stand by themselves."""

    reasoning_text: _ReasoningText | None = None
    redacted_content: str | None = None
    text: str | None = None
    signature: str | None = None


class _ToolUse(Struct, rename="camel"):
    tool_use_id: str = ""
    name: str = ""
    input: Raw = EMPTY_OBJECT


class _Cited(Struct):
    text: str = ""


class _Citations(Struct):
    content: list[_Cited] = []


class _Block(Struct, rename="camel"):
    text: str | None = None
    tool_use: _ToolUse | None = None
    reasoning_content: _Reasoning | None = None
    citations_content: _Citations | None = None
    citation: Raw = NULL


class _Message(Struct):
    content: list[_Block] = []


class _Output(Struct):
    message: _Message | None = None


class _Answer(Struct, rename="camel"):
    output: _Output
    stop_reason: str
    usage: usage.ConverseUsage | None = None


class _Start(Struct, rename="camel"):
    content_block_index: int
    start: _Block


class _More(Struct, rename="camel"):
    content_block_index: int
    delta: _Block


class _End(Struct, rename="camel"):
    content_block_index: int


class _Stop(Struct, rename="camel"):
    stop_reason: str


class _Metadata(Struct):
    usage: usage.ConverseUsage | None = None


class _Event(Struct, rename="camel"):
    request_id: str = ""
    message_start: Raw = NULL
    content_block_start: _Start | None = None
    content_block_delta: _More | None = None
    content_block_stop: _End | None = None
    message_stop: _Stop | None = None
    metadata: _Metadata | None = None
    error: UpstreamFault | None = None


_ANSWER = msgspec.json.Decoder(_Answer)
_EVENT = msgspec.json.Decoder(_Event)
_TEXT = msgspec.json.Decoder(str)


def read_response(body: bytes) -> Response:
    """Read a whole answer; it has no id, so its digest names it."""
    wire = decode(_ANSWER, body)
    message = wire.output.message or _Message()
    return Response(
        id=hashlib.sha256(body).hexdigest()[:24],
        content=tuple(_read_block(each) for each in message.content),
        stop_reason=stops.FROM_CONVERSE.get(wire.stop_reason, "end"),
        usage=Usage() if wire.usage is None else wire.usage.read(),
    )


def _read_block(block: _Block) -> Block:
    if block.text is not None:
        return Text(block.text)
    if block.tool_use is not None:
        return ToolUse(block.tool_use.tool_use_id, block.tool_use.name, block.tool_use.input)
    if block.citations_content is not None:
        return Text("".join(each.text for each in block.citations_content.content))
    told = block.reasoning_content
    if told is None:
        raise refuse(CannotSayCode.CONTENT, "output.message.content")
    if told.redacted_content is not None:
        return RedactedThinking(told.redacted_content)
    known = told.reasoning_text or _ReasoningText()
    # Of the models here only Anthropic's sign.
    return Thinking(known.text, known.signature, "anthropic" if known.signature else "")


class ConverseReader:
    """Reads events into ours. Only calls of tools are begun in words; other blocks just come."""

    def __init__(self) -> None:
        self._events = EventReader()
        self._is_over = False
        self._has_started = False
        self._open: dict[int, BlockStarted] = {}
        self._reason: StopReason | None = None
        self._usage = Usage()

    def feed(self, data: bytes) -> list[Event]:
        """Take more bytes and give the events they complete."""
        found: list[Event] = []
        for event in self._events.feed(data):
            if not self._is_over:
                self._event(decode(_EVENT, event.data, "event"), found)
        return found

    def end(self) -> list[Event]:
        """End the stream, and return its last events."""
        if self._is_over:
            return []
        self._is_over = True
        if self._reason is None:
            return [incomplete()]
        return [*map(BlockEnded, self._open), AnswerStopped(self._reason, self._usage)]

    def _event(self, event: _Event, found: list[Event]) -> None:
        if event.error is not None:
            self._is_over = True
            found.append(event.error.broken())
            return
        if not self._has_started:
            self._has_started = True
            found.append(AnswerStarted(event.request_id or "converse", Usage()))
        if (start := event.content_block_start) is not None:
            self._start(start, found)
        if (more := event.content_block_delta) is not None:
            self._more(more.content_block_index, more.delta, found)
        end = event.content_block_stop
        if end is not None and self._open.pop(end.content_block_index, None) is not None:
            found.append(BlockEnded(end.content_block_index))
        if event.message_stop is not None:
            self._reason = stops.FROM_CONVERSE.get(event.message_stop.stop_reason, "end")
        if event.metadata is not None and event.metadata.usage is not None:
            self._usage = event.metadata.usage.read()

    def _start(self, start: _Start, found: list[Event]) -> None:
        call = start.start.tool_use
        if call is None:
            return  # its first delta names it
        block = BlockStarted(start.content_block_index, "tool_use", call.tool_use_id, call.name)
        self._begin(block, found)

    def _more(self, index: int, delta: _Block, found: list[Event]) -> None:
        if delta.text is not None:
            self._say(BlockStarted(index, "text"), delta.text, found)
        elif delta.tool_use is not None:
            if index not in self._open:
                raise InputError("arguments in the stream belong to no call")
            found.append(Delta(index, decode(_TEXT, delta.tool_use.input, "toolUse.input")))
        elif (told := delta.reasoning_content) is not None:
            if told.redacted_content is not None:
                hidden = BlockStarted(index, "redacted_thinking", data=told.redacted_content)
                self._begin(hidden, found)
                return
            self._say(BlockStarted(index, "thinking"), told.text or "", found)
            if told.signature:
                found.append(Signature(index, told.signature, "anthropic"))
        elif is_null(delta.citation):
            raise refuse(CannotSayCode.CONTENT, "contentBlockDelta.delta")

    def _say(self, block: BlockStarted, text: str, found: list[Event]) -> None:
        if block.index not in self._open:
            self._begin(block, found)
        if text:
            found.append(Delta(block.index, text))

    def _begin(self, block: BlockStarted, found: list[Event]) -> None:
        if block.index in self._open:
            raise InputError("a block of the stream begins twice")
        self._open[block.index] = block
        found.append(block)


def stream_reader() -> ConverseReader:
    """Read one streamed answer."""
    return ConverseReader()
