"""Walking a JSON Schema: where schemas stand inside schemas, as the generator writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema object. `Any`: its keywords hold values of every kind, read by their names."""

# By name and not by shape: a struct may have fields called `default` or `type`.
_NAMED_SCHEMAS = ("properties", "$defs")
_LISTED_SCHEMAS = ("anyOf", "prefixItems")
_SINGLE_SCHEMAS = ("items", "additionalProperties", "propertyNames")


def rebuilt(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Return a copy of `schema` with `change` made to it and to every schema inside it."""
    return change({name: _rebuilt(name, held, change) for name, held in schema.items()})


def _rebuilt(keyword: str, held: Any, change: Callable[[Schema], Schema]) -> Any:
    if keyword in _NAMED_SCHEMAS:
        return {name: rebuilt(each, change) for name, each in held.items()}
    if keyword in _LISTED_SCHEMAS:
        return [rebuilt(each, change) for each in held]
    if keyword in _SINGLE_SCHEMAS and isinstance(held, dict):
        return rebuilt(held, change)
    return held


def schema_at(schema: Schema, path: Iterable[str | int]) -> Any:
    """Return what stands at a path inside a schema."""
    found: Any = schema
    for step in path:
        found = found[step]
    return found
