"""Amazon's binary event stream, turned into events of text as they come. No sockets.

Everything above reads text: reading along, cutting, translating work as for any other provider.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Final

EVENT_STREAM: Final = "application/vnd.amazon.eventstream"

_PRELUDE: Final = struct.Struct(">III")
_CHECKSUM: Final = struct.Struct(">I")
_SHORTEST: Final = _PRELUDE.size + _CHECKSUM.size
_LONGEST: Final = 24 * 1024 * 1024
_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value by its type; 6 and 7 have their length in front."""
_TEXT: Final = 7


class BadFrame(Exception):
    """the event stream is not as it should be"""


class EventStreamDecoder:
    """Reads frames, cut in any way; gives each as `data: {"type": payload}`."""

    __slots__ = ("_request_id", "_rest")

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id
        self._rest = b""

    @property
    def is_within(self) -> bool:
        """Tell whether a frame has begun that is not whole."""
        return bool(self._rest)

    def feed(self, data: bytes) -> bytes:
        """Take more bytes and return the text of the frames they complete; raises `BadFrame`."""
        data = self._rest + data
        at, found = 0, list[bytes]()
        while len(data) - at >= _PRELUDE.size:
            size = _frame_size(data, at)
            if len(data) - at < size:
                break
            found.append(self._event(data[at : at + size]))
            at += size
        self._rest = data[at:]
        return b"".join(found)

    def _event(self, frame: bytes) -> bytes:
        if zlib.crc32(frame[: -_CHECKSUM.size]) != _CHECKSUM.unpack(frame[-_CHECKSUM.size :])[0]:
            raise BadFrame("a checksum does not fit its event")
        _, header_size, _ = _PRELUDE.unpack_from(frame)
        headers = _headers(frame[_PRELUDE.size : _PRELUDE.size + header_size])
        payload = frame[_PRELUDE.size + header_size : -_CHECKSUM.size]
        kind = headers.get(":message-type", "event")
        if kind == "exception":
            return _error(headers.get(":exception-type", ""), _message(payload))
        if kind == "error":
            return _error(headers.get(":error-code", ""), headers.get(":error-message", ""))
        name = headers.get(":event-type", "")
        more = b""
        if name == "messageStart" and self._request_id:
            # Answers have no id of their own here.
            more = b',"requestId":' + json.dumps(self._request_id).encode()
        return b"data: {%b:%b%b}\n\n" % (json.dumps(name).encode(), payload or b"{}", more)


def _frame_size(data: bytes, at: int) -> int:
    size, header_size, checksum = _PRELUDE.unpack_from(data, at)
    if zlib.crc32(data[at : at + 8]) != checksum:
        raise BadFrame("a checksum does not fit its lengths")
    if not _SHORTEST + header_size <= size <= _LONGEST:
        raise BadFrame("an event has a length that cannot be")
    return int(size)


def _headers(data: bytes) -> dict[str, str]:
    """Return the headers that are texts."""
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            end = at + 1 + data[at]
            name, kind = data[at + 1 : end].decode(), data[end]
            at = end + 1
            size = _SIZES.get(kind)
            if size is None:
                (size,) = struct.unpack_from(">H", data, at)
                at += 2
            if kind == _TEXT:
                found[name] = data[at : at + size].decode()
            at += size
    except (IndexError, struct.error, UnicodeDecodeError):
        raise BadFrame("the headers of an event cannot be read") from None
    return found


def _message(payload: bytes) -> str:
    try:
        value: object = json.loads(payload)
    except ValueError:
        return ""
    told = value.get("message", value.get("originalMessage")) if isinstance(value, dict) else ""
    return told if isinstance(told, str) else ""


def _error(code: str, message: str) -> bytes:
    body = {"error": {"type": code[:1].upper() + code[1:], "message": message}}
    return b"data: %b\n\n" % json.dumps(body).encode()
