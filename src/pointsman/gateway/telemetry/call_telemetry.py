"""Counts and spans of a turn: its rulings, and the ends of its calls."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pointsman.gateway.telemetry.metrics import GatewayMetrics
from pointsman.gateway.telemetry.tracing import CallSpan, TraceContext
from pointsman.kernel.instant import Instant
from pointsman.recording.ruling import Ruling
from pointsman.turns.registry.models import provider_of

if TYPE_CHECKING:
    from pointsman.calls.call_end import CallEnd
    from pointsman.calls.model_call import ModelCall
    from pointsman.gateway.telemetry.tracing import Tracing
    from pointsman.turns.trace import Evaluation, ValidationFailure


def count_ruling(metrics: GatewayMetrics, ruling: Ruling, winner: Evaluation | None) -> None:
    """Count the chosen model and slot, the rejected candidates, and turns that had to stay here."""
    if winner is not None:
        metrics.count_decision(ruling.outcome.chosen_model, winner.policy)
    for each in ruling.trace.chain:
        if each.rule_attempts:
            # Also those before the rule that won.
            for attempt in each.rule_attempts:
                _count_rejection(metrics, attempt.validation_failure)
        elif each.validation_failure is not None and each.verdict == "rejected":
            _count_rejection(metrics, each.validation_failure)
    outcome = ruling.placing.outcome
    if outcome.gate == "local":
        metrics.count("pointsman_privacy_local_total", (("rule", outcome.rule_id),))


def _count_rejection(metrics: GatewayMetrics, failure: ValidationFailure) -> None:
    metrics.count("pointsman_rejections_total", (("reason", failure),))


class CallTelemetry:
    """The one listener of a gateway's calls: counts them, and tells of them as spans."""

    def __init__(self, metrics: GatewayMetrics, tracing: Tracing | None) -> None:
        self._metrics = metrics
        self.tracing = tracing

    def call_ended(self, call: ModelCall, end: CallEnd, at: Instant) -> None:
        """Count how a call ended, how long it took, and its usage."""
        metrics = self._metrics
        counted = metrics.of_model(end.model)
        if not end.attempts:
            metrics.count("pointsman_refused_calls_total", (("model", end.model),))
            return
        if end.error_class:
            failed = (("model", end.model), ("result", end.error_class))
            metrics.count("pointsman_upstream_requests_total", failed)
        else:
            counted.done.value += 1
        overhead_ns = call.context.overhead_ns
        if overhead_ns is not None:
            metrics.overhead.observe(overhead_ns / 1e9)
            counted.request.observe(end.elapsed_us / 1e6)
            if end.is_stream:
                labels = (("model", end.model),)
                metrics.observe("pointsman_first_byte_seconds", labels, end.first_byte_us / 1e6)
        spent = end.spent
        if spent is not None:
            counted.input.value += spent.input_tokens
            counted.output.value += spent.output_tokens
            counted.cost.value += spent.cost_microusd or 0
        if self.tracing is not None:
            self.tracing.call_ended(call_span(call, end, at))

    def absurd_charge(self, _call: ModelCall, end: CallEnd) -> None:
        """Count a bill that is out of all proportion."""
        self._metrics.count("pointsman_absurd_charges_total", (("model", end.model),))


_OPERATIONS = {"embeddings": "embeddings", "completions": "text_completion"}


def call_span(call: ModelCall, end: CallEnd, at: Instant) -> CallSpan:
    """Return a call as a span."""
    spent, order, about = end.spent, call.order, call.context
    took_ns = (call.out_ns or time.perf_counter_ns()) - (call.called_ns or order.started_ns)
    first_ns = call.first_byte_ns - call.called_ns
    name = provider_of(end.model)
    configured = order.in_force.models.providers.get(name)
    return CallSpan(
        operation=_OPERATIONS.get(about.operation, about.operation or "chat"),
        provider=name if configured is None else configured.kind,
        model=end.model,
        upstream_model=end.model.partition(":")[2],
        requested_model=about.requested_model,
        started_ns=at * 1000 - took_ns,
        ended_ns=at * 1000,
        first_chunk_s=first_ns / 1e9 if end.is_stream and first_ns > 0 else None,
        input_tokens=None if spent is None else spent.input_tokens,
        output_tokens=None if spent is None else spent.output_tokens,
        cached_input_tokens=None if spent is None else spent.cached_input_tokens,
        session_id=about.session_id,
        stop_reason=end.stop_reason,
        error_class=end.error_class,
        status=end.status,
        turn_id=about.turn_id,
        decision_id=order.decision_id,
        policy=about.policy,
        rule=about.rule,
        placement_rule=about.placement_rule,
        fallback_from=about.fallen_from,
        parent=about.trace if isinstance(about.trace, TraceContext) else None,
    )
