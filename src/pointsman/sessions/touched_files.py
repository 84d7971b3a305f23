"""The files that a session's tools touched: facts for rules and patterns. 002 §5.3.1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from pointsman.providers.messages import Text, ToolResult
from pointsman.sessions.message import SessionMessage

_PATH = re.compile(r"(?:[\w.~-]*/)*[\w.-]*?(\.[A-Za-z][A-Za-z0-9]{0,7})", re.ASCII)
_LONGEST = 512
_MOST_LINES = 2_000


class TouchedFiles(Struct, frozen=True):
    """Paths, extensions and tools, each in the order it was first seen."""

    paths: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    tool_names: tuple[str, ...] = ()

    @property
    def has_tool_calls(self) -> bool:
        """Whether a model called a tool before."""
        return bool(self.tool_names)


class TouchTracker:
    """Collects touched files as messages arrive; each message is read once."""

    def __init__(self, messages: Iterable[SessionMessage] = ()) -> None:
        self._paths: dict[str, str] = {}
        self._names: dict[str, None] = {}
        self._found: TouchedFiles | None = TouchedFiles()
        self.look(messages)

    def look(self, messages: Iterable[SessionMessage]) -> None:
        """Read the inputs and results of tools; the words of messages are not read."""
        for message in messages:
            for use in message.tool_uses:
                self._found = None
                self._names.setdefault(use.name)
                self._paths |= {
                    each: found for each in _strings(use.input) if (found := _extension(each))
                }
            for line in _lines(message):
                if found := _extension(line):
                    self._found = None
                    self._paths[line] = found

    @property
    def files(self) -> TouchedFiles:
        """The files touched so far."""
        if self._found is None:
            extensions = dict.fromkeys(self._paths.values())
            self._found = TouchedFiles(tuple(self._paths), tuple(extensions), tuple(self._names))
        return self._found


def _extension(text: str) -> str:
    """Return the extension of a text that is nothing but a path, in lower case."""
    match = _PATH.fullmatch(text) if len(text) <= _LONGEST else None
    return match[1].lower() if match else ""


def _strings(raw: msgspec.Raw) -> Iterator[str]:
    waiting: list[object] = [msgspec.json.decode(raw)]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _lines(message: SessionMessage) -> Iterator[str]:
    for block in message.content:
        if isinstance(block, ToolResult):
            for part in block.content:
                if isinstance(part, Text):
                    yield from part.text.splitlines()[:_MOST_LINES]
