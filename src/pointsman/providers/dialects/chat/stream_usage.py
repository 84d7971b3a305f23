"""Asking what a streamed answer used, for a caller who did not ask for it.

The provider tells it in one chunk more, which is taken out again; every other byte passes as it is.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.providers.dialects.spans import members, replace_span

_OPTIONS = "stream_options"
_OPTION = "include_usage"
_NOT_ASKED = (b"false", b"null")
_TIGHT, _SPACED = b'"usage":{', b'"usage": {'
"""The marks of a line that may tell a usage."""
_LINE_END = re.compile(rb"\r\n?|\n")
_BLANK = (b"\n", b"\r\n")
_BLANK_AT_END = (b"\n\n", b"\n\r\n")


class _Chunk(Struct):
    choices: list[Raw] | None = None
    usage: dict[str, Raw] | None = None
    error: object = None


_CHUNK = msgspec.json.Decoder(_Chunk)


def asking_usage(body: bytes, options: Raw | None) -> bytes:
    """Return a request that asks for its stream's usage; the same body where it asks already.

    `options` are the `stream_options` in it. Options that the vendor would refuse
    stay as they are: the vendor refuses them.
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
        return replace_span(body, span, {_OPTION: True})
    found = members(body, span, _OPTIONS)
    flag = found.spans.get(_OPTION)
    if flag is None:
        option = b'"include_usage":true' + (b"," if found.spans else b"")
        return body[: found.start] + option + body[found.start :]
    return replace_span(body, flag, value=True) if body[slice(*flag)] in _NOT_ASKED else body


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
        kept: list[bytes] = []
        start = self._after_blank(lines, 0)
        mark = _find_mark(lines, start)
        while mark >= 0:
            # Only a line with a mark is looked at: a stream has hundreds of others.
            ends = (lines.rfind(b"\n", start, mark), lines.rfind(b"\r", start, mark), start - 1)
            begin, line_end = max(ends) + 1, _LINE_END.search(lines, mark)
            end = line_end.end() if line_end else len(lines)
            if _only_tells_usage(lines[begin:end]):
                self._keep(lines[start:begin], kept)
                # Beside other fields of its event the line goes alone: no data, so no event.
                self._takes_blank = self._is_between
                start = end = self._after_blank(lines, end)
            mark = _find_mark(lines, end)
        if not start:
            self._keep(lines, kept)
            return lines
        self._keep(lines[start:], kept)
        return b"".join(kept)

    def _after_blank(self, lines: bytes, start: int) -> int:
        """Return where the lines go on after the blank line that ends a chunk taken out."""
        if not self._takes_blank or start == len(lines):
            return start
        self._takes_blank = False
        return start + next((len(blank) for blank in _BLANK if lines.startswith(blank, start)), 0)

    def _keep(self, lines: bytes, kept: list[bytes]) -> None:
        if lines:
            self._is_between = lines in _BLANK or lines.endswith(_BLANK_AT_END)
            kept.append(lines)


def _find_mark(lines: bytes, start: int) -> int:
    """Return the place of the next mark of a usage; -1 where there is none."""
    tight, spaced = lines.find(_TIGHT, start), lines.find(_SPACED, start)
    return spaced if tight < 0 or 0 <= spaced < tight else tight


def _only_tells_usage(line: bytes) -> bool:
    if not line.startswith(b"data:"):
        return False
    try:
        chunk = _CHUNK.decode(line[5:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return chunk.usage is not None and not chunk.choices and chunk.error is None
