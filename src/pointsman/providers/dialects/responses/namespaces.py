"""Responses: tools in namespaces, as Codex groups them. Other formats have one list of tools, so a
tool goes under a joined name there and gets its own name back in the answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, Protocol, TypeVar

from msgspec.structs import replace

from pointsman.providers.messages import Block, ToolUse
from pointsman.providers.streaming import BlockStarted, Event

Namespaces = Mapping[str, tuple[str, str]]
"""The namespace and the own name of a tool, by its joined name."""

_LONGEST: Final = 64
"""Of a tool's name, with the vendor that allows the least."""

T = TypeVar("T", Block, Event)


def joined_name(namespace: str, name: str) -> str:
    """Return the name of a tool where there are no namespaces: always the same."""
    whole = f"{namespace}__{name}" if namespace else name
    if len(whole) <= _LONGEST or not namespace:
        return whole
    digest = hashlib.sha256(f"{namespace}\n{name}".encode()).hexdigest()[:12]
    return f"{whole[: _LONGEST - 13]}_{digest}"


def with_own_name(found: T, namespaces: Namespaces) -> T:
    """Return a call of a tool, or its beginning, under the tool's own name."""
    if isinstance(found, ToolUse | BlockStarted) and found.name in namespaces:
        namespace, name = namespaces[found.name]
        return replace(found, name=name, namespace=namespace)
    return found


class _EventReader(Protocol):
    def feed(self, data: bytes) -> list[Event]: ...

    def end(self) -> list[Event]: ...


class OwnNamesReader:
    """Reads a stream, and gives tools their own names back."""

    def __init__(self, inner: _EventReader, namespaces: Namespaces) -> None:
        self._inner = inner
        self._namespaces = namespaces

    def feed(self, data: bytes) -> list[Event]:
        """Take more bytes and give the events they complete."""
        return [with_own_name(each, self._namespaces) for each in self._inner.feed(data)]

    def end(self) -> list[Event]:
        """Say that no more bytes come."""
        return [with_own_name(each, self._namespaces) for each in self._inner.end()]
