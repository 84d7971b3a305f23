"""Reading along with an answer that passes through: its usage, its end, whether it has begun.

Most events are only searched for a few words; one is decoded only when it may hold them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from pointsman.providers.dialects import stops
from pointsman.providers.dialects.upstream_error import UpstreamFault
from pointsman.providers.dialects.usage import (
    ChatUsage,
    ConverseUsage,
    GeminiUsage,
    MessagesUsage,
    ResponsesUsage,
)
from pointsman.providers.messages import StopReason, Usage
from pointsman.providers.port import Dialect

_VALUE: Final = rb'"\s*:\s*("(?:[^"\\]|\\.)*")'
_STREAMED: Final[Mapping[Dialect, re.Pattern[bytes]]] = {
    "chat": re.compile(
        rb'"(?:content|text|reasoning_content|reasoning|refusal|arguments)' + _VALUE, re.DOTALL
    ),
    "messages": re.compile(rb'"(?:text|partial_json|thinking)' + _VALUE, re.DOTALL),
    "gemini": re.compile(rb'"text' + _VALUE, re.DOTALL),
    "converse": re.compile(rb'"(?:text|input)' + _VALUE, re.DOTALL),
    # The end of such a stream repeats all of it; the deltas have it once.
    "responses": re.compile(rb'"delta' + _VALUE, re.DOTALL),
}
_WHOLE: Final[Mapping[Dialect, re.Pattern[bytes]]] = {
    **_STREAMED,
    "responses": re.compile(rb'"(?:text|arguments|refusal)' + _VALUE, re.DOTALL),
}


def said_in_stream(dialect: Dialect, data: bytes) -> str:
    """Return the words in the bytes of a stream."""
    return _texts(_STREAMED[dialect], data)


def said_in_answer(dialect: Dialect, body: bytes) -> str:
    """Return the words in a whole answer."""
    return _texts(_WHOLE[dialect], body)


def _texts(pattern: re.Pattern[bytes], data: bytes) -> str:
    return "".join(_decode(found) for found in pattern.findall(data))


def _decode(literal: bytes) -> str:
    try:
        return msgspec.json.decode(literal, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return literal[1:-1].decode("utf-8", "replace")


MAX_LINE_BYTES = 16 * 1024 * 1024
_LAST_BYTES = 4096
SAMPLED_BYTES = 32 * 1024
"""How much of a stream is kept to estimate its tokens from, should it be cut."""
_NO_USAGE = Usage()


class _Choice(Struct):
    finish_reason: str | None = None


class _Chat(Struct):
    choices: list[_Choice] = []
    usage: ChatUsage | None = None
    error: object = None


class _Delta(Struct):
    stop_reason: str | None = None


class _Message(Struct):
    usage: MessagesUsage | None = None


class _Messages(Struct):
    type: str = ""
    usage: MessagesUsage | None = None
    message: _Message | None = None
    delta: _Delta | None = None
    stop_reason: str | None = None


class _Incomplete(Struct):
    reason: str | None = None


class _Part(Struct):
    type: str = ""


class _Item(Struct):
    type: str = ""
    content: list[_Part] | None = None


class _Response(Struct):
    status: str | None = None
    incomplete_details: _Incomplete | None = None
    output: list[_Item] = []
    usage: ResponsesUsage | None = None


class _Responses(Struct):
    type: str = ""
    response: _Response | None = None


class _Candidate(Struct, rename="camel"):
    finish_reason: str | None = None


class _Feedback(Struct, rename="camel"):
    block_reason: str | None = None


class _Gemini(Struct, rename="camel"):
    candidates: list[_Candidate] = []
    prompt_feedback: _Feedback | None = None
    usage_metadata: GeminiUsage | None = None
    error: UpstreamFault | None = None


class _ConverseStop(Struct, rename="camel"):
    stop_reason: str | None = None


class _ConverseMetadata(Struct):
    usage: ConverseUsage | None = None


class _Converse(Struct, rename="camel"):
    """A whole answer, or one event of a stream."""

    stop_reason: str | None = None
    usage: ConverseUsage | None = None
    message_stop: _ConverseStop | None = None
    metadata: _ConverseMetadata | None = None
    error: UpstreamFault | None = None


_ENDS = ("response.completed", "response.incomplete", "response.failed")
_CHAT = msgspec.json.Decoder(_Chat)
_MESSAGES = msgspec.json.Decoder(_Messages)
_RESPONSES = msgspec.json.Decoder(_Responses)
_GEMINI_CALL: Final = b'"functionCall"'
_GEMINI = msgspec.json.Decoder(_Gemini)
_CONVERSE = msgspec.json.Decoder(_Converse)
_RESPONSE = msgspec.json.Decoder(_Response)

# Inside the words of an answer a quote is written `\\"`, so these never match there.
_CONTENT: Mapping[Dialect, re.Pattern[bytes]] = {
    "chat": re.compile(
        rb'"(?:content|reasoning_content|reasoning|refusal|text)"\s*:\s*"[^"]|"tool_calls"\s*:\s*\['
    ),
    "messages": re.compile(rb'"content_block_(?:start|delta)"'),
    "gemini": re.compile(rb'"text"\s*:\s*"[^"]|"functionCall"\s*:\s*\{'),
    "converse": re.compile(rb'"contentBlock(?:Start|Delta)"'),
    "responses": re.compile(rb'"response\.(?:output_item\.added|[a-z_.]+\.delta)"'),
}
# A search for bytes is several times quicker than a pattern; vendors write `:` with or without a
# space, and nothing else.
_WANTED: Mapping[Dialect, tuple[bytes, ...]] = {
    "chat": (
        b'"usage":{', b'"finish_reason":"', b'"error":', b'"usage": {', b'"finish_reason": "',
    ),
    "messages": (b'"usage"', b'"error"', b'"stop_reason":"', b'"stop_reason": "'),
    "gemini": (b'"usageMetadata"', b'"finishReason"', b'"blockReason"', b'"error"'),
    "converse": (b'"messageStop"', b'"metadata"', b'"error"'),
    "responses": (
        b'"response.completed"', b'"response.incomplete"', b'"response.failed"', b'"error"',
    ),
}  # fmt: skip
_LAST_WORDS: Mapping[Dialect, tuple[bytes, ...]] = {
    "chat": (b"[DONE]",),
    "messages": (b"message_stop",),
    "gemini": (b'"finishReason"',),
    "converse": (b'"messageStop"',),
    "responses": (b"response.completed", b"response.incomplete"),
}


class Tap:
    """Reads along with one stream."""

    __slots__ = (
        "_calls_tool", "_content", "_dialect", "_is_blind", "_latest", "_pieces", "_sample",
        "_sampled", "_size", "_total", "_wanted", "events", "has_content", "is_broken",
        "stop_reason", "usage",
    )  # fmt: skip

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._content = _CONTENT[dialect].search
        self._wanted = _WANTED[dialect]
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_blind = False
        self._calls_tool = False
        self._latest = b""
        self._sample: list[bytes] = []
        self._sampled = self._total = 0
        self.events = 0
        """How many events have come by."""
        self.has_content = False
        """Whether the first byte of the answer's content has come by."""
        self.is_broken = False
        """Whether an error came by."""
        self.usage = _NO_USAGE
        self.stop_reason: StopReason | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream, cut in any way."""
        self._total += len(data)
        self.events += data.count(b"data:")
        if self._sampled < SAMPLED_BYTES:
            self._sampled += len(data)
            self._sample.append(data)
        if self._pieces or not data.endswith(b"\n"):
            data = self._whole_lines(data)
            if not data:
                return
        self._latest = data
        if not self.has_content and self._content(data):
            self.has_content = True
        for mark in self._wanted:
            if mark in data:
                self._read(data)
                return

    def sampled_text(self) -> tuple[str, float]:
        """Return words of the answer, and which share of its bytes they stand in."""
        words = said_in_stream(self._dialect, b"".join(self._sample))
        return words, self._sampled / self._total if self._total else 1.0

    def end(self) -> None:
        """End the stream: a line that waits for its end is whole now."""
        if self._pieces:
            self.feed(b"\n")
        if self.stop_reason is None and any(
            word in self._latest[-_LAST_BYTES:] for word in _LAST_WORDS[self._dialect]
        ):
            # It ended as its vendor ends answers; only why could not be read.
            self.stop_reason = "end"

    def _whole_lines(self, data: bytes) -> bytes:
        """Return the lines that are whole now; the rest waits, up to a limit."""
        end = data.rfind(b"\n") + 1
        pieces = self._pieces
        if not end:
            self._keep(data)
            return b""
        whole = b"".join((*pieces, data[:end]))
        pieces.clear()
        self._size = 0
        self._is_blind = False
        if end < len(data):
            self._keep(data[end:])
        return whole

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > MAX_LINE_BYTES:
            self._is_blind = True
            self._pieces.clear()
        if not self._is_blind:
            self._pieces.append(piece)

    def _read(self, data: bytes) -> None:
        for part in _lines_with(data, self._wanted):
            for line in part.splitlines():
                if line.startswith(b"data:") and any(mark in line for mark in self._wanted):
                    self._note(line[5:])

    def _note(self, text: bytes) -> None:
        try:
            usage, stop_reason, is_error = _read_note(self._dialect, text, self.usage)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return  # what cannot be read is passed on as it is, and told as not known
        self.usage = usage
        # Gemini says `STOP` after a call, often in a later chunk.
        self._calls_tool = self._calls_tool or _GEMINI_CALL in text
        if stop_reason == "end" and self._calls_tool and self._dialect == "gemini":
            stop_reason = "tool_use"
        self.stop_reason = stop_reason or self.stop_reason
        self.is_broken = self.is_broken or is_error


def _lines_with(data: bytes, marks: tuple[bytes, ...]) -> list[bytes]:
    """Return the lines that hold a mark, in order: two or three of the hundred in one read."""
    ends: dict[int, int] = {}
    for mark in marks:
        at = data.find(mark)
        while at >= 0:
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            ends[data.rfind(b"\n", 0, at) + 1] = end
            at = data.find(mark, end)
    return [data[start : ends[start]] for start in sorted(ends)]


_Note = tuple[Usage, StopReason | None, bool]


def _read_chat(text: bytes, before: Usage) -> _Note:
    chunk = _CHAT.decode(text)
    reasons = [each.finish_reason for each in chunk.choices if each.finish_reason]
    return (
        before if chunk.usage is None else chunk.usage.read(),
        stops.FROM_CHAT.get(reasons[0], "end") if reasons else None,
        chunk.error is not None,
    )


def _read_messages(text: bytes, before: Usage) -> _Note:
    event = _MESSAGES.decode(text)
    found = event.usage or (event.message.usage if event.message else None)
    reason = event.delta.stop_reason if event.delta else event.stop_reason
    return (
        before if found is None else found.read(before),
        stops.FROM_MESSAGES.get(reason, "end") if reason else None,
        event.type == "error",
    )


def _read_responses(text: bytes, before: Usage) -> _Note:
    event = _RESPONSES.decode(text)
    is_error = event.type in ("error", "response.failed")
    if event.response is None or event.type not in _ENDS:
        return before, None, is_error
    return _response_usage(event.response) or before, _response_stop(event.response), is_error


def _read_gemini(text: bytes, before: Usage) -> _Note:
    chunk = _GEMINI.decode(text)
    reasons = [each.finish_reason for each in chunk.candidates if each.finish_reason]
    stop = stops.FROM_GEMINI.get(reasons[0], "error") if reasons else None
    if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
        stop = "refusal"
    if stop == "end" and _GEMINI_CALL in text:
        stop = "tool_use"
    usage = before if chunk.usage_metadata is None else chunk.usage_metadata.read()
    return usage, stop, chunk.error is not None


def _read_converse(text: bytes, before: Usage) -> _Note:
    event = _CONVERSE.decode(text)
    used = event.usage or (event.metadata.usage if event.metadata else None)
    reason = event.stop_reason or (event.message_stop.stop_reason if event.message_stop else None)
    return (
        before if used is None else used.read(),
        stops.FROM_CONVERSE.get(reason, "end") if reason else None,
        event.error is not None,
    )


def _response_usage(response: _Response) -> Usage | None:
    return None if response.usage is None else response.usage.read()


def _response_stop(response: _Response) -> StopReason:
    details = response.incomplete_details
    return stops.from_responses(
        response.status or "",
        (details.reason if details else "") or "",
        calls_tool=any(each.type == "function_call" for each in response.output),
        refuses=any(_refuses(each) for each in response.output),
    )


def _refuses(item: _Item) -> bool:
    return any(part.type == "refusal" for part in item.content or ())


_READ: Mapping[Dialect, Callable[[bytes, Usage], _Note]] = {
    "chat": _read_chat,
    "messages": _read_messages,
    "gemini": _read_gemini,
    "converse": _read_converse,
    "responses": _read_responses,
}


def _read_note(dialect: Dialect, text: bytes, before: Usage) -> _Note:
    try:
        return _READ[dialect](text, before)
    except msgspec.ValidationError:
        # Counts that are no counts are not known; what else stands there is.
        return _READ[dialect](_without_usage(text), before)


def _whole_response(body: bytes) -> _Response:
    try:
        return _RESPONSE.decode(body)
    except msgspec.ValidationError:
        return _RESPONSE.decode(_without_usage(body))


def _without_usage(text: bytes) -> bytes:
    return msgspec.json.encode(_without_usages(msgspec.json.decode(text)))


_USAGES: Final = ("usage", "usageMetadata")


def _without_usages(value: object) -> object:
    if isinstance(value, list):
        return [_without_usages(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_usages(each) for key, each in value.items() if key not in _USAGES}
    return value


def tap(dialect: Dialect) -> Tap:
    """Read along with a stream of this dialect."""
    return Tap(dialect)


def usage_of(dialect: Dialect, body: bytes) -> Usage:
    """Return the usage of a whole answer; empty where it tells none."""
    return end_of(dialect, body)[0]


def end_of(dialect: Dialect, body: bytes) -> tuple[Usage, StopReason | None]:
    """Return the usage and the stop reason of a whole answer, as far as it tells them."""
    try:
        if dialect == "responses":
            response = _whole_response(body)
            stop = None if response.status is None else _response_stop(response)
            return _response_usage(response) or _NO_USAGE, stop
        usage, reason, _ = _read_note(dialect, body, _NO_USAGE)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _NO_USAGE, None
    return usage, reason
