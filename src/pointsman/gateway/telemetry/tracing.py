"""Tracing of calls: the caller's trace context, our spans, and the port that sends them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Struct

TRACEPARENT: Final = b"traceparent"
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
    """Read `traceparent`; a malformed one counts as absent."""
    given = headers.get(TRACEPARENT)
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


ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"


class CallSpan(Struct, frozen=True):
    """One call to a provider; times are nanoseconds since 1970. No text of any message."""

    operation: str
    provider: str
    model: str
    upstream_model: str
    requested_model: str
    started_ns: int
    ended_ns: int
    first_chunk_s: float | None
    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None
    session_id: str
    stop_reason: str
    error_class: str
    status: int
    turn_id: str
    decision_id: str
    policy: str
    rule: str
    placement_rule: str
    fallback_from: tuple[str, ...]
    parent: TraceContext | None


class DecisionSpan(Struct, frozen=True):
    """One decision about a turn: its first, or one after a failure. No text of any message."""

    kind: str
    started_ns: int
    ended_ns: int
    session_id: str
    turn_id: str
    decision_id: str
    model: str
    policy: str
    rule: str
    placement_rule: str
    gate: str
    rejected: int
    fallback_from: tuple[str, ...]
    parent: TraceContext | None


class Tracing(Protocol):
    """Where spans go."""

    def send_decision(self, span: DecisionSpan) -> None:
        """Take a decision that was handed in. Does not wait."""
        ...

    def call_ended(self, span: CallSpan) -> None:
        """Take a call that ended. Does not wait."""
        ...

    def close(self) -> None:
        """Send all pending spans."""
        ...


def open_tracing(environ: Mapping[str, str] = os.environ) -> Tracing | None:
    """Open the tracing that the environment asks for, if its packages are installed."""
    if not environ.get(ENDPOINT):
        return None
    try:
        from pointsman.gateway.telemetry.otel import otlp_tracing  # noqa: PLC0415 - an extra, and slow to load
    except ImportError:
        return None
    return otlp_tracing()
