"""Text patterns of expressions, by RE2: linear time, whatever the text is."""

from __future__ import annotations

import re2

from pointsman.branches.values import NAMES, Meter, NotKnown, kind_of, spend_text

MAX_PATTERN = 1_000


class Pattern:
    """A pattern that was read when the expression was, and asks of texts whether they have it."""

    __slots__ = ("_found", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._found = re2.compile(text, _options()).search

    def is_in(self, text: object, meter: Meter) -> bool:
        """Tell whether the pattern matches somewhere in a text."""
        if not isinstance(text, str):
            raise NotKnown(f"{NAMES[kind_of(text)]} is not a text to match")
        spend_text(meter, len(text))
        return self._found(text.encode("utf-8", "replace").decode()) is not None


def refusal(pattern: str) -> str:
    """Say why a pattern cannot be used; empty when it can."""
    if len(pattern) > MAX_PATTERN:
        return f"it is longer than {MAX_PATTERN} characters"
    try:
        re2.compile(pattern, _options())
    except re2.error as error:
        reason = error.args[0] if error.args else "it cannot be read"
        return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    return ""


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options
