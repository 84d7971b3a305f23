"""Responses: writing answers in events."""

from __future__ import annotations

from pointsman.providers.dialects import foreign
from pointsman.providers.dialects.body import EMPTY_OBJECT
from pointsman.providers.dialects.responses.response import (
    ResponseHead,
    call_item,
    message_item,
    reasoning_item,
    summary_part,
    text_part,
)
from pointsman.providers.dialects.sse import named_event
from pointsman.providers.messages import Block, RedactedThinking, Text, Thinking, ToolUse
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


class _Item:
    """The item that is being written."""

    def __init__(self, block: BlockStarted, at: int, head: ResponseHead) -> None:
        self.block = block
        self.at = at
        self.id = head.item_id(at, _kind_of(block))
        self.text: list[str] = []
        self.signature = Signature(block.index, "")

    def whole(self) -> str:
        return "".join(self.text)

    def item(self, status: str) -> dict[str, object]:
        """Return the item as far as it has come."""
        block, text = self.block, self.whole()
        is_done = status == "completed"
        if block.kind == "tool_use":
            written = call_item(
                self.id, status, block.id, block.name, text or ("{}" if is_done else "")
            )
            return {**written, "namespace": block.namespace} if block.namespace else written
        if block.kind == "text":
            return message_item(self.id, status, [text_part(text)] if is_done else [])
        if block.kind == "redacted_thinking":
            return reasoning_item(self.id, [], foreign.write_redacted(RedactedThinking(block.data)))
        found = self.signature
        signed = Thinking(text, found.signature, found.vendor, found.id)
        sealed = foreign.write_signature(signed, "openai") if is_done else None
        return reasoning_item(self.id, [summary_part(text)] if text else [], sealed)


def _kind_of(block: BlockStarted) -> Block:
    match block.kind:
        case "text":
            return Text("")
        case "tool_use":
            return ToolUse(block.id, block.name, EMPTY_OBJECT)
        case "thinking":
            return Thinking("", vendor="openai" if block.id else "", id=block.id)
        case "redacted_thinking":
            return RedactedThinking(block.data)


class ResponsesWriter:
    """Writes our events as OpenAI's, each with its number."""

    def __init__(self, model: str, created: int) -> None:
        self._model = model
        self._created = created
        self._head = ResponseHead("", model, created)
        self._number = 0
        self._items: dict[int, _Item] = {}
        self._done: list[dict[str, object]] = []

    def write(self, event: Event) -> bytes:  # noqa: PLR0911 - one for each kind of event
        """Write one event of ours as all that it is in this format."""
        match event:
            case AnswerStarted():
                self._head = ResponseHead(event.id, self._model, self._created)
                return self._whole("response.created") + self._whole("response.in_progress")
            case BlockStarted():
                return self._begin(event)
            case Delta():
                return self._more(event)
            case Signature():
                self._items[event.index].signature = event
                return b""
            case BlockEnded():
                return self._end(self._items[event.index])
            case AnswerStopped():
                return self._stop(event)
            case AnswerBroken():
                return self._break(event)

    def _begin(self, event: BlockStarted) -> bytes:
        item = self._items[event.index] = _Item(event, len(self._items), self._head)
        added = self._event(
            "response.output_item.added",
            {"output_index": item.at, "item": item.item("in_progress")},
        )
        if event.kind != "text":
            return added
        place = {**_place(item), "content_index": 0, "part": text_part("")}
        return added + self._event("response.content_part.added", place)

    def _more(self, event: Delta) -> bytes:
        item = self._items[event.index]
        is_first = not item.text
        item.text.append(event.text)
        place = {**_place(item), "delta": event.text}
        match item.block.kind:
            case "text":
                more = {**place, "content_index": 0, "logprobs": []}
                return self._event("response.output_text.delta", more)
            case "tool_use":
                return self._event("response.function_call_arguments.delta", place)
            case "thinking":
                part = b"" if not is_first else self._summary(item, "part.added", part="")
                more = {**place, "summary_index": 0}
                return part + self._event("response.reasoning_summary_text.delta", more)
            case "redacted_thinking":
                return b""

    def _summary(self, item: _Item, name: str, part: str) -> bytes:
        value = {**_place(item), "summary_index": 0, "part": summary_part(part)}
        return self._event(f"response.reasoning_summary_{name}", value)

    def _end(self, item: _Item) -> bytes:
        text, place = item.whole(), _place(item)
        written = item.item("completed")
        self._done.append(written)
        match item.block.kind:
            case "text":
                at = {**place, "content_index": 0}
                before = self._event(
                    "response.output_text.done", {**at, "text": text, "logprobs": []}
                ) + self._event("response.content_part.done", {**at, "part": text_part(text)})
            case "tool_use":
                done = {**place, "name": item.block.name, "arguments": written["arguments"]}
                before = self._event("response.function_call_arguments.done", done)
            case "thinking" if text:
                done = {**place, "summary_index": 0, "text": text}
                before = self._event("response.reasoning_summary_text.done", done)
                before += self._summary(item, "part.done", part=text)
            case _:
                before = b""
        value = {"output_index": item.at, "item": written}
        return before + self._event("response.output_item.done", value)

    def _stop(self, event: AnswerStopped) -> bytes:
        response = self._head.finish(self._done, event.reason, event.usage)
        return self._event(f"response.{response['status']}", {"response": response})

    def _break(self, event: AnswerBroken) -> bytes:
        told: dict[str, object] = {"code": event.code, "message": event.message, "param": None}
        message = f"{event.code}: {event.message}"
        failed = self._head.fail(self._done, "server_error", message)
        return self._event("error", told) + self._event("response.failed", {"response": failed})

    def _whole(self, name: str) -> bytes:
        return self._event(name, {"response": self._head.in_progress()})

    def _event(self, name: str, value: dict[str, object]) -> bytes:
        event = {"type": name, "sequence_number": self._number, **value}
        self._number += 1
        return named_event(name, event)


def _place(item: _Item) -> dict[str, object]:
    return {"item_id": item.id, "output_index": item.at}


def stream_writer(model: str, created: int, *, wants_usage: bool = True) -> ResponsesWriter:  # noqa: ARG001 - this format always tells it
    """Write one streamed answer."""
    return ResponsesWriter(model, created)


def error_event(code: str, message: str) -> bytes:
    """Write an error in the middle of a stream that another writer began."""
    told = {"type": "error", "sequence_number": 0, "code": code, "message": message, "param": None}
    return named_event("error", told)
