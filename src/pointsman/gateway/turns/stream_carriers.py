"""The bytes of one streamed answer on their way: as the provider sends them in, the caller's out.

The beginning of a line is held until its end comes, so the reader has whole events should the
stream break off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pointsman.calls.answering import unreadable
from pointsman.errors import InputError
from pointsman.providers.port import Dialect
from pointsman.providers.registry.dialects import StreamReader, StreamWriter, speaker
from pointsman.providers.streaming import AnswerBroken

HELD_BYTES = 1 << 20
"""How much of a stream may wait: for its first content, or for the end of a line."""

Edit = Callable[[bytes], bytes]


class StreamCarrier(Protocol):
    """Carries one stream."""

    def feed(self, piece: bytes) -> bytes:
        """Take the provider's next bytes; return the caller's."""
        ...

    def finish(self) -> bytes:
        """Return the bytes that close the stream."""
        ...

    def break_off(self, code: str, message: str) -> bytes:
        """Return the error event of a stream that breaks off."""
        ...

    def held_bytes(self) -> bytes:
        """Return the bytes held back."""
        ...


class PassThroughStream:
    """Passes a stream on as it is, line by line."""

    __slots__ = ("_dialect", "_rest")

    def __init__(self, dialect: Dialect) -> None:
        self._dialect: Dialect = dialect
        self._rest = bytearray()

    def feed(self, piece: bytes) -> bytes:
        """Hold the beginning of a line back until its end is there."""
        if not self._rest and piece.endswith(b"\n"):
            return piece
        end = piece.rfind(b"\n") + 1
        if not end and len(self._rest) <= HELD_BYTES:
            self._rest += piece
            return b""
        whole = bytes(self._rest) + piece[:end]
        self._rest = bytearray(piece[end:])
        return whole

    def finish(self) -> bytes:
        """Return the last line, which had no end."""
        return bytes(self._rest)

    def break_off(self, code: str, message: str) -> bytes:
        """Say it in the caller's own dialect."""
        # A blank line first: the last event may lack the one that ends it.
        return b"\n" + speaker(self._dialect).error_event(code, message)

    def held_bytes(self) -> bytes:
        """Return the beginning of a line."""
        return bytes(self._rest)


class TranslatedStream:
    """Turns a stream of one dialect into another's, event by event."""

    __slots__ = ("_name", "_reader", "_writer")

    def __init__(self, name: str, reader: StreamReader, writer: StreamWriter) -> None:
        self._name = name
        self._reader = reader
        self._writer = writer

    def feed(self, piece: bytes) -> bytes:
        """Translate a piece into the caller's dialect."""
        try:
            return b"".join(map(self._writer.write, self._reader.feed(piece)))
        except InputError as error:
            raise unreadable(self._name, error) from error

    def finish(self) -> bytes:
        """Return the bytes that close the stream."""
        return b"".join(map(self._writer.write, self._reader.end()))

    def break_off(self, code: str, message: str) -> bytes:
        """Return the error event of a stream that breaks off."""
        return self._writer.write(AnswerBroken(code, message))

    def held_bytes(self) -> bytes:
        """Hold nothing."""
        return b""


class EditedStream:
    """Carries a stream as another does, and edits its output."""

    __slots__ = ("_edits", "_inner")

    def __init__(self, inner: StreamCarrier, edits: tuple[Edit, ...]) -> None:
        self._inner = inner
        self._edits = edits

    def feed(self, piece: bytes) -> bytes:
        """Return a piece, edited."""
        return self._apply_edits(self._inner.feed(piece))

    def finish(self) -> bytes:
        """Return the bytes that close the stream."""
        return self._apply_edits(self._inner.finish())

    def break_off(self, code: str, message: str) -> bytes:
        """Return the error event of a stream that breaks off."""
        return self._inner.break_off(code, message)

    def held_bytes(self) -> bytes:
        """Return the bytes held back."""
        return self._inner.held_bytes()

    def _apply_edits(self, lines: bytes) -> bytes:
        for edit in self._edits:
            lines = edit(lines)
        return lines
