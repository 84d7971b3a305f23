"""`read_file`: a text file of the workspace, whole or by its lines."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from pointsman.kernel.document import escape
from pointsman.sessions.tool import ToolDefinition
from pointsman.sessions.tools.excerpt import Excerpt
from pointsman.sessions.tools.failure import CallFailed, invalid_input
from pointsman.sessions.tools.schema import Field, object_schema
from pointsman.sessions.tools.stop import Stop
from pointsman.sessions.tools.workspace import WorkspaceFolder

READ_FILE = ToolDefinition(
    "read_file",
    "Read a text file of the workspace. Long files come as their beginning and their end with the "
    "middle left out: ask for the lines you need.",
    object_schema(
        Field("path", "string", "path relative to the workspace", required=True),
        Field("start_line", "integer", "first line wanted, counted from 1"),
        Field("end_line", "integer", "last line wanted, included"),
    ),
    "read",
)


class ReadInput(Struct, frozen=True):
    """The input of `read_file`."""

    path: str
    start_line: int | None = None
    end_line: int | None = None


class LineRange(NamedTuple):
    """Which lines of a text are wanted, counted from 1; `last` is None for all that follow."""

    first: int = 1
    last: int | None = None


def read_file(workspace: WorkspaceFolder, asked: ReadInput, stop: Stop) -> str:
    """Return a file's text; a part of its lines under a line that says which they are."""
    lines = _lines(asked)
    with workspace.file(asked.path) as descriptor:
        start = os.read(descriptor, PIECE)
        encoding = encoding_of(start)
        if encoding is None:
            raise _not_text(asked.path, start, os.fstat(descriptor).st_size)
        pieces = stop.iterate(texts(descriptor, encoding, start))
        excerpt = Excerpt()
        if lines is None:
            for piece in pieces:
                excerpt.write(piece)
            return _note(encoding) + excerpt.text()
        last = _write_lines(excerpt, pieces, lines)
    if last < lines.first:
        raise invalid_input(f"`{escape(asked.path, 200)}` has only {last} lines")
    return f"[lines {lines.first} to {last}]\n" + _note(encoding) + excerpt.text()


def _lines(asked: ReadInput) -> LineRange | None:
    if asked.start_line is None and asked.end_line is None:
        return None
    first = 1 if asked.start_line is None else asked.start_line
    if first < 1:
        raise invalid_input("`start_line` counts from 1")
    if asked.end_line is not None and asked.end_line < first:
        raise invalid_input(f"`end_line` {asked.end_line} lies before `start_line` {first}")
    return LineRange(first, asked.end_line)


def _write_lines(excerpt: Excerpt, pieces: Iterable[str], lines: LineRange) -> int:
    """Write the wanted lines; return the number of the last line that was read."""
    number, is_begun = 1, False
    for piece in pieces:
        for text in _parts(piece):
            if number >= lines.first:
                excerpt.write(text)
            is_begun = not text.endswith("\n")
            number += not is_begun
            if number - 1 == lines.last:
                return number - 1
    return number if is_begun else number - 1


def _parts(piece: str) -> Iterator[str]:
    """Cut a piece behind each line end. `splitlines` would cut at characters that end no line."""
    at = 0
    while at < len(piece):
        end = piece.find("\n", at) + 1 or len(piece)
        yield piece[at:end]
        at = end


def _not_text(path: str, start: bytes, size: int) -> CallFailed:
    message = f"`{escape(path, 200)}` is {looks_like(start)} of {size} bytes, not text"
    return CallFailed("execution_error", message)


def _note(encoding: str) -> str:
    return "" if encoding in ("utf-8", "utf-8-sig") else f"[not UTF-8, read as {encoding}]\n"


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
    """Return the encoding of a text by its first bytes; None when they are no text."""
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
    """Return the kind of a file that is no text."""
    return next((name for mark, name in _SIGNATURES if start.startswith(mark)), "a binary file")


def texts(descriptor: int, encoding: str, start: bytes) -> Iterator[str]:
    """Yield the text of a file piece by piece; bytes that are no text become `\\ufffd`."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    piece = start
    while piece:
        yield decoder.decode(piece)
        piece = os.read(descriptor, PIECE)
    yield decoder.decode(b"", final=True)
