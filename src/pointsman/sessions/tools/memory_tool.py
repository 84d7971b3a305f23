"""`memory_add` and `memory_replace`: the model's changes of memory files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from pointsman.kernel.document import escape
from pointsman.providers.messages import Text, ToolUse
from pointsman.sessions.tool import (
    ConfirmationRequest,
    ToolContext,
    ToolDefinition,
    ToolOutcome,
)
from pointsman.sessions.tools.memory_files import FileName, MemoryChange, MemoryFiles
from pointsman.sessions.tools.schema import Field, object_schema
from pointsman.sessions.tools.stop import Stop, in_thread

_FILE = Field(
    "file",
    "string",
    "`memory` (all sessions) unless given, `user` (about the user), `workspace` (this workspace)",
    enum=("memory", "user", "workspace"),
)

MEMORY_ADD = ToolDefinition(
    "memory_add",
    "Remember something for later sessions: one fact or preference that will still matter then.",
    object_schema(Field("text", "string", "what to remember, in a sentence", required=True), _FILE),
    "write",
    requires_workspace=False,
)
MEMORY_REPLACE = ToolDefinition(
    "memory_replace",
    "Correct or forget something remembered: `old` must stand in the file exactly once.",
    object_schema(
        Field("old", "string", "the text that stands there now", required=True),
        Field("new", "string", "the text to put in its place; empty to forget", required=True),
        _FILE,
    ),
    "write",
    requires_workspace=False,
)


class AddInput(Struct, frozen=True):
    """The input of `memory_add`."""

    text: str
    file: FileName = "memory"


class ReplaceInput(Struct, frozen=True):
    """The input of `memory_replace`."""

    old: str
    new: str
    file: FileName = "memory"


T = TypeVar("T", bound=AddInput | ReplaceInput)


class MemoryTool(Generic[T]):
    """One of the two, on the memory of one session."""

    def __init__(
        self, definition: ToolDefinition, kind: type[T], change: Callable[[T], MemoryChange]
    ) -> None:
        self.definition = definition
        self._kind = kind
        self._change = change

    def describe(self, use: ToolUse) -> ConfirmationRequest:
        """Describe the change and its file."""
        asked = msgspec.json.decode(use.input, type=self._kind)
        line = f"{_summary(asked)} ({asked.file})"
        return ConfirmationRequest(line, self.definition.name, (line,))

    async def run(self, use: ToolUse, context: ToolContext, stop: Stop) -> ToolOutcome:  # noqa: ARG002 - the port's
        """Change the file."""
        asked = msgspec.json.decode(use.input, type=self._kind)
        done = await in_thread(lambda _: self._change(asked), stop)
        return ToolOutcome((Text(done.message),), events=done.events)


def memory_tools(
    memory: MemoryFiles,
) -> tuple[MemoryTool[AddInput], MemoryTool[ReplaceInput]]:
    """Return the tools that change a memory."""
    return (
        MemoryTool(MEMORY_ADD, AddInput, lambda asked: memory.add(asked.file, asked.text)),
        MemoryTool(
            MEMORY_REPLACE,
            ReplaceInput,
            lambda asked: memory.replace(asked.file, asked.old, asked.new),
        ),
    )


def _summary(asked: AddInput | ReplaceInput) -> str:
    if isinstance(asked, AddInput):
        return f"remember `{escape(asked.text, 400)}`"
    if not asked.new:
        return f"forget `{escape(asked.old, 400)}`"
    return f"replace `{escape(asked.old, 200)}` by `{escape(asked.new, 200)}`"
