"""From the bytes of a file to text: which encoding, or that it is no text at all."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from typing import Final

PIECE = 64 * 1024

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SIGNATURES: Final = (
    (b"\x89PNG\r\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"RIFF", "sound or a picture"),
)


def encoding_of(start: bytes) -> str | None:
    """Tell the encoding of a text by its first bytes; None when they are no text."""
    for mark, name in _MARKS:
        if start.startswith(mark):
            return name
    if b"\0" in start or start.startswith(b"%PDF-"):
        return None
    try:
        # A character may be cut where the first piece ends.
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def looks_like(start: bytes) -> str:
    """Name what a file that is no text seems to be."""
    return next((name for mark, name in _SIGNATURES if start.startswith(mark)), "a binary file")


def texts(descriptor: int, encoding: str, start: bytes) -> Iterator[str]:
    """Give the text of a file piece by piece; bytes that are no text become `\\ufffd`."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    piece = start
    while piece:
        yield decoder.decode(piece)
        piece = os.read(descriptor, PIECE)
    yield decoder.decode(b"", final=True)
