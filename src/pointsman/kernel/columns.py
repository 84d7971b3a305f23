"""Text in the columns of a terminal: counted, cut, folded and set as a table.

A wide letter or emoji takes two columns, a combining mark none. Emoji joined from several are
counted by their parts: a terminal that joins them shows less than was counted, never more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final
from unicodedata import category, east_asian_width

from pointsman.kernel.document import printable


def ascii_lower(text: str) -> str:
    """Lower ASCII letters only: the rest of Unicode changes with the Python version."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


WIDTH: Final = 80
"""The width where there is no terminal."""

_EMOJI_SELECTOR: Final = "\ufe0f"
"""Asks for the emoji form of the letter before it, which is two columns wide."""

_MARKS: Final = frozenset({"Mn", "Me", "Cf"})
_JAMO_TAILS: Final = range(0x1160, 0x1200)
"""Vowels and ends of a Korean syllable; terminals join them to the letter before."""


def column_count(text: str) -> int:
    """Count the columns of a text."""
    return len(text) if text.isascii() else sum(_widths(text))


def cut_line(line: str, width: int = WIDTH) -> str:
    """Shorten a line to at most `width` columns, with `…` in the place of the rest."""
    if column_count(line) <= width:
        return line
    return line[: _fitting_length(line, width - 1)] + "…"


def pad_line(line: str, width: int) -> str:
    """Fill a line with blanks up to `width` columns."""
    return line + " " * (width - column_count(line))


def fold_line(text: str, width: int, hang: int = 4) -> list[str]:
    """Break a text into lines of at most `width` columns; `hang` indents those after the first.

    A word is broken only where it is wider than a whole line.
    """
    if column_count(text) <= width:
        return [text]
    line = " " * (len(text) - len(text.lstrip(" ")))
    following = " " * (len(line) + hang)
    lines: list[str] = []
    for word in text.lstrip(" ").split(" "):
        is_begun = bool(line.strip())
        rest = f" {word}" if is_begun else word
        if is_begun and column_count(line) + column_count(rest) > width:
            lines.append(line.rstrip())
            line, rest = following, word
        while (room := width - column_count(line)) < column_count(rest):
            length = max(1, _fitting_length(rest, room))
            lines.append(line + rest[:length])
            line, rest = following, rest[length:]
        line += rest
    return [*lines, line]


def table(rows: Iterable[Sequence[str]]) -> str:
    """Set rows as columns of text; nothing in it can move a cursor."""
    lines = [[printable(cell) or "-" for cell in row] for row in rows]
    widths = [max(map(column_count, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(pad_line(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _fitting_length(text: str, room: int) -> int:
    """Return how many letters of a text that is too wide fit, each with the marks behind it."""
    ends = accumulate(_widths(text))
    length = next(index for index, end in enumerate(ends) if end > room)
    # A selector makes the letter before it wider: neither fits without the other.
    return length - 1 if text[length] == _EMOJI_SELECTOR else length


def _widths(text: str) -> Iterator[int]:
    before = 0
    for char in text:
        if char == _EMOJI_SELECTOR:
            yield 1 if before == 1 else 0
            before = 0
        elif category(char) in _MARKS or ord(char) in _JAMO_TAILS:
            yield 0
        else:
            before = 2 if east_asian_width(char) in "WF" else 1
            yield before
