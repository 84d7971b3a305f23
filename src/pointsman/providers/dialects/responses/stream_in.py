"""Responses: reading answers in events."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pointsman.errors import InputError
from pointsman.providers.dialects import foreign
from pointsman.providers.dialects.body import decode
from pointsman.providers.dialects.responses.items import ResponsesItem, unreadable
from pointsman.providers.dialects.responses.response import ResponseObject, stop_reason
from pointsman.providers.dialects.sse import EventReader
from pointsman.providers.dialects.upstream_error import UpstreamFault, incomplete
from pointsman.providers.messages import Thinking, Usage
from pointsman.providers.streaming import (
    AnswerStarted,
    AnswerStopped,
    BlockEnded,
    BlockStarted,
    Delta,
    Event,
    Signature,
)

_TEXT_DELTAS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THINKING_DELTAS = frozenset(
    {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
)
_ENDS = frozenset({"response.completed", "response.incomplete"})


class _Failed(Struct):
    error: UpstreamFault | None = None


class _Event(Struct):
    type: str = ""
    response: ResponseObject | None = None
    item: ResponsesItem | None = None
    output_index: int = 0
    content_index: int = 0
    summary_index: int = 0
    delta: str | None = None
    arguments: str | None = None
    item_id: str = ""
    message: str | None = None
    code: str | int | None = None
    error: UpstreamFault | None = None


class _FailedEvent(Struct):
    response: _Failed | None = None


_DECODER = msgspec.json.Decoder(_Event)
_FAILED = msgspec.json.Decoder(_FailedEvent)


class ResponsesReader:
    """Reads OpenAI's events into ours; items are told apart by their place."""

    def __init__(self) -> None:
        self._events = EventReader()
        self._is_over = False
        self._next = 0
        self._open: int | None = None
        self._place: tuple[int, int] = (-1, -1)
        self._has_more = False
        self._has_refused = False

    def feed(self, data: bytes) -> list[Event]:
        """Take more bytes and give the events they complete."""
        found: list[Event] = []
        for event in self._events.feed(data):
            if self._is_over or event.data.strip() == b"[DONE]":
                break
            wire = decode(_DECODER, event.data, "event")
            if wire.type in ("response.failed", "error"):
                self._fail(wire, event.data, found)
            else:
                self._event(wire, found)
        return found

    def end(self) -> list[Event]:
        """End the stream, and return its last events."""
        if self._is_over:
            return []
        self._is_over = True
        return [incomplete()]

    def _event(self, event: _Event, found: list[Event]) -> None:
        match event.type:
            case "response.created":
                found.append(AnswerStarted((event.response or ResponseObject()).id or "", Usage()))
            case "response.output_item.added":
                self._begin_item(event, found)
            case "response.output_item.done":
                self._end_item(event, found)
            case "response.function_call_arguments.delta":
                self._more(event.delta, found)
            case "response.function_call_arguments.done" if not self._has_more:
                # Some servers give the arguments only when they are whole.
                self._more(event.arguments, found)
            case kind if kind in _TEXT_DELTAS:
                self._has_refused = self._has_refused or kind == "response.refusal.delta"
                self._text(event, found)
            case kind if kind in _THINKING_DELTAS:
                self._thinking(event, found)
            case kind if kind in _ENDS:
                self._stop(event.response or ResponseObject(), found)
            case _:
                pass  # events that repeat earlier ones, and events of later versions

    def _begin_item(self, event: _Event, found: list[Event]) -> None:
        item = event.item or ResponsesItem()
        if item.type == "function_call":
            block = BlockStarted(self._next, "tool_use", item.call_id or "", item.name or "")
            self._begin(block, (event.output_index, 0), found)
            self._more(item.arguments, found)
        elif item.type not in ("message", "reasoning"):
            raise unreadable(item.type, f"output[{event.output_index}]")

    def _text(self, event: _Event, found: list[Event]) -> None:
        place = (event.output_index, event.content_index)
        if event.delta and (self._open is None or self._place != place):
            self._begin(BlockStarted(self._next, "text"), place, found)
        self._more(event.delta, found)

    def _thinking(self, event: _Event, found: list[Event]) -> None:
        if not event.delta:
            return
        place = (event.output_index, event.summary_index or event.content_index)
        if self._open is None or self._place[0] != event.output_index:
            self._begin(BlockStarted(self._next, "thinking", event.item_id), place, found)
        elif self._place != place:
            found.append(Delta(self._next - 1, "\n\n"))
        self._place = place
        self._more(event.delta, found)

    def _end_item(self, event: _Event, found: list[Event]) -> None:
        item = event.item or ResponsesItem()
        if item.type == "reasoning" and item.encrypted_content:
            self._sign(event, item, found)
        self._close(found)

    def _sign(self, event: _Event, item: ResponsesItem, found: list[Event]) -> None:
        thinking = foreign.read("", item.encrypted_content or "", "openai", item.id or "")
        redacted = foreign.as_redacted(thinking)
        place = (event.output_index, 0)
        if redacted is not None:
            block = BlockStarted(self._next, "redacted_thinking", data=redacted.data)
            self._begin(block, place, found)
            return
        if self._open is None:
            if not thinking.signature:
                return
            block = BlockStarted(self._next, "thinking", thinking.id)
            self._begin(block, place, found)
        if thinking.signature:
            found.append(_signature(self._next - 1, thinking))

    def _more(self, text: str | None, found: list[Event]) -> None:
        if text and self._open is None:
            raise InputError("a delta of the stream belongs to no open item")
        if text:
            self._has_more = True
            found.append(Delta(self._next - 1, text))

    def _begin(self, block: BlockStarted, place: tuple[int, int], found: list[Event]) -> None:
        self._close(found)
        self._open, self._place, self._has_more = block.index, place, False
        self._next += 1
        found.append(block)

    def _close(self, found: list[Event]) -> None:
        if self._open is not None:
            found.append(BlockEnded(self._open))
            self._open = None

    def _stop(self, response: ResponseObject, found: list[Event]) -> None:
        self._is_over = True
        self._close(found)
        reason = "refusal" if self._has_refused else stop_reason(response)
        found.append(
            AnswerStopped(reason, Usage() if response.usage is None else response.usage.read())
        )

    def _fail(self, event: _Event, data: bytes, found: list[Event]) -> None:
        self._is_over = True
        fault = event.error or UpstreamFault(event.message, code=event.code)
        if event.type == "response.failed":
            failed = decode(_FAILED, data, "event").response
            fault = (failed.error if failed else None) or UpstreamFault()
        found.append(fault.broken())


def _signature(index: int, thinking: Thinking) -> Signature:
    return Signature(index, thinking.signature, thinking.vendor, thinking.id)


def stream_reader() -> ResponsesReader:
    """Read one streamed answer."""
    return ResponsesReader()
