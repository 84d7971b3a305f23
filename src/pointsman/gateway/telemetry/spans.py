"""What is told of a live turn: its line in the log, and its calls as spans."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pointsman.errors import NotAuthenticated, PointsmanError
from pointsman.gateway.telemetry.logs import Line
from pointsman.gateway.telemetry.tracing import CallSpan
from pointsman.kernel.instant import Instant
from pointsman.turns.registry import provider_of

if TYPE_CHECKING:
    from pointsman.calls.call_end import CallEnd
    from pointsman.gateway.turns.turn import LiveTurn

_OPERATIONS = {"embeddings": "embeddings", "completions": "text_completion"}


def line_of(
    endpoint: str, status: int, live: LiveTurn | None, at: Instant, failed: PointsmanError | None
) -> Line:
    """Give a request as the log tells it; of an error its code, not its words."""
    code = "" if failed is None else failed.code
    if isinstance(failed, NotAuthenticated):
        code = failed.reason or code
    if live is None:
        return Line(at, endpoint, status, 0, error_class=code)
    end = live.end
    spent = None if end is None else end.spent
    return Line(
        at,
        endpoint,
        status,
        live.elapsed_us,
        live.turn_id,
        live.decision_id,
        live.trace_id,
        live.request.meant.requested,
        live.model,
        live.policy,
        code if end is None else end.error_class or code,
        0 if spent is None else spent.input_tokens,
        0 if spent is None else spent.output_tokens,
        None if spent is None else spent.cost_microusd,
    )


def call_span(live: LiveTurn, end: CallEnd, at: Instant) -> CallSpan:
    """Give a call as a span."""
    spent, ruling = end.spent, live.ruling
    took_ns = (live.out_ns or time.perf_counter_ns()) - (live.called_ns or live.started)
    first_ns = live.first_byte_ns - live.called_ns
    name = provider_of(end.model)
    configured = live.in_force.models.providers.get(name)
    winner = -1 if ruling is None else ruling.outcome.winner_index
    return CallSpan(
        operation=_OPERATIONS.get(live.request.operation, "chat"),
        provider=name if configured is None else configured.kind,
        model=end.model,
        upstream_model=end.model.partition(":")[2],
        requested_model=live.request.meant.requested,
        started_ns=at * 1000 - took_ns,
        ended_ns=at * 1000,
        first_chunk_s=first_ns / 1e9 if end.is_stream and first_ns > 0 else None,
        input_tokens=None if spent is None else spent.input_tokens,
        output_tokens=None if spent is None else spent.output_tokens,
        cached_input_tokens=None if spent is None else spent.cached_input_tokens,
        session_id=live.session_id,
        stop_reason=end.stop_reason,
        error_class=end.error_class,
        status=end.status,
        turn_id=live.turn_id,
        decision_id=live.decision_id,
        policy=live.policy,
        rule="" if ruling is None or winner < 0 else ruling.trace.chain[winner].rule_name or "",
        placement_rule="" if ruling is None else ruling.placing.outcome.rule_id,
        fallback_from=live.fallen_from,
        parent=live.trace,
    )
