"""W3C trace context: which trace a request belongs to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

_TRACEPARENT: Final = re.compile(
    rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
_NO_TRACE: Final = b"0" * 32
_NO_SPAN: Final = b"0" * 16


class TraceContext(Struct, frozen=True):
    """The caller's trace, its span that called us, and whether it is sampled."""

    trace_id: str
    span_id: str
    is_sampled: bool


def trace_context(headers: Mapping[bytes, bytes]) -> TraceContext | None:
    """Read `traceparent`; what is not well-formed is as good as absent."""
    given = headers.get(b"traceparent")
    if given is None:
        return None
    found = _TRACEPARENT.fullmatch(given.strip())
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    # Version 00 has exactly four parts; later ones may add some, and ff is none.
    if version == b"ff" or (version == b"00" and more) or trace == _NO_TRACE or span == _NO_SPAN:
        return None
    return TraceContext(trace.decode(), span.decode(), bool(int(flags, 16) & 1))
