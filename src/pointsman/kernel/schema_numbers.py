"""Keywords of our own for numbers: what JSON Schema cannot say about exact reading."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pointsman.kernel.schema_tree import Schema

if TYPE_CHECKING:
    from jsonschema_rs import KeywordValidator

WHOLE = "x-whole-number"
DECIMAL = "x-decimal-text"
BOUNDS = "x-decimal-bounds"

DECIMAL_TEXT = r"^-?[0-9]{1,64}(\.[0-9]{1,64})?([eE][-+]?[0-9]{1,2})?$"
"""How a number is written when it is given as a text."""

_DECIMAL_TEXT = re.compile(DECIMAL_TEXT.strip("^$"))
_BOUNDS = {
    "minimum": (Decimal.__ge__, "must be at least"),
    "maximum": (Decimal.__le__, "must be at most"),
    "exclusiveMinimum": (Decimal.__gt__, "must be more than"),
    "exclusiveMaximum": (Decimal.__lt__, "must be less than"),
}


def add_number_keywords(node: Schema) -> Schema:
    """Return a schema node with our keywords where numbers are wanted."""
    if node.get("type") == "integer":
        return node | {WHOLE: True}
    if node.get("pattern") == DECIMAL_TEXT:
        del node["pattern"]
        return node | {
            DECIMAL: True,
            BOUNDS: {name: node[name] for name in _BOUNDS if name in node},
        }
    return node


class _Keyword:
    def __init__(self, parent_schema: Schema, value: Any, schema_path: list[str | int]) -> None:
        del parent_schema, schema_path
        self._value = value


class WholeNumber(_Keyword):
    """Refuses `3.0` where `3` is meant: JSON Schema calls both integers."""

    def validate(self, instance: object) -> None:
        """Raise unless the number was written as a whole number, or is no number."""
        if isinstance(instance, Decimal) and instance == instance.to_integral_value():
            raise ValueError(f"write `{int(instance)}`")


class DecimalText(_Keyword):
    """Refuses a text that is not a number."""

    def validate(self, instance: object) -> None:
        """Raise when `instance` is a text, but not of a number."""
        if isinstance(instance, str) and not _DECIMAL_TEXT.fullmatch(instance):
            raise ValueError("not a number")


class DecimalBounds(_Keyword):
    """Holds a number given as a text to the bounds that JSON Schema checks only for numbers."""

    def validate(self, instance: object) -> None:
        """Raise when the text of a number is out of bounds."""
        if not isinstance(instance, str) or not _DECIMAL_TEXT.fullmatch(instance):
            return
        for name, limit in self._value.items():
            holds, words = _BOUNDS[name]
            if not holds(Decimal(instance), Decimal(str(limit))):
                raise ValueError(f"{words} {limit}")


KEYWORDS: dict[str, type[KeywordValidator]] = {
    WHOLE: WholeNumber,
    DECIMAL: DecimalText,
    BOUNDS: DecimalBounds,
}
