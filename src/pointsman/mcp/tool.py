"""A tool as an agent sees it: its arguments, its value, the route it needs, and its function."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from pointsman.access.roles import RouteKey
from pointsman.errors import InputError
from pointsman.kernel.document import Document, DocumentLimits
from pointsman.kernel.json_text import read_json
from pointsman.kernel.schema import Schema, conform, json_schema, json_schemas
from pointsman.mcp.visitor import Admitted

T = TypeVar("T")

MOST_BYTES: Final = 8 * 1024 * 1024
ARGUMENTS: Final = "the arguments"
_REF: Final = "#/$defs/"

Report = Callable[[int, int], Awaitable[None]]
"""Reports to the client how much is done, and of how much."""


class Hints(Struct, frozen=True):
    """Hints that a client may show its user before a call. Recording counts as no change."""

    is_read_only: bool
    is_idempotent: bool = True
    is_open_world: bool = False
    """Whether something beyond this machine may be asked."""


class ToolRequest(Struct, Generic[T], frozen=True):
    """One call that may be made; `document` holds the arguments with their numbers exact."""

    given: T
    document: Document
    by: Admitted
    report: Report


class ToolAnswer(Struct, frozen=True):
    """The result of a call: a value for programs, and the same as text."""

    value: object
    text: str
    is_error: bool = False


class Tool(Struct, Generic[T], frozen=True):
    """One tool. `takes` and `gives` are structs; the schemas are made from them."""

    name: str
    title: str
    told: str
    takes: type[T]
    gives: type
    route: RouteKey
    hints: Hints
    run: Callable[[ToolRequest[T]], Awaitable[ToolAnswer]]
    read: Callable[[Document], T] | None = None
    """Reads the arguments where a schema cannot say all there is to check."""

    def input_schema(self) -> Schema:
        """Return the schema of the arguments, an object at its root."""
        return _inline_root(json_schema(self.takes))

    def output_schema(self) -> Schema:
        """Return the schema of the value, an object at its root; other keys may be added."""
        found, shared = json_schemas([self.gives], _REF + "{name}")
        return _inline_root({**found[self.gives], "$defs": shared})

    def call(self, arguments: Mapping[str, Any], by: Admitted, report: Report) -> ToolRequest[T]:
        """Read the arguments, or raise with all that is wrong with them."""
        document = _document(arguments)
        given = self.read(document) if self.read else conform(document, self.takes)
        return ToolRequest(given, document, by, report)


def _document(arguments: Mapping[str, Any]) -> Document:
    """Read arguments once more, by our own reader: its refusals have a place and its numbers are
    exact. What another parser let through that is no JSON is refused here.
    """
    try:
        text = json.dumps(arguments, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise InputError("the arguments are no JSON that can be read exactly") from error
    return read_json(text, ARGUMENTS, DocumentLimits(bytes=MOST_BYTES))


def _inline_root(schema: Schema) -> Schema:
    """Put what the root refers to in its place: clients want an object there."""
    shared = dict(schema.get("$defs", {}))
    reference = schema.get("$ref", "")
    if not reference:
        return schema
    root = shared.pop(reference.removeprefix(_REF))
    rest = {key: value for key, value in schema.items() if key not in {"$ref", "$defs"}}
    return {**rest, **root, **({"$defs": shared} if shared else {})}
