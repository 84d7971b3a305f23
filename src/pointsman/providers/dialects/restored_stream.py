"""Values put back into a streamed answer in place of their placeholders, however they were cut up.

The end of a text that may begin a placeholder is held back until the next piece of the same text,
or until that text ends: then it goes out in an event of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from pointsman.providers.dialects.masked_body import Restoring
from pointsman.providers.port import Dialect
from pointsman.providers.streaming import AnswerStopped, BlockEnded, BlockStarted, Delta
from pointsman.providers.streaming import Event as AnswerEvent

_DATA: Final = b"data:"
_EVENT: Final = b"event:"
_ANY: Final = msgspec.json.Decoder[object](object)

Event = dict[str, Any]
Place = tuple[object, ...]
"""Which text of an answer a piece belongs to."""

_CHAT_TEXTS: Final = ("content", "refusal", "reasoning_content", "reasoning")
_BLOCK_TEXTS: Final = {
    "text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json",
}  # fmt: skip
_DELTA: Final = ".delta"
_DONE: Final = ".done"


class _Held:
    """The possible beginning of a placeholder, and an event that can bring it."""

    __slots__ = ("make", "text")

    def __init__(self) -> None:
        self.text = ""
        self.make: Callable[[str], Event] = lambda _text: {}


class RestoredEvents:
    """Restores the events of one answer that is read here, whatever dialect it comes in."""

    def __init__(self, restoring: Restoring) -> None:
        self._restoring = restoring
        self._names: dict[int, str] = {}
        self._held: dict[int, str] = {}

    def take(self, event: AnswerEvent) -> list[AnswerEvent]:
        """Return an event as the user is to see it, after those it releases."""
        match event:
            case BlockStarted():
                self._names[event.index] = "arguments" if event.kind == "tool_use" else "text"
            case Delta():
                text = self._held.pop(event.index, "") + event.text
                ready, self._held[event.index] = self._restoring.split_open(text)
                name = self._names.get(event.index, "text")
                return [Delta(event.index, self._restoring.text(ready, name))]
            case BlockEnded():
                return [*self._release(event.index), event]
            case AnswerStopped():
                held = [each for index in [*self._held] for each in self._release(index)]
                return [*held, event]
        return [event]

    def _release(self, index: int) -> list[AnswerEvent]:
        held = self._held.pop(index, "")
        return [Delta(index, held)] if held else []


class RestoredStream:
    """Restores one stream, in the dialect of its caller."""

    def __init__(self, dialect: Dialect, restoring: Restoring) -> None:
        self._restoring = restoring
        self._held: dict[Place, _Held] = {}
        self._name = b""
        """A line with an event's name: it goes out with the data of the event."""
        self._inserted = 0
        self._dialect = dialect
        self._take: Callable[[Event], list[Event]] = {
            "chat": self._take_chat, "messages": self._take_message, "responses": self._take_item,
        }[dialect]  # fmt: skip

    def edit(self, lines: bytes) -> bytes:
        """Take the next whole lines, and give them as the caller is to see them."""
        return b"".join(map(self._line, lines.splitlines(keepends=True)))

    def _line(self, line: bytes) -> bytes:
        if line.startswith(_EVENT):
            before, self._name = self._name, line
            return before
        name, self._name = self._name, b""
        if not line.startswith(_DATA):
            return name + line
        data = line[len(_DATA) :].strip()
        if data == b"[DONE]":
            return b"".join(map(self._write, self._release_all())) + name + line
        try:
            event = _ANY.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return name + line
        if not isinstance(event, dict):
            return name + line
        out = b"".join(map(self._write, self._take(event)))
        end = line[len(line.rstrip(b"\r\n")) :]
        return b"".join((out, name, b"data: ", msgspec.json.encode(self._renumber(event)), end))

    def _write(self, event: Event) -> bytes:
        """Write an event of our own, with its name where the dialect names events."""
        kind = event.get("type", "")
        if "sequence_number" in event:
            event = self._renumber(event)
            self._inserted += 1
        head = b"" if self._dialect == "chat" else b"event: %b\n" % str(kind).encode()
        return head + b"data: " + msgspec.json.encode(event) + b"\n\n"

    def _renumber(self, event: Event) -> Event:
        number = event.get("sequence_number")
        if not self._inserted or not isinstance(number, int):
            return event
        return {**event, "sequence_number": number + self._inserted}

    def _piece(self, place: Place, text: str, name: str, make: Callable[[str], Event]) -> str:
        """Take the next piece of a text, and return the part that may go out."""
        held = self._held.setdefault(place, _Held())
        ready, held.text = self._restoring.split_open(held.text + text)
        held.make = make
        return self._restoring.text(ready, name)

    def _release(self, place: Place) -> Iterator[Event]:
        """Let a text that has ended out to its end."""
        held = self._held.pop(place, None)
        if held is not None and held.text:
            yield held.make(held.text)

    def _release_all(self, first: object = None) -> list[Event]:
        """Let out all texts, or those whose place begins so."""
        places = [each for each in self._held if first is None or each[0] == first]
        return [event for place in places for event in self._release(place)]

    def _take_chat(self, event: Event) -> list[Event]:
        """Restore a chunk in place; return the chunks that go before it."""
        before: list[Event] = []
        head = {key: each for key, each in event.items() if key not in {"choices", "usage"}}
        for choice in _dicts(event.get("choices")):
            number, delta = choice.get("index", 0), choice.get("delta")
            if isinstance(delta, dict):
                self._take_delta(delta, number, head)
            if choice.get("finish_reason") is not None:
                before += self._release_all(number)
        return before

    def _take_delta(self, delta: Event, number: object, head: Event) -> None:
        def chunk(inside: Event) -> Event:
            choice = {"index": number, "delta": inside, "finish_reason": None}
            return {**head, "choices": [choice]}

        for name in _CHAT_TEXTS:
            if isinstance(delta.get(name), str):
                delta[name] = self._piece(
                    (number, name), delta[name], "content",
                    lambda text, name=name: chunk({name: text}),  # type: ignore[misc] # bound at once
                )  # fmt: skip
        function = delta.get("function_call")
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            function["arguments"] = self._piece(
                (number, "function"), function["arguments"], "arguments",
                lambda text: chunk({"function_call": {"arguments": text}}),
            )  # fmt: skip
        for call in _dicts(delta.get("tool_calls")):
            self._take_call(call, number, chunk)

    def _take_call(self, call: Event, number: object, chunk: Callable[[Event], Event]) -> None:
        at = call.get("index", 0)
        for kind, name in (("function", "arguments"), ("custom", "input")):
            inside = call.get(kind)
            if isinstance(inside, dict) and isinstance(inside.get(name), str):

                def make(text: str, kind: str = kind, name: str = name) -> Event:
                    return chunk({"tool_calls": [{"index": at, kind: {name: text}}]})

                inside[name] = self._piece((number, kind, at), inside[name], name, make)

    def _take_message(self, event: Event) -> list[Event]:
        """Restore an event of Anthropic's messages in place; return the events before it."""
        kind, at, delta = event.get("type"), event.get("index"), event.get("delta")
        if kind == "content_block_stop":
            return self._release_all(at)
        if kind == "content_block_delta" and isinstance(delta, dict):
            name = _BLOCK_TEXTS.get(str(delta.get("type")))
            if name is None or not isinstance(delta.get(name), str):
                event["delta"] = self._restoring.value(delta)
                return []
            told = {**event, "delta": {**delta}}

            def make(text: str) -> Event:
                return {**told, "delta": {**told["delta"], name: text}}

            delta[name] = self._piece((at, name), delta[name], name, make)
        elif kind == "content_block_start":
            event["content_block"] = self._restoring.value(event.get("content_block"))
        return []

    def _take_item(self, event: Event) -> list[Event]:
        """Restore an event of OpenAI's responses in place; return the events before it."""
        kind = str(event.get("type", ""))
        base = kind.removesuffix(_DELTA).removesuffix(_DONE)
        part = event.get("content_index", event.get("summary_index"))
        place: Place = (event.get("output_index"), base, part)
        delta = event.get("delta")
        if kind.endswith(_DELTA) and isinstance(delta, str):
            told = dict(event)
            name = "arguments" if "arguments" in base else "text"
            event["delta"] = self._piece(place, delta, name, lambda text: {**told, "delta": text})
            return []
        before = [*self._release(place)] if kind.endswith(_DONE) else []
        if kind == "response.output_item.done":
            before += self._release_all(event.get("output_index"))
        # The number of this event counts from before those that go ahead of it.
        for key, each in event.items():
            event[key] = self._restoring.value(each, key)
        return _with_number(before, event)


def _with_number(before: list[Event], event: Event) -> list[Event]:
    """Number events of ours as the one they go before: each moves the later ones on by one."""
    number = event.get("sequence_number")
    return [{**each, "sequence_number": number} for each in before] if before else []


def _dicts(value: object) -> Iterator[Event]:
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, dict))
