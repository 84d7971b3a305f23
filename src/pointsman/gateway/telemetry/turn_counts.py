"""What `/metrics` counts of a turn: its rulings, and the ends of its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointsman.gateway.telemetry.metrics import Metrics
from pointsman.recording.ruling import Ruling

if TYPE_CHECKING:
    from pointsman.calls.call_end import CallEnd
    from pointsman.gateway.turns.turn import LiveTurn
    from pointsman.turns.trace import Evaluation, ValidationFailure


def count_ruling(metrics: Metrics, ruling: Ruling, winner: Evaluation | None) -> None:
    """Count who was chosen by which slot, who was rejected and why, and what had to stay here."""
    if winner is not None:
        metrics.decided(ruling.outcome.chosen_model, winner.policy)
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


def _count_rejection(metrics: Metrics, failure: ValidationFailure) -> None:
    metrics.count("pointsman_rejections_total", (("reason", failure),))


def count_end(live: LiveTurn, end: CallEnd) -> None:
    """Count how a call ended, how long it took, and what it used."""
    metrics = live.parts.metrics
    counted = metrics.of_model(end.model)
    if end.error_class:
        failed = (("model", end.model), ("result", end.error_class))
        metrics.count("pointsman_upstream_requests_total", failed)
    else:
        counted.done.value += 1
    counted.request.observe(end.elapsed_us / 1e6)
    if live.first_byte_ns:
        own_ns = live.first_byte_ns - live.started - live.upstream_ns
        metrics.overhead.observe(own_ns / 1e9 if own_ns > 0 else 0.0)
        if end.is_stream:
            labels = (("model", end.model),)
            metrics.observe("pointsman_first_byte_seconds", labels, end.first_byte_us / 1e6)
    spent = end.spent
    if spent is None:
        return
    live.parts.health.used(end.model, spent.output_tokens)
    counted.input.value += spent.input_tokens
    counted.output.value += spent.output_tokens
    counted.cost.value += spent.cost_microusd or 0
