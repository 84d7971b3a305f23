"""Spans and metrics for OpenTelemetry: GenAI attributes, and `route.*` for the decision.

Imported only where an endpoint is configured; the packages are an extra.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.util.types import AttributeValue

from pointsman.gateway.telemetry.tracing import CallSpan, DecisionSpan, TraceContext
from pointsman.version import VERSION

_STOPS = {"end": "stop", "tool_use": "tool_calls", "max_tokens": "length"}


class OtelTracing:
    """Sends decisions and calls as spans; with a reader, the metrics of calls, too."""

    def __init__(self, processor: SpanProcessor, reader: MetricReader | None = None) -> None:
        resource = Resource.create({"service.name": "pointsman", "service.version": VERSION})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("pointsman", VERSION)
        self._meters = None
        if reader is not None:
            self._meters = MeterProvider([reader], resource, shutdown_on_exit=False)
            self._metrics = _CallMetrics(self._meters)

    def send_decision(self, span: DecisionSpan) -> None:
        """Take a decision that was handed in."""
        told = self._tracer.start_span(
            "route.fallback" if span.kind == "fallback" else "route.decide",
            context=_parent(span.parent),
            kind=SpanKind.INTERNAL,
            attributes=dict(_decision_attributes(span)),
            start_time=span.started_ns,
        )
        if not span.model:
            told.set_status(Status(StatusCode.ERROR, "no model may take this turn"))
        told.end(span.ended_ns)

    def call_ended(self, span: CallSpan) -> None:
        """Take a call that ended."""
        told = self._tracer.start_span(
            f"{span.operation} {span.upstream_model}",
            context=_parent(span.parent),
            kind=SpanKind.CLIENT,
            attributes=dict(attributes(span)),
            start_time=span.started_ns,
        )
        if span.error_class:
            told.set_status(Status(StatusCode.ERROR, span.error_class))
        told.end(span.ended_ns)
        if self._meters is not None:
            self._metrics.record(span)

    def close(self) -> None:
        """Send all pending spans and metrics."""
        self._provider.shutdown()
        if self._meters is not None:
            self._meters.shutdown()


class _CallMetrics:
    """The histograms that the GenAI conventions name for a client."""

    def __init__(self, meters: MeterProvider) -> None:
        meter = meters.get_meter("pointsman", VERSION)
        self._duration = meter.create_histogram("gen_ai.client.operation.duration", "s")
        self._tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}")
        self._first = meter.create_histogram("gen_ai.client.operation.time_to_first_chunk", "s")

    def record(self, span: CallSpan) -> None:
        """Add a call."""
        about: dict[str, AttributeValue] = {
            "gen_ai.operation.name": span.operation,
            "gen_ai.provider.name": span.provider,
            "gen_ai.request.model": span.upstream_model,
        }
        ended = {**about, "error.type": span.error_class} if span.error_class else about
        self._duration.record((span.ended_ns - span.started_ns) / 1e9, ended)
        if span.first_chunk_s is not None:
            self._first.record(span.first_chunk_s, about)
        for kind, tokens in (("input", span.input_tokens), ("output", span.output_tokens)):
            if tokens is not None:
                self._tokens.record(tokens, {**about, "gen_ai.token.type": kind})


def otlp_tracing() -> OtelTracing:
    """Send over HTTP to where the environment says."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - the other half of the extra
        OTLPMetricExporter,
    )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - see above
        OTLPSpanExporter,
    )

    # The variable that every SDK reads: some collectors take traces alone.
    is_metered = os.environ.get("OTEL_METRICS_EXPORTER", "otlp") != "none"
    reader = PeriodicExportingMetricReader(OTLPMetricExporter()) if is_metered else None
    return OtelTracing(BatchSpanProcessor(OTLPSpanExporter()), reader)


def attributes(span: CallSpan) -> Iterator[tuple[str, AttributeValue]]:
    """Return the attributes of a call; unknown ones are left out."""
    yield "gen_ai.operation.name", span.operation
    yield "gen_ai.provider.name", span.provider
    yield "gen_ai.request.model", span.upstream_model
    yield "gen_ai.conversation.id", span.session_id
    if not span.error_class:
        yield "gen_ai.response.model", span.upstream_model
    if span.input_tokens is not None:
        yield "gen_ai.usage.input_tokens", span.input_tokens
    if span.output_tokens is not None:
        yield "gen_ai.usage.output_tokens", span.output_tokens
    if span.cached_input_tokens is not None:
        yield "gen_ai.usage.cache_read.input_tokens", span.cached_input_tokens
    if span.stop_reason:
        reason = _STOPS.get(span.stop_reason, span.stop_reason)
        yield "gen_ai.response.finish_reasons", (reason,)
    if span.first_chunk_s is not None:
        yield "gen_ai.response.time_to_first_chunk", span.first_chunk_s
    if span.error_class:
        yield "error.type", span.error_class
    yield from _route_attributes(span)


def _decision_attributes(span: DecisionSpan) -> Iterator[tuple[str, AttributeValue]]:
    yield "gen_ai.conversation.id", span.session_id
    yield "route.rejected", span.rejected
    told = {
        "turn_id": span.turn_id,
        "decision_id": span.decision_id,
        "policy": span.policy,
        "rule": span.rule,
        "model": span.model,
        "placement_rule": span.placement_rule,
        "placement_gate": span.gate,
        "fallback_from": span.fallback_from,
    }
    yield from ((f"route.{name}", value) for name, value in told.items() if value)


def _route_attributes(span: CallSpan) -> Iterator[tuple[str, AttributeValue]]:
    told = {
        "turn_id": span.turn_id,
        "decision_id": span.decision_id,
        "policy": span.policy,
        "rule": span.rule,
        "requested_model": span.requested_model,
        "model": span.model,
        "placement_rule": span.placement_rule,
        "fallback_from": span.fallback_from,
    }
    yield from ((f"route.{name}", value) for name, value in told.items() if value)


def _parent(parent: TraceContext | None) -> Context | None:
    """Go on in the caller's trace; without one, a new trace begins."""
    if parent is None:
        return Context()
    flags = TraceFlags(TraceFlags.SAMPLED if parent.is_sampled else TraceFlags.DEFAULT)
    context = SpanContext(
        int(parent.trace_id, 16), int(parent.span_id, 16), is_remote=True, trace_flags=flags
    )
    return set_span_in_context(NonRecordingSpan(context), Context())
