"""What is told of a live turn: its line in the log, and its calls as spans."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pointsman.errors import NotAuthenticated, PointsmanError
from pointsman.gateway.telemetry.logs import Line
from pointsman.gateway.telemetry.trace_context import TraceContext
from pointsman.gateway.telemetry.tracing import CallSpan
from pointsman.kernel.instant import Instant
from pointsman.turns.registry.models import provider_of

if TYPE_CHECKING:
    from pointsman.calls.model_call import ModelCall
    from pointsman.calls.services import CallEnd
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


def call_span(call: ModelCall, end: CallEnd, at: Instant) -> CallSpan:
    """Return a call as a span."""
    spent, order, about = end.spent, call.order, call.context
    took_ns = (call.out_ns or time.perf_counter_ns()) - (call.called_ns or order.started_ns)
    first_ns = call.first_byte_ns - call.called_ns
    name = provider_of(end.model)
    configured = order.in_force.models.providers.get(name)
    return CallSpan(
        operation=_OPERATIONS.get(about.operation, "chat"),
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
