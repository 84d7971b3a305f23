"""Letters in ways that do not change with the Python version, and lines of a given width."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from unicodedata import east_asian_width


def ascii_lower(text: str) -> str:
    """Lower ASCII letters only: the rest of Unicode changes with the Python version."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def fold(text: str, width: int, hang: int = 4) -> list[str]:
    """Break a text into lines of at most `width` columns; `hang` indents those after the first.

    A word is broken only where it is wider than a whole line.
    """
    if columns(text) <= width:
        return [text]
    line = " " * (len(text) - len(text.lstrip(" ")))
    following = " " * (len(line) + hang)
    lines: list[str] = []
    for word in text.lstrip(" ").split(" "):
        is_begun = bool(line.strip())
        rest = f" {word}" if is_begun else word
        if is_begun and columns(line) + columns(rest) > width:
            lines.append(line.rstrip())
            line, rest = following, word
        while (room := width - columns(line)) < columns(rest):
            piece = _beginning(rest, room)
            lines.append(line + piece)
            line, rest = following, rest[len(piece) :]
        line += rest
    return [*lines, line]


def columns(text: str) -> int:
    """Count the columns of a text: letters of East Asian scripts are two wide."""
    return len(text) if text.isascii() else sum(map(_column, text))


def _column(char: str) -> int:
    return 2 if east_asian_width(char) in "WF" else 1


def _beginning(word: str, room: int) -> str:
    """Return as much of a word as fits in some columns, and at least a letter."""
    return word[: max(1, bisect_right([*accumulate(map(_column, word))], room))]
