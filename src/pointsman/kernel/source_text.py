"""From bytes to text: size, encoding, and the line and column of an offset. Knows no format."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NoReturn

from pointsman.errors import DocumentError, Place, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import START, DocumentLimits, Position

_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_LINE_END = re.compile(r"\r\n|\r|\n")


class Lines:
    """Line and column of each offset of one text. `\\n`, `\\r\\n` and `\\r` end a line."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def position(self, offset: int) -> Position:
        """Return the line and column of the character at `offset`."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def decode(text: bytes, source: str, limits: DocumentLimits) -> str:
    """Return the text of UTF-8 bytes within the size limit; raise `DocumentError` otherwise."""
    if len(text) > limits.bytes:
        _fail(source, START, Code.TOO_LARGE, too_large(limits.bytes), "split the file")
    if text.startswith(_BYTE_ORDER_MARKS):
        hint = "save the file as UTF-8 without a byte order mark"
        _fail(source, START, Code.ENCODING, "the text starts with a byte order mark", hint)
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        before = text[: error.start].decode("utf-8")
        message = f"byte `0x{text[error.start]:02x}` is not valid UTF-8"
        position = Lines(before).position(len(before))
        _fail(source, position, Code.ENCODING, message, "save the file as UTF-8")


def too_large(most: int) -> str:
    """Return the message for a text of more than `most` bytes."""
    return f"the text is larger than {most} bytes"


def joined_surrogates(text: str) -> str | None:
    """Return text with escaped surrogate pairs made one character; None when one stands alone."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        return None


def _fail(source: str, position: Position, code: Code, message: str, hint: str) -> NoReturn:
    raise DocumentError((Problem(Place(source, *position), code, message, hint),)) from None
