"""The context a planner hands to a worker: files by reference, the rest inlined. 002 §6.3."""

from __future__ import annotations

from collections.abc import Sequence

from pointsman.errors import InputError
from pointsman.providers.messages import Image, Text, ToolResult
from pointsman.sessions.delegate_call import (
    File,
    FileRange,
    Include,
    Inline,
    PastMessage,
    PastResult,
    WorkerContext,
)
from pointsman.sessions.message import SessionMessage

NOTHING = "No further context was given."


def resolve_context(items: Sequence[Include], history: Sequence[SessionMessage]) -> WorkerContext:
    """Resolve a planner's items, or raise naming one that its session does not have."""
    lines: list[str] = []
    blocks: list[Text | Image] = []
    for number, item in enumerate(items, 1):
        line, inlined = _resolve(item, history)
        lines.append(f"[{number}] {line}")
        if inlined:
            blocks += [Text(f"[{number}] {line}\n"), *inlined]
    summary = "\n".join(["Context:", *lines]) if lines else NOTHING
    return WorkerContext(summary, tuple(blocks))


def _resolve(
    item: Include, history: Sequence[SessionMessage]
) -> tuple[str, tuple[Text | Image, ...]]:
    match item:
        case File():
            return f"file {item.path}: read it with your tools", ()
        case FileRange():
            first, last = item.lines
            if first > last:
                raise InputError(f"`{item.path}`: lines {first} to {last} are none")
            return f"file {item.path}, lines {first} to {last}: read them with your tools", ()
        case PastResult():
            found = _result(item.tool_use_id, history)
            return f"result of the tool call {item.tool_use_id}, below", found.content
        case PastMessage():
            message = _message(item.message_id, history)
            return f"message {item.message_id} of the {message.role}, below", _contents(message)
        case Inline():
            return f"note of the planner: {item.label}, below", (Text(item.text),)


def _result(name: str, history: Sequence[SessionMessage]) -> ToolResult:
    for message in history:
        for block in message.content:
            if isinstance(block, ToolResult) and block.tool_use_id == name:
                return block
    raise InputError(f"no tool call `{name}` has a result in this session")


def _message(name: str, history: Sequence[SessionMessage]) -> SessionMessage:
    found = next((each for each in history if each.id == name), None)
    if found is None:
        raise InputError(f"there is no message `{name}` in this session")
    return found


def _contents(message: SessionMessage) -> tuple[Text | Image, ...]:
    shown: list[Text | Image] = []
    for block in message.content:
        if isinstance(block, Text | Image):
            shown.append(block)
        elif isinstance(block, ToolResult):
            shown += block.content
    return tuple(shown)
