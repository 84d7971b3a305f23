"""Functions on texts. The characters they read and make are taken off the meter."""

from __future__ import annotations

from typing import cast

from pointsman.expressions import values
from pointsman.expressions.values import (
    Meter,
    NotKnown,
    Value,
    number_text,
    spend,
    spend_text,
    whole,
)
from pointsman.kernel.canonical import MAX_INT

_SCALAR = frozenset({"boolean", "number", "text"})


def text_of(value: Value) -> str:
    """Write a text, number or truth value as a text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(values.number(value))


def concat(meter: Meter, *parts: Value) -> str:
    """Return texts, numbers and truth values joined to one text."""
    texts = [text_of(each) for each in parts]
    spend_text(meter, sum(map(len, texts)))
    return "".join(texts)


def substring(meter: Meter, text: str, start: Value, length: Value = MAX_INT) -> str:
    """Return part of a text, counted in characters from 0."""
    first, count = whole(start), whole(length)
    if first < 0 or count < 0:
        raise NotKnown("`substring` counts from 0 up")
    spend_text(meter, len(text))
    return text[first : first + count]


def replace(meter: Meter, text: str, old: str, new: str) -> str:
    """Return a text with one part replaced wherever it stands."""
    if not old:
        raise NotKnown("`replace` cannot look for an empty text")
    spend_text(meter, len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def trim(meter: Meter, text: str) -> str:
    """Return a text without blanks at its ends."""
    spend_text(meter, len(text))
    return text.strip(" \t\n\r\f\v")


def upper(meter: Meter, text: str) -> str:
    """Return a text with its ASCII letters in upper case."""
    spend_text(meter, len(text))
    return text.encode().upper().decode()


def lower(meter: Meter, text: str) -> str:
    """Return a text with its ASCII letters in lower case."""
    # DETERMINISM: only ASCII letters; the rest of Unicode changes with the Python version.
    spend_text(meter, len(text))
    return text.encode().lower().decode()


def split_text(meter: Meter, text: str, separator: str) -> Value:
    """Return the parts of a text between separators."""
    if not separator:
        raise NotKnown("`split_text` cannot look for an empty text")
    spend_text(meter, len(text))
    spend(meter, text.count(separator))
    return cast("Value", text.split(separator))


def join(meter: Meter, parts: list[Value], separator: str) -> str:
    """Return the members of a list as one text."""
    spend(meter, len(parts))
    if any(values.kind_of(each) not in _SCALAR for each in parts):
        raise NotKnown("`join` takes texts, numbers and truth values")
    texts = [text_of(each) for each in parts]
    spend_text(meter, sum(map(len, texts)) + len(texts) * len(separator))
    return separator.join(texts)
