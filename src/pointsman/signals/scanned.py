"""A text made ready for scanning by RE2: bytes in which patterns see ASCII and bytes above it.

Scanning bytes as Latin-1 keeps the automata small; offsets are turned back into characters at the
end, in one pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import re2

# Each stands for one ASCII character, one for one, so offsets stay: numbers pasted from a PDF or a
# web page hold no-break blanks and other dashes.
_STAND_INS = (
    *(("\u00a0", " "), ("\u2007", " "), ("\u2009", " "), ("\u202f", " "), ("\u3000", " ")),
    *(("\u2010", "-"), ("\u2011", "-"), ("\u2012", "-"), ("\u2013", "-"), ("\u2212", "-")),
    *(("\uff20", "@"), ("\uff0b", "+"), ("\uff0e", ".")),
    *((chr(0xFF10 + digit), str(digit)) for digit in range(10)),
)

_CONTINUED = bytes(range(0x80, 0xC0))


@cache
def _compile(source: str) -> re2._Regexp:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.log_errors = False
    return re2.compile(source.encode(), options)


class Scanned:
    """The bytes of a text, and what stands around a place in them."""

    __slots__ = ("data",)

    def __init__(self, text: str) -> None:
        if text.isascii():
            self.data = text.encode()
            return
        for other, plain in _STAND_INS:
            text = text.replace(other, plain)
        # Half of a surrogate pair becomes "?": one character still, and nothing matches it.
        self.data = text.encode("utf-8", "replace")

    def spans(self, source: str) -> Iterator[tuple[int, int]]:
        """Return where a pattern matches, without overlaps.

        INVARIANT: no pattern may look far past the end of its match, or many matches would make
        the time quadratic; what follows a match is looked at in a slice of fixed size.
        """
        for match in _compile(source).finditer(self.data):
            yield match.span()

    def first(self, source: str, start: int) -> tuple[int, int] | None:
        """Return where a pattern matches first at or after a place."""
        match = _compile(source).search(self.data, start)
        return None if match is None else match.span()

    def piece(self, start: int, end: int) -> str:
        """Return a slice, one character a byte."""
        return self.data[max(start, 0) : end].decode("latin-1")

    def before(self, place: int, count: int) -> str:
        """Return up to so many bytes before a place."""
        return self.piece(place - count, place)

    def after(self, place: int, count: int) -> str:
        """Return up to so many bytes from a place on."""
        return self.piece(place, place + count)

    def characters(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Turn ascending spans of bytes into spans of characters."""
        if self.data.isascii():
            return spans
        found, seen, counted = [], 0, 0
        for start, end in spans:
            # A pattern may end inside a character: the whole of it belongs to the hit.
            seen_now = end
            while seen_now < len(self.data) and self.data[seen_now] & 0xC0 == 0x80:
                seen_now += 1
            first = counted + _count(self.data[seen:start])
            counted = first + _count(self.data[start:seen_now])
            seen = seen_now
            found.append((first, counted))
        return found


def _count(data: bytes) -> int:
    """Count the characters that start in some UTF-8."""
    return len(data.translate(None, _CONTINUED))
