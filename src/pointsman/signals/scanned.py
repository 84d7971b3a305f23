"""A text made ready for scanning by RE2: bytes in which patterns see ASCII and bytes above it.

Scanning bytes as Latin-1 keeps the automata small; offsets are turned back into characters at the
end, in one pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import re2

from pointsman.signals.normalised import (
    HIDING,
    MIXED,
    Normalised,
    plain_blanks,
    unmask,
    without_hiding,
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

    __slots__ = ("_normalised", "data")

    def __init__(self, text: str) -> None:
        self._normalised: Normalised | None = None
        if text.isascii():
            self.data = text.encode()
            return
        text = plain_blanks(text)
        # Half of a surrogate pair becomes "?": one character still, and nothing matches it.
        self.data = text.encode("utf-8", "replace")
        if self.first(f"{HIDING}|{MIXED}", 0) is None:
            return
        self._normalised = without_hiding(text)
        text = unmask(self._normalised.text)
        self.data = text.encode("utf-8", "replace")

    def spans(self, source: str) -> Iterator[tuple[int, int]]:
        """Return where a pattern matches, without overlaps.

        INVARIANT: no pattern may look far past the end of its match, or many matches would make
        the time quadratic; the text behind a match is looked at in a slice of fixed size.
        """
        for match in _compile(source).finditer(self.data):
            yield match.span()

    def first(self, source: str, start: int) -> tuple[int, int] | None:
        """Return where a pattern matches first at or after a place."""
        match = _compile(source).search(self.data, start)
        return None if match is None else match.span()

    def holds(self, source: str, start: int, end: int) -> bool:
        """Say whether a pattern matches within a slice."""
        return _compile(source).search(self.data[max(start, 0) : end]) is not None

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
        """Turn ascending spans of bytes into spans of the characters of the text as given."""
        found = spans if self.data.isascii() else self._count_characters(spans)
        return found if self._normalised is None else self._normalised.places(found)

    def _count_characters(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
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
