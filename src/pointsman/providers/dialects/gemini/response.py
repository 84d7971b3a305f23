"""Gemini: answers, in chunks and whole. A whole answer is a stream of one chunk."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.providers.dialects import stops, usage
from pointsman.providers.dialects.body import EMPTY_OBJECT, NULL, decode, is_null, text_of
from pointsman.providers.dialects.loss import CannotSayCode, refuse
from pointsman.providers.dialects.sse import EventReader
from pointsman.providers.dialects.upstream_error import UpstreamFault, incomplete
from pointsman.providers.dialects.whole import fold
from pointsman.providers.messages import Response, StopReason, Usage
from pointsman.providers.streaming import (
    AnswerStarted,
    AnswerStopped,
    BlockEnded,
    BlockKind,
    BlockStarted,
    Delta,
    Event,
    Signature,
)

OF_CALL = "call"
"""The id of reasoning that only signs the call after it."""


class _FunctionCall(Struct):
    name: str
    args: Raw = EMPTY_OBJECT
    id: str | None = None


class _Part(Struct, rename="camel"):
    text: str | None = None
    thought: bool = False
    thought_signature: str = ""
    function_call: _FunctionCall | None = None
    inline_data: Raw = NULL
    executable_code: Raw = NULL
    code_execution_result: Raw = NULL


class _Content(Struct):
    parts: list[_Part] = []


class _Candidate(Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    index: int = 0


class _Feedback(Struct, rename="camel"):
    block_reason: str | None = None


class _Chunk(Struct, rename="camel"):
    candidates: list[_Candidate] = []
    prompt_feedback: _Feedback | None = None
    usage_metadata: usage.GeminiUsage | None = None
    response_id: str | None = None
    error: UpstreamFault | None = None


_DECODER = msgspec.json.Decoder(_Chunk)


class GeminiReader:
    """Reads chunks into events."""

    def __init__(self) -> None:
        self._events = EventReader()
        self._id = ""
        self._has_started = False
        self._is_over = False
        self._next = 0
        self._open: BlockKind | None = None
        self._calls = 0
        self._reason: StopReason | None = None
        self._usage = Usage()

    def feed(self, data: bytes) -> list[Event]:
        """Take more bytes and give the events they complete."""
        found: list[Event] = []
        for event in self._events.feed(data):
            if not self._is_over:
                self.take(event.data, found)
        return found

    def end(self) -> list[Event]:
        """End the stream, and return its last events."""
        if self._is_over:
            return []
        self._is_over = True
        if self._reason is None:
            return [incomplete()]
        found: list[Event] = []
        self._close(found)
        is_call = self._reason == "end" and self._calls > 0
        found.append(AnswerStopped("tool_use" if is_call else self._reason, self._usage))
        return found

    def take(self, data: bytes, found: list[Event]) -> None:
        """Read one chunk."""
        chunk = decode(_DECODER, data, "chunk")
        if chunk.error is not None:
            self._is_over = True
            found.append(chunk.error.broken())
            return
        if chunk.usage_metadata is not None:
            self._usage = chunk.usage_metadata.read()
        if not self._has_started:
            self._has_started = True
            self._id = chunk.response_id or "gemini"
            found.append(AnswerStarted(self._id, Usage()))
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._reason = "refusal"
        for candidate in chunk.candidates:
            if candidate.index:
                raise refuse(CannotSayCode.CHOICES, "candidates")
            for part in candidate.content.parts if candidate.content else ():
                self._part(part, found)
            if candidate.finish_reason:
                self._reason = stops.FROM_GEMINI.get(candidate.finish_reason, "error")

    def _part(self, part: _Part, found: list[Event]) -> None:
        if part.function_call is not None:
            self._call(part.function_call, part.thought_signature, found)
        elif part.text:
            kind: BlockKind = "thinking" if part.thought else "text"
            if self._open != kind:
                self._begin(BlockStarted(self._next, kind), found)
            found.append(Delta(self._next - 1, part.text))
        elif not is_null(part.inline_data):
            raise refuse(CannotSayCode.CONTENT, "inlineData")
        elif not (is_null(part.executable_code) and is_null(part.code_execution_result)):
            raise refuse(CannotSayCode.SERVER_TOOL, "executableCode")

    def _call(self, call: _FunctionCall, signature: str, found: list[Event]) -> None:
        """Take a call, which comes whole; its signature must come back with it."""
        if signature:
            self._begin(BlockStarted(self._next, "thinking", OF_CALL), found)
            found.append(Signature(self._next - 1, signature, "gemini", OF_CALL))
        self._calls += 1
        own_id = call.id or f"call_{self._id}_{self._calls}"
        self._begin(BlockStarted(self._next, "tool_use", own_id, call.name), found)
        found.append(Delta(self._next - 1, text_of(call.args)))
        self._close(found)

    def _begin(self, block: BlockStarted, found: list[Event]) -> None:
        self._close(found)
        self._open = block.kind
        self._next += 1
        found.append(block)

    def _close(self, found: list[Event]) -> None:
        if self._open is not None:
            found.append(BlockEnded(self._next - 1))
            self._open = None


def read_response(body: bytes) -> Response:
    """Read a whole answer."""
    reader = GeminiReader()
    events: list[Event] = []
    reader.take(body, events)
    last = reader.end()
    if not last or last == [incomplete()]:
        raise InputError("the answer has neither a candidate that ended nor a reason")
    return fold([*events, *last])


def stream_reader() -> GeminiReader:
    """Read one streamed answer."""
    return GeminiReader()
