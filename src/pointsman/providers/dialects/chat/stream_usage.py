"""Asking what a streamed answer used, for a caller who did not ask for it.

The provider tells it in one chunk more, which is taken out again; every other byte passes as it is.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.providers.dialects.spans import members, replaced

_OPTIONS = "stream_options"
_OPTION = "include_usage"
_NOT_ASKED = (b"false", b"null")
_MARKS = (b'"usage":{', b'"usage": {')
_BLANK = (b"\n", b"\r\n")
_BLANK_AT_END = (b"\n\n", b"\n\r\n")


class _Chunk(Struct):
    choices: list[Raw] | None = None
    usage: dict[str, Raw] | None = None
    error: object = None


_CHUNK = msgspec.json.Decoder(_Chunk)


def asking_usage(body: bytes, options: Raw | None) -> bytes:
    """Give a request that asks what its stream uses; the body itself where it asks already.

    `options` are the `stream_options` in it. What the vendor would refuse there stays as it is, so
    that it is the vendor who refuses it.
    """
    if options is None:
        end = body.rindex(b"}")
        return body[:end] + b',"stream_options":{"include_usage":true}' + body[end:]
    try:
        return _with_option(body, bytes(options))
    except InputError:
        return body


def _with_option(body: bytes, options: bytes) -> bytes:
    span = members(body).spans[_OPTIONS]
    if options == b"null":
        return replaced(body, span, {_OPTION: True})
    found = members(body, span, _OPTIONS)
    flag = found.spans.get(_OPTION)
    if flag is None:
        option = b'"include_usage":true' + (b"," if found.spans else b"")
        return body[: found.start] + option + body[found.start :]
    return replaced(body, flag, value=True) if body[slice(*flag)] in _NOT_ASKED else body


class UnaskedUsage:
    """Takes the chunk that only tells the usage out of a stream."""

    __slots__ = ("_is_between", "_takes_blank")

    def __init__(self) -> None:
        self._is_between = True
        """Whether the last line ended an event."""
        self._takes_blank = False
        """Whether the blank line that ends the chunk is still to come."""

    def without(self, lines: bytes) -> bytes:
        """Take the next whole lines, and give those that the caller is to see."""
        if self._takes_blank or any(mark in lines for mark in _MARKS):
            return b"".join([line for line in lines.splitlines(keepends=True) if self._keeps(line)])
        if lines:
            self._is_between = lines in _BLANK or lines.endswith(_BLANK_AT_END)
        return lines

    def _keeps(self, line: bytes) -> bool:
        is_blank = line in _BLANK
        if self._takes_blank:
            self._takes_blank = False
            if is_blank:
                return False
        if _only_tells_usage(line):
            # Beside other fields of its event the line goes alone: no data, so no event is told.
            self._takes_blank = self._is_between
            return False
        self._is_between = is_blank
        return True


def _only_tells_usage(line: bytes) -> bool:
    if not line.startswith(b"data:") or not any(mark in line for mark in _MARKS):
        return False
    try:
        chunk = _CHUNK.decode(line[5:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return chunk.usage is not None and not chunk.choices and chunk.error is None
