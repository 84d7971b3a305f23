"""Server-sent events, read from any split of their bytes and written as the vendors write them."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pointsman.errors import InputError

MAX_EVENT_BYTES = 16 * 1024 * 1024


class ServerEvent(Struct, frozen=True):
    """One event: its name, empty when it has none, and the bytes of its data lines."""

    name: str
    data: bytes


class EventReader:
    """Collects bytes into events. Lines end with LF, CRLF or CR; comments are passed over."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._pieces: list[bytes] = []
        self._size = 0
        self._name = ""
        self._data: list[bytes] = []
        self._is_after_return = False
        self._is_first = True

    def feed(self, data: bytes) -> list[ServerEvent]:
        """Take more bytes and give the events they complete."""
        if self._is_after_return and data:
            # The LF of a CRLF that was cut in two belongs to the line before it.
            data = data.removeprefix(b"\n")
            self._is_after_return = False
        if not data:
            return []
        lines = data.splitlines(keepends=True)
        last = b"" if lines and lines[-1].endswith((b"\n", b"\r")) else lines.pop()
        self._is_after_return = not last and data.endswith(b"\r")
        events: list[ServerEvent] = []
        for line in lines:
            self._take(line.rstrip(b"\r\n"), len(line), events)
        if last:
            self._keep(last)
        return events

    def _keep(self, piece: bytes) -> None:
        self._grow(len(piece))
        self._pieces.append(piece)

    def _take(self, line: bytes, size: int, events: list[ServerEvent]) -> None:
        if self._pieces:
            line = b"".join((*self._pieces, line))
            self._pieces.clear()
        self._grow(size)
        if self._is_first:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._is_first = False
        if not line:
            self._dispatch(events)
        else:
            self._field(line)

    def _field(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")

    def _dispatch(self, events: list[ServerEvent]) -> None:
        if self._data:
            events.append(ServerEvent(self._name, b"\n".join(self._data)))
        self._name = ""
        self._data.clear()
        self._size = 0

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self._max_event_bytes:
            raise InputError(f"an event of the stream is larger than {self._max_event_bytes} bytes")


def named_event(name: str, value: object) -> bytes:
    """Write an event with its name, as Anthropic and the responses of OpenAI do."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"


def data_event(value: object) -> bytes:
    """Write an event without a name, as the chat completions of OpenAI do."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


DONE = b"data: [DONE]\n\n"
