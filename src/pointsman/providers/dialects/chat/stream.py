"""Chat completions: answers in chunks."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.providers.dialects import stops, usage
from pointsman.providers.dialects.body import decode
from pointsman.providers.dialects.chat.response import answer_id
from pointsman.providers.dialects.spans import members, replace_span
from pointsman.providers.dialects.sse import DONE, EventReader, data_event
from pointsman.providers.dialects.upstream_error import UpstreamFault, error_object, incomplete
from pointsman.providers.messages import StopReason, Usage
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

_OPTIONS = "stream_options"
_OPTION = "include_usage"
_NOT_ASKED = (b"false", b"null")
_TIGHT, _SPACED = b'"usage":{', b'"usage": {'
"""The marks of a line that may tell a usage."""
_LINE_END = re.compile(rb"\r\n?|\n")
_BLANK = (b"\n", b"\r\n")
_BLANK_AT_END = (b"\n\n", b"\n\r\n")


class _UsageChunk(Struct):
    choices: list[Raw] | None = None
    usage: dict[str, Raw] | None = None
    error: object = None


_CHUNK = msgspec.json.Decoder(_UsageChunk)


def asking_usage(body: bytes, options: Raw | None) -> bytes:
    """Return a request that asks for its stream's usage; the same body where it asks already.

    `options` are the `stream_options` in it. Options that the vendor would refuse
    stay as they are: the vendor refuses them.
    """
    if options is None:
        end = body.rindex(b"}")
        return body[:end] + b',"stream_options":{"include_usage":true}' + body[end:]
    try:
        return _with_option(body, bytes(options))
    except InputError:
        return body


def _with_option(body: bytes, options: bytes) -> bytes:
    span = members(body).spans[_OPTIONS]
    if options == b"null":
        return replace_span(body, span, {_OPTION: True})
    found = members(body, span, _OPTIONS)
    flag = found.spans.get(_OPTION)
    if flag is None:
        option = b'"include_usage":true' + (b"," if found.spans else b"")
        return body[: found.start] + option + body[found.start :]
    return replace_span(body, flag, value=True) if body[slice(*flag)] in _NOT_ASKED else body


class UnaskedUsage:
    """Takes the chunk that only tells the usage out of a stream."""

    __slots__ = ("_is_between", "_takes_blank")

    def __init__(self) -> None:
        self._is_between = True
        """Whether the last line ended an event."""
        self._takes_blank = False
        """Whether the blank line that ends the chunk is still to come."""

    def without(self, lines: bytes) -> bytes:
        """Take the next whole lines, and give those that the caller is to see."""
        kept: list[bytes] = []
        start = self._after_blank(lines, 0)
        mark = _find_mark(lines, start)
        while mark >= 0:
            # Only a line with a mark is looked at: a stream has hundreds of others.
            ends = (lines.rfind(b"\n", start, mark), lines.rfind(b"\r", start, mark), start - 1)
            begin, line_end = max(ends) + 1, _LINE_END.search(lines, mark)
            end = line_end.end() if line_end else len(lines)
            if _only_tells_usage(lines[begin:end]):
                self._keep(lines[start:begin], kept)
                # Beside other fields of its event the line goes alone: no data, so no event.
                self._takes_blank = self._is_between
                start = end = self._after_blank(lines, end)
            mark = _find_mark(lines, end)
        if not start:
            self._keep(lines, kept)
            return lines
        self._keep(lines[start:], kept)
        return b"".join(kept)

    def _after_blank(self, lines: bytes, start: int) -> int:
        """Return where the lines go on after the blank line that ends a chunk taken out."""
        if not self._takes_blank or start == len(lines):
            return start
        self._takes_blank = False
        return start + next((len(blank) for blank in _BLANK if lines.startswith(blank, start)), 0)

    def _keep(self, lines: bytes, kept: list[bytes]) -> None:
        if lines:
            self._is_between = lines in _BLANK or lines.endswith(_BLANK_AT_END)
            kept.append(lines)


def _find_mark(lines: bytes, start: int) -> int:
    """Return the place of the next mark of a usage; -1 where there is none."""
    tight, spaced = lines.find(_TIGHT, start), lines.find(_SPACED, start)
    return spaced if tight < 0 or 0 <= spaced < tight else tight


def _only_tells_usage(line: bytes) -> bool:
    if not line.startswith(b"data:"):
        return False
    try:
        chunk = _CHUNK.decode(line[5:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return chunk.usage is not None and not chunk.choices and chunk.error is None


class _Function(Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None
    index: int = 0


class _Chunk(Struct):
    id: str | None = None
    choices: list[_Choice] = []
    usage: usage.ChatUsage | None = None
    error: UpstreamFault | str | None = None


_DECODER = msgspec.json.Decoder(_Chunk)


class ChatReader:
    """Reads chunks into events."""

    def __init__(self) -> None:
        self._events = EventReader()
        self._has_started = False
        self._is_over = False
        self._next = 0
        self._open: tuple[int, BlockKind] | None = None
        self._open_call: tuple[int | None, str] = (None, "")
        self._reason: StopReason | None = None
        self._has_calls = False
        self._has_refused = False
        self._usage = Usage()

    def feed(self, data: bytes) -> list[Event]:
        """Take more bytes and give the events they complete."""
        found: list[Event] = []
        for event in self._events.feed(data):
            if self._is_over:
                break
            if event.data.strip() == b"[DONE]":
                self._finish(found)
            else:
                self._chunk(decode(_DECODER, event.data, "chunk"), found)
        return found

    def end(self) -> list[Event]:
        """End the stream, and return its last events."""
        found: list[Event] = []
        if not self._is_over:
            self._finish(found)
        return found

    def _finish(self, found: list[Event]) -> None:
        self._is_over = True
        if self._reason is None:
            found.append(incomplete())
            return
        self._close(found)
        reason: StopReason = self._reason
        if reason == "end" and self._has_calls:
            reason = "tool_use"
        found.append(AnswerStopped("refusal" if self._has_refused else reason, self._usage))

    def _chunk(self, chunk: _Chunk, found: list[Event]) -> None:
        if chunk.error is not None:
            self._is_over = True
            fault = chunk.error
            found.append(
                AnswerBroken("upstream_error", fault) if isinstance(fault, str) else fault.broken()
            )
            return
        if not self._has_started:
            self._has_started = True
            found.append(AnswerStarted(chunk.id or "", Usage()))
        if chunk.usage is not None:
            self._usage = chunk.usage.read()
        for choice in chunk.choices:
            if choice.index:
                raise InputError("a chunk belongs to a second choice")
            self._choice(choice, found)

    def _choice(self, choice: _Choice, found: list[Event]) -> None:
        delta = choice.delta
        if delta is not None:
            self._more("thinking", delta.reasoning_content or delta.reasoning, found)
            self._more("text", delta.content, found)
            self._has_refused = self._has_refused or bool(delta.refusal)
            self._more("text", delta.refusal, found)
            for call in delta.tool_calls or ():
                self._call(call, found)
        if choice.finish_reason:
            self._reason = stops.FROM_CHAT.get(choice.finish_reason, "end")

    def _more(self, kind: BlockKind, text: str | None, found: list[Event]) -> None:
        if not text:
            return
        if self._open is None or self._open[1] != kind:
            self._begin(BlockStarted(self._next, kind), found)
        found.append(Delta(self._next - 1, text))

    def _call(self, call: _Call, found: list[Event]) -> None:
        """Take a part of a call. Some servers give each call index 0 and an id of its own."""
        index, known_id = self._open_call
        is_open = self._open is not None and self._open[1] == "tool_use"
        is_new_id = bool(call.id) and call.id != known_id
        if not is_open or is_new_id or (call.index is not None and call.index != index):
            self._begin_call(call, found)
        if call.function is not None and call.function.arguments:
            found.append(Delta(self._next - 1, call.function.arguments))

    def _begin_call(self, call: _Call, found: list[Event]) -> None:
        if not call.id or call.function is None or not call.function.name:
            raise InputError("a call of a tool begins without an id and a name")
        self._has_calls = True
        self._open_call = (call.index, call.id)
        block = BlockStarted(self._next, "tool_use", call.id, call.function.name)
        self._begin(block, found)

    def _begin(self, block: BlockStarted, found: list[Event]) -> None:
        self._close(found)
        self._open = (block.index, block.kind)
        self._next += 1
        found.append(block)

    def _close(self, found: list[Event]) -> None:
        if self._open is not None:
            found.append(BlockEnded(self._open[0]))
            self._open = None


class ChatWriter:
    """Writes events as chunks."""

    def __init__(self, model: str, created: int, *, wants_usage: bool) -> None:
        self._model = model
        self._created = created
        self._wants_usage = wants_usage
        self._id = ""
        self._kinds: dict[int, BlockKind] = {}
        self._calls: dict[int, int] = {}

    def write(self, event: Event) -> bytes:
        """Write one event; some have no words in this format and write nothing."""
        match event:
            case AnswerStarted():
                self._id = answer_id(event.id)
                return self._delta({"role": "assistant", "content": ""})
            case BlockStarted():
                return self._block(event)
            case Delta():
                return self._more(event)
            case AnswerStopped():
                return self._stop(event)
            case AnswerBroken():
                return error_event(event.code, event.message)
            case Signature() | BlockEnded():
                return b""

    def _block(self, event: BlockStarted) -> bytes:
        self._kinds[event.index] = event.kind
        if event.kind != "tool_use":
            return b""
        index = self._calls[event.index] = len(self._calls)
        function = {"name": event.name, "arguments": ""}
        call = {"index": index, "id": event.id, "type": "function", "function": function}
        return self._delta({"tool_calls": [call]})

    def _more(self, event: Delta) -> bytes:
        kind = self._kinds.get(event.index, "text")
        if kind == "tool_use":
            call = {"index": self._calls[event.index], "function": {"arguments": event.text}}
            return self._delta({"tool_calls": [call]})
        if kind == "redacted_thinking":
            return b""
        return self._delta({"content" if kind == "text" else "reasoning_content": event.text})

    def _stop(self, event: AnswerStopped) -> bytes:
        last = self._delta({}, stops.TO_CHAT[event.reason])
        used = usage.write_chat(event.usage) if self._wants_usage else None
        if used is not None:
            last += data_event({**self._head(), "choices": [], "usage": used})
        return last + DONE

    def _delta(self, delta: dict[str, object], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self._head(), "choices": [choice]}
        if self._wants_usage:
            chunk["usage"] = None
        return data_event(chunk)

    def _head(self) -> dict[str, object]:
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
        }


def stream_reader() -> ChatReader:
    """Read one streamed answer."""
    return ChatReader()


def stream_writer(model: str, created: int, *, wants_usage: bool = True) -> ChatWriter:
    """Write one streamed answer."""
    return ChatWriter(model, created, wants_usage=wants_usage)


def error_event(code: str, message: str) -> bytes:
    """Write an error in the middle of a stream; no `[DONE]` follows, for it is not done."""
    return data_event({"error": error_object(500, code, message)})
