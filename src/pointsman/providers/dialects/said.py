"""The text of an answer, found in its bytes without taking them apart: to estimate its tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from pointsman.providers.port import Dialect

_VALUE: Final = rb'"\s*:\s*("(?:[^"\\]|\\.)*")'
_STREAMED: Final[Mapping[Dialect, re.Pattern[bytes]]] = {
    "chat": re.compile(
        rb'"(?:content|text|reasoning_content|reasoning|refusal|arguments)' + _VALUE, re.DOTALL
    ),
    "messages": re.compile(rb'"(?:text|partial_json|thinking)' + _VALUE, re.DOTALL),
    # The end of such a stream repeats all of it; the deltas have it once.
    "responses": re.compile(rb'"delta' + _VALUE, re.DOTALL),
}
_WHOLE: Final[Mapping[Dialect, re.Pattern[bytes]]] = {
    **_STREAMED,
    "responses": re.compile(rb'"(?:text|arguments|refusal)' + _VALUE, re.DOTALL),
}


def said_in_stream(dialect: Dialect, data: bytes) -> str:
    """Return the words in the bytes of a stream."""
    return _texts(_STREAMED[dialect], data)


def said_in_answer(dialect: Dialect, body: bytes) -> str:
    """Return the words in a whole answer."""
    return _texts(_WHOLE[dialect], body)


def _texts(pattern: re.Pattern[bytes], data: bytes) -> str:
    return "".join(_decoded(found) for found in pattern.findall(data))


def _decoded(literal: bytes) -> str:
    try:
        return msgspec.json.decode(literal, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return literal[1:-1].decode("utf-8", "replace")
