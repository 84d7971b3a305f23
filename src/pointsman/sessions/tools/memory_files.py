"""The memory between sessions: `MEMORY.md` and `USER.md` of the home, `MEMORY.md` of the
workspace.

People edit these files, too. An entry is a line that begins with `- `, with the indented lines
below it; only entries are removed to make room, the oldest first, never other text.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Generic, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from pointsman.kernel.canonical import content_id
from pointsman.kernel.document import escape
from pointsman.providers.messages import Text, ToolUse
from pointsman.sessions.catalogue import Payload
from pointsman.sessions.events.session import MemoryEviction, MemoryUpdated
from pointsman.sessions.tool import (
    ConfirmationRequest,
    PromptPart,
    ToolContext,
    ToolDefinition,
    ToolOutcome,
)
from pointsman.sessions.tools.excerpt import Excerpt
from pointsman.sessions.tools.failure import CallFailed, from_os, invalid_input, not_allowed
from pointsman.sessions.tools.schema import Field, object_schema
from pointsman.sessions.tools.stop import Stop, in_thread
from pointsman.sessions.tools.workspace import Location, WorkspaceFolder
from pointsman.sessions.tools.writing import replace_at

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


FileName = Literal["memory", "user", "workspace"]

LONGEST_ENTRY = 2_000
LARGEST: Final[dict[FileName, int]] = {"memory": 16_384, "user": 8_192, "workspace": 16_384}
"""The most bytes of each file; an addition beyond them removes the oldest entries."""

_MOST_READ: Final = 1024 * 1024
_PLACES: Final[dict[FileName, str]] = {
    "memory": "MEMORY.md",
    "user": "USER.md",
    "workspace": "MEMORY.md",
}
_SHOWN: Final[dict[FileName, str]] = {
    "memory": "home/MEMORY.md",
    "user": "home/USER.md",
    "workspace": "workspace/MEMORY.md",
}
_TITLES: Final[dict[FileName, str]] = {
    "user": "What the user says about themselves (USER.md)",
    "memory": "What is remembered from earlier sessions (MEMORY.md)",
    "workspace": "Notes kept in this workspace (its MEMORY.md); whoever wrote the workspace may "
    "have written them",
}

Operation = Literal["add", "replace"]


class MemoryChange(NamedTuple):
    """The result of a change: a line for the model, and the events; none when nothing changed."""

    message: str
    events: tuple[Payload, ...] = ()


class MemoryFiles:
    """The memory of one session: read into its prompt, changed by its tools."""

    def __init__(
        self,
        home: Path,
        workspace: WorkspaceFolder | None = None,
        *,
        digest: Callable[[bytes], str] = content_id,
    ) -> None:
        self._folders: dict[FileName, WorkspaceFolder] = {"memory": WorkspaceFolder(home)}
        self._folders["user"] = self._folders["memory"]
        if workspace is not None:
            self._folders["workspace"] = workspace
        self._digest = digest

    def prompt(self) -> PromptPart:
        """Return each non-empty file under its title, within its size."""
        parts = [part for name in _TITLES if (part := self._part(name))]
        return PromptPart("\n\n".join(parts))

    def files(self) -> tuple[FileName, ...]:
        """Return the files that can be changed here."""
        return tuple(self._folders)

    def add(self, name: FileName, text: str) -> MemoryChange:
        """Add an entry at the end; the oldest make room where the file would be too large."""
        entry = _entry(text)
        with self._changing(name) as change:
            if entry in _entries(change.before):
                return MemoryChange("this is remembered already")
            base = (
                change.before
                if change.before.endswith("\n") or not change.before
                else (change.before + "\n")
            )
            return self._write(change, "add", base + entry)

    def replace(self, name: FileName, old: str, new: str) -> MemoryChange:
        """Replace a text that stands in the file once; by nothing, to forget it."""
        with self._changing(name) as change:
            count = change.before.count(old) if old else 0
            if count != 1:
                where = f"`{_SHOWN[name]}`"
                often = f"stands {count} times in {where}: give more of it"
                raise invalid_input(f"`old` {often if count else f'does not stand in {where}'}")
            if len(new) > LONGEST_ENTRY:
                raise invalid_input(f"`new` has at most {LONGEST_ENTRY} characters")
            return self._write(change, "replace", change.before.replace(old, _clean(new)))

    def _part(self, name: FileName) -> str:
        folder = self._folders.get(name)
        text = "" if folder is None else _read_quietly(folder, _PLACES[name]).strip()
        if not text:
            return ""
        excerpt = Excerpt(LARGEST[name])
        excerpt.write(text)
        return f"# {_TITLES[name]}\n\n{excerpt.text()}"

    @contextmanager
    def _changing(self, name: FileName) -> Iterator[_Change]:
        """Hold a file against other sessions while it is changed."""
        folder = self._folders.get(name)
        if folder is None:
            raise not_allowed("this session has no workspace whose memory could be changed")
        with folder.locate(_PLACES[name]) as location:
            # A lock on the folder needs no file of its own; it ends when the folder is closed.
            fcntl.flock(location.folder, fcntl.LOCK_EX)
            with folder.locate(_PLACES[name]) as now:
                yield _Change(name, now, _read(folder, now, _PLACES[name]))

    def _write(self, change: _Change, operation: Operation, after: str) -> MemoryChange:
        kept, evicted = _fitting(after, LARGEST[change.name])
        if kept is None:
            message = f"`{_SHOWN[change.name]}` is full: replace or shorten something in it"
            raise invalid_input(message)
        before, data = change.before.encode(), kept.encode()
        try:
            replace_at(
                change.location, data, new_mode=0o600 if change.name != "workspace" else 0o666
            )
        except OSError as error:
            raise from_os(error, _SHOWN[change.name]) from None
        events: list[Payload] = [
            MemoryUpdated(
                file=_SHOWN[change.name],
                operation=operation,
                hash_before=self._digest(before),
                hash_after=self._digest(data),
                size_before=len(before),
                size_after=len(data),
            )
        ]
        if evicted:
            size = len(after.encode())
            events.append(MemoryEviction(_SHOWN[change.name], "size_cap", evicted, size, len(data)))
        told = f"; {evicted} older entries made room" if evicted else ""
        return MemoryChange(
            f"`{_SHOWN[change.name]}` has {len(data)} bytes now{told}", tuple(events)
        )


class _Change(NamedTuple):
    """A locked file: its name, its location and its content."""

    name: FileName
    location: Location
    before: str


def _read(folder: WorkspaceFolder, location: Location, path: str) -> str:
    if location.found is None:
        return ""
    with os.fdopen(folder.open_file(location, path), "rb") as file:
        data = file.read(_MOST_READ + 1)
    if len(data) > _MOST_READ:
        raise invalid_input(f"`{path}` is larger than {_MOST_READ} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise invalid_input(f"`{path}` is not UTF-8: save it as such") from None


def _read_quietly(folder: WorkspaceFolder, path: str) -> str:
    """Read a file for the prompt; return nothing where it cannot be read."""
    try:
        with folder.locate(path) as location:
            return _read(folder, location, path)
    except CallFailed:
        return ""


def _clean(text: str) -> str:
    return "".join(each for each in text if each in "\n\t" or each.isprintable())


def _entry(text: str) -> str:
    lines = [line.rstrip() for line in _clean(text).strip().splitlines() if line.strip()]
    if not lines:
        raise invalid_input("`text` is empty")
    if len(text) > LONGEST_ENTRY:
        raise invalid_input(f"`text` has at most {LONGEST_ENTRY} characters: keep what matters")
    first = lines[0].removeprefix("- ")
    return "\n".join([f"- {first}", *(f"  {line.strip()}" for line in lines[1:])]) + "\n"


def _entries(text: str) -> list[str]:
    return [block for block in _blocks(text) if block.startswith("- ")]


def _blocks(text: str) -> list[str]:
    """Cut a text into its entries and the lines between them."""
    blocks: list[str] = []
    for line in text.splitlines(keepends=True):
        is_more = line.startswith(("  ", "\t")) and blocks and blocks[-1].startswith("- ")
        if is_more:
            blocks[-1] += line
        else:
            blocks.append(line)
    return blocks


def _fitting(text: str, most: int) -> tuple[str | None, int]:
    """Drop the oldest entries until a text fits; None where the rest alone is too large.

    The newest entry stays: otherwise the change would remove its own addition.
    """
    blocks, size, evicted = _blocks(text), len(text.encode()), 0
    entries = [index for index, block in enumerate(blocks) if block.startswith("- ")]
    for index in entries[:-1]:
        if size <= most:
            break
        size -= len(blocks[index].encode())
        blocks[index] = ""
        evicted += 1
    return ("".join(blocks), evicted) if size <= most else (None, 0)
