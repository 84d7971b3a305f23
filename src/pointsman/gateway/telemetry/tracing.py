"""Telling a tracing system about calls: what is told, and the port behind which it is sent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Struct

from pointsman.gateway.telemetry.trace_context import TraceContext

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


class Tracing(Protocol):
    """Where spans go."""

    def call_ended(self, span: CallSpan) -> None:
        """Take a call that ended. Does not wait."""
        ...

    def close(self) -> None:
        """Send what was taken."""
        ...


def opened_tracing(environ: Mapping[str, str] = os.environ) -> Tracing | None:
    """Give the tracing that the environment asks for, if what it needs is installed."""
    if not environ.get(ENDPOINT):
        return None
    try:
        from pointsman.gateway.telemetry.otel import otlp_tracing  # noqa: PLC0415 - an extra, and slow to load
    except ImportError:
        return None
    return otlp_tracing()
