"""Text patterns of expressions, by RE2: linear time, whatever the text is."""

from __future__ import annotations

import re2

from pointsman.expressions.values import NAMES, Meter, NotKnown, kind_of, spend_text
from pointsman.kernel.regex import options


class CompiledPattern:
    """A pattern that was read when the expression was, and asks of texts whether they have it."""

    __slots__ = ("_found", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._found = re2.compile(text, options()).search

    def is_in(self, text: object, meter: Meter) -> bool:
        """Tell whether the pattern matches somewhere in a text."""
        if not isinstance(text, str):
            raise NotKnown(f"{NAMES[kind_of(text)]} is not a text to match")
        spend_text(meter, len(text))
        return self._found(text.encode("utf-8", "replace").decode()) is not None
