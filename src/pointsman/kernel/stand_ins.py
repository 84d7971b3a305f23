"""Stand-ins for the wrong parts of a document, so that checks of meaning can run on the rest of it.

`Document.problem` leaves out what a check says about a stand-in itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

from jsonschema_rs import ValidationError

from pointsman.kernel.document import Document, Json, Path
from pointsman.kernel.schema_tree import Schema, schema_at

_TEXTS = (
    "stand-in", "STAND_IN", "0s", "00:00", "1.0.0", "stand:in", "https://stand-in", "refs/", ".in"
)  # fmt: skip
"""One of these fits every text that a configuration file asks for."""


def flaws(error: ValidationError) -> frozenset[Path]:
    """Return the path of the value that is wrong or missing."""
    path: Path = tuple(error.instance_path)
    match error.kind.name:
        case "required":
            return frozenset({(*path, error.kind.as_dict()["property"])})
        case "additionalProperties" | "propertyNames":
            return frozenset()
    return frozenset({path})


def strays(error: ValidationError) -> frozenset[Path]:
    """Return the paths of the members whose keys mean nothing, or cannot be keys."""
    path: Path = tuple(error.instance_path)
    match error.kind.name:
        case "additionalProperties":
            return frozenset((*path, key) for key in error.kind.as_dict()["unexpected"])
        case "propertyNames":
            return frozenset({(*path, str(error.kind.as_dict()["error"].instance))})
    return frozenset()


def variants(document: Document, schema: Schema) -> Iterator[Json]:
    """Return the document's value without strays, and with a stand-in for every flaw.

    Where one of several values is wanted, each of them stands in once.
    """
    choice, widest = 0, 1
    while choice < widest:
        mending = _Mending(schema, choice)
        yield mending.mend(document)
        choice, widest = choice + 1, mending.widest


class _Mending:
    """Puts stand-ins into a document; `choice` says which of several allowed values."""

    def __init__(self, schema: Schema, choice: int) -> None:
        self._schema = schema
        self._choice = choice
        self.widest = 1
        """How many values the widest choice has."""

    def mend(self, document: Document) -> Json:
        found = [deepcopy(document.value)]
        # A flaw may lie inside of another, or under a stray key, and goes with it.
        for path in sorted(document.flaws, key=len, reverse=True):
            node = next(self._nodes(self._schema, path), None)
            if node is not None:
                with suppress(LookupError, TypeError):
                    _at(found, (0, *path)[:-1])[(0, *path)[-1]] = self._stand_in(node)
        for path in document.strays:
            with suppress(LookupError, TypeError):
                del _at(found, (0, *path[:-1]))[path[-1]]
        return found[0]

    def _nodes(self, node: Schema, path: Path) -> Iterator[Schema]:
        """Return the schemas that the value at a path may have."""
        node = self._resolve(node)
        if not path:
            yield node
        for each in node.get("anyOf", ()) if path else ():
            yield from self._nodes(each, path)
        for each in _members(node, path[0]) if path else ():
            yield from self._nodes(each, path[1:])

    def _resolve(self, node: Schema) -> Schema:
        while "$ref" in node:
            node = schema_at(self._schema, node["$ref"].removeprefix("#/").split("/"))
        return node

    def _stand_in(self, node: Schema) -> Json:
        node = self._resolve(node)
        if "anyOf" in node:
            return self._stand_in(node["anyOf"][0])
        if "enum" in node:
            return self._chosen(node["enum"])
        kinds = node.get("type", "null")
        kind = kinds if isinstance(kinds, str) else kinds[0]
        if kind == "object":
            needed: list[str] = node.get("required", [])
            return {name: self._stand_in(node["properties"][name]) for name in needed}
        if kind == "array":
            # Not empty: that would be a mistake of its own in most lists.
            fixed = node.get("prefixItems") or [node.get("items", {})] * node.get("minItems", 1)
            return [self._stand_in(each) for each in fixed]
        return _scalar(node, kind)

    def _chosen(self, options: list[Json]) -> Json:
        self.widest = max(self.widest, len(options))
        return options[self._choice % len(options)]


def _at(found: Any, path: Path) -> Any:
    for step in path:
        found = found[step]
    return found


def _members(node: Schema, step: str | int) -> Iterator[Schema]:
    if isinstance(step, str):
        member = node.get("properties", {}).get(step, node.get("additionalProperties"))
    else:
        fixed = node.get("prefixItems", ())
        member = fixed[step] if step < len(fixed) else node.get("items")
    if isinstance(member, dict):
        yield member


def _scalar(node: Schema, kind: str) -> Json:
    if kind in ("integer", "number"):
        least, most = int(node.get("minimum", 1)), int(node.get("maximum", 1))
        return max(least, min(most, 1))
    if kind == "string":
        return next((each for each in _TEXTS if _fits(each, node)), None)
    return bool(node.get("const")) if kind == "boolean" else None


def _fits(text: str, node: Schema) -> bool:
    is_long_enough = len(text) >= node.get("minLength", 0)
    return is_long_enough and re.search(node.get("pattern", ""), text) is not None
