"""Which labels the items of a request have: its calls of tools with their results, and its text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final

import msgspec
from msgspec import Struct

from pointsman.placement.facts import Sensitivity, staying
from pointsman.placement.rules.labels import Label

_BETWEEN_WORDS: Final = re.compile(r"[\s'\"`=;,|&<>()\[\]{}]+")
_SERVER: Final = re.compile(r"(?:mcp__)?(.+?)__.+", re.DOTALL)
"""Names of tools of MCP servers: `server__tool` in a home, `mcp__server__tool` elsewhere."""


DELEGATE: Final = "delegate"
"""The tool by which a planner hands work to a worker."""


class ToolItem(Struct, frozen=True):
    """One call of a tool, as its request carries it; `server` is MCP's, where there is one."""

    name: str
    server: str
    texts: tuple[str, ...]


class ToolItems(Struct, frozen=True):
    """The calls in a request; `is_open` where it has a result whose call is not there."""

    calls: tuple[ToolItem, ...] = ()
    is_open: bool = False


NO_ITEMS: Final = ToolItems()


def tool_item(name: str, given: object, namespace: str = "") -> ToolItem:
    """Return a call of a tool with every text of its arguments."""
    found = _SERVER.fullmatch(name)
    server = namespace.removeprefix("mcp__") or ("" if found is None else found[1])
    return ToolItem(name, server, tuple(_texts(given)))


def items_in_body(body: bytes) -> ToolItems:
    """Return the calls of tools in a request of any wire format, found by their shape.

    A form, which brings a recording or a picture, calls no tools.
    """
    try:
        body_value: object = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return NO_ITEMS
    calls: list[ToolItem] = []
    made: set[object] = set()
    answered: set[object] = set()
    for value in _objects(body_value):
        name = value.get("name")
        given = value.get("arguments", value.get("input"))
        if isinstance(name, str) and (given is not None or value.get("role") == "function"):
            namespace = value.get("namespace")
            space = namespace if isinstance(namespace, str) else ""
            calls.append(tool_item(name, given, space))
            made |= {value.get("id"), value.get("call_id")}
        if isinstance(value.get("function"), dict):
            made.add(value.get("id"))
        answered |= {value.get("tool_call_id"), value.get("tool_use_id")}
        if "output" in value:
            answered.add(value.get("call_id"))
    return ToolItems(tuple(calls), not {each for each in answered if each} <= made)


def labels_of(
    labels: Iterable[Label],
    items: ToolItems,
    found: Sensitivity | None,
    *,
    knows_workers: bool = True,
) -> tuple[str, ...]:
    """Name the labels that a request's items have, in their order.

    What cannot be told counts as having it: a result without its call, a text not looked into,
    and what a worker brings back where its labels do not taint its planner's session.
    """
    if not knows_workers and any(each.name == DELEGATE for each in items.calls):
        items = ToolItems(items.calls, is_open=True)
    return tuple(each.name for each in labels if _has(each, items, found))


def _has(label: Label, items: ToolItems, found: Sensitivity | None) -> bool:
    if label.finds and (found is None or found.has_failed or staying(found, label.finds)):
        return True
    if not (label.tools or label.servers or label.paths):
        return False
    return items.is_open or any(_is_labelled(label, each) for each in items.calls)


def _is_labelled(label: Label, item: ToolItem) -> bool:
    return (
        _fits(item.name, label.tools)
        or (bool(item.server) and _fits(item.server, label.servers))
        or (bool(label.paths) and any(_names_path(text, label.paths) for text in item.texts))
    )


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, each) for each in patterns)


def _names_path(text: str, patterns: tuple[str, ...]) -> bool:
    """Tell whether a text is such a path or has one among its words, as a command line does."""
    words = {text, *_BETWEEN_WORDS.split(text)}
    words |= {_plain_path(word) for word in words}
    return any(_fits(word, patterns) for word in words if word)


def _plain_path(path: str) -> str:
    """Return a path without `.`, `..` and doubled slashes."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def _texts(given: object) -> Iterator[str]:
    if isinstance(given, str):
        yield given
        # Two wire formats write the arguments of a call as a text that holds JSON.
        if given.lstrip().startswith(("{", "[")):
            try:
                yield from _texts(msgspec.json.decode(given))
            except msgspec.DecodeError:
                return
    elif isinstance(given, dict):
        for each in given.values():
            yield from _texts(each)
    elif isinstance(given, list):
        for each in given:
            yield from _texts(each)


def _objects(value: object) -> Iterator[dict[str, object]]:
    ahead = [value]
    while ahead:
        one = ahead.pop()
        if isinstance(one, dict):
            yield one
            ahead += one.values()
        elif isinstance(one, list):
            ahead += one
