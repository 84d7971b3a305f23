"""Validation of a call: a known tool, and an input that its schema accepts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from pointsman.errors import DocumentError
from pointsman.kernel.document import DocumentLimits, escape
from pointsman.kernel.json_text import read_json
from pointsman.kernel.nearest import nearest
from pointsman.kernel.schema_problems import problems
from pointsman.kernel.schema_tree import Schema
from pointsman.providers.messages import ToolUse
from pointsman.sessions.tool import ToolDefinition

MOST_TOLD = 8
_LIMITS = DocumentLimits(bytes=8 * 1024 * 1024, depth=64, nodes=200_000)


def unknown_tool(name: str, known: Iterable[str]) -> str:
    """Return the message that a tool is unknown, with the nearest name."""
    listed = [*known]
    meant = nearest(name, listed)
    hint = f"did you mean `{meant}`?" if meant else f"there are: {', '.join(listed) or 'none'}"
    return f"there is no tool `{escape(name)}`: {hint}"


def input_problems(use: ToolUse, definition: ToolDefinition) -> tuple[str, ...]:
    """Return the problems of an input, one line each; empty when it is valid."""
    try:
        document = read_json(bytes(use.input) or b"{}", "input", _LIMITS)
    except DocumentError as error:
        return tuple(each.message for each in error.problems[:MOST_TOLD])
    if not isinstance(document.value, dict):
        return ("the input must be a JSON object",)
    schema, validator = _form(bytes(definition.input_schema))
    found = [
        f"{each.message} ({each.hint})" if each.hint else each.message
        for error in validator.iter_errors(document.value)
        for each in problems(document, schema, error)
    ]
    if len(found) > MOST_TOLD:
        return (*found[:MOST_TOLD], f"and {len(found) - MOST_TOLD} more")
    return tuple(found)


def schema_refusal(schema: bytes) -> str:
    """Return why a tool's schema cannot be used; empty when it can."""
    try:
        form = _form(schema)
    except jsonschema_rs.ValidationError as error:
        if error.kind.name == "$ref":
            return "it refers to something outside itself, which is not looked up"
        return escape(error.message, 200)
    except msgspec.MsgspecError as error:
        return escape(str(error), 200)
    return "" if form[0].get("type") == "object" else "it does not describe an object"


@lru_cache(maxsize=512)
def _form(schema: bytes) -> tuple[Schema, jsonschema_rs.Validator]:
    read = msgspec.json.decode(schema, type=dict[str, Any])
    # INVARIANT: no schema makes us read a file or ask the network.
    return read, jsonschema_rs.Draft202012Validator(read, retriever=_nothing)


def _nothing(uri: str) -> Any:
    raise ValueError(f"the schema refers to `{escape(uri)}`, which is not looked up")
