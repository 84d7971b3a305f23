"""Input schemas of our own tools, in the subset of companion §2.1.

The subset: basic types, `enum`, `required`, `properties`, `items`, `description`, `format` and a
boolean `additionalProperties`. The tools check the rest, such as bounds, themselves.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw, Struct

FieldType = Literal["string", "integer", "boolean"]


class Field(Struct, frozen=True):
    """One member of a tool's input."""

    name: str
    type: FieldType
    description: str
    required: bool = False
    enum: tuple[str, ...] = ()


def object_schema(*fields: Field) -> Raw:
    """Return the schema of an object with these members and no others."""
    schema = {
        "type": "object",
        "properties": {field.name: _member(field) for field in fields},
        "required": [field.name for field in fields if field.required],
        "additionalProperties": False,
    }
    return Raw(msgspec.json.encode(schema))


def _member(field: Field) -> dict[str, object]:
    member: dict[str, object] = {"type": field.type, "description": field.description}
    return member | {"enum": list(field.enum)} if field.enum else member
