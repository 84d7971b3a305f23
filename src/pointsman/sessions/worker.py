"""A worker: a session of its own with one task; its planner gets the result. 002 §6."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw, Struct

from pointsman.calls.flow import Record
from pointsman.sessions import effects
from pointsman.sessions.delegate_call import (
    DelegateResult,
    Delegation,
    UsageSummary,
    context_mode,
    included_items,
    output_validator,
)
from pointsman.sessions.effects import Steps
from pointsman.sessions.events.delegation import (
    DelegateCompleted,
    DelegateFailed,
    DelegateStarted,
    FailureMode,
)
from pointsman.sessions.events.session import Disposition, SessionCreated, SessionEnded
from pointsman.sessions.turn import TurnEnd, TurnPlan
from pointsman.sessions.turn_flow import run_turn

_FENCE: Final = "```"


class WorkerOrder(Struct, frozen=True):
    """One worker before it begins: its turn, and the facts its planner is told."""

    delegation: Delegation
    turn: TurnPlan
    created: SessionCreated
    task_tokens: int
    dropped_tools: tuple[str, ...]


class _Verdict(Struct, frozen=True):
    mode: FailureMode | None
    error: str | None
    output: str | Raw


def run_worker(order: WorkerOrder) -> Steps[DelegateResult]:
    """Run a worker and report its result to its planner."""
    created = yield from effects.tell(order.created)
    end = yield from _run(order)
    verdict = _judge(order, end)
    result = DelegateResult(
        success=verdict.mode is None,
        output=verdict.output,
        error=verdict.error,
        usage_summary=_summary(end),
        worker_session_id=order.turn.session_id,
        failure_mode=verdict.mode,
    )
    yield from effects.tell(_ended_event(end), created)
    told = (
        _completed_event(order, end, result)
        if result.success
        else _failed_event(order, end, verdict)
    )
    yield from effects.tell(told, order.delegation.parent, to_parent=True)
    return result


def _run(order: WorkerOrder) -> Steps[TurnEnd]:
    """Run the worker's turn; once it is routed, record in the planner's session that it began."""
    turn = run_turn(order.turn)
    answer: object = None
    while True:
        try:
            effect = turn.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return] # the turn's result
        answer = yield effect
        if isinstance(effect, Record) and effect.kind == "turn" and effect.ruling.model:
            started = _started_event(order, effect.ruling.model)
            yield from effects.tell(started, order.delegation.parent, to_parent=True)


def _judge(order: WorkerOrder, end: TurnEnd) -> _Verdict:
    """Return whether a worker did its task, and if not, in which of the document's ways."""
    if end.status == "no_model":
        mode: FailureMode = "no_model_available_for_tier"
        return _Verdict(mode, mode, "")
    if end.status == "cancelled":
        mode = "timeout" if end.cancelled_by == "timeout" else "cancelled_by_user"
        return _Verdict(mode, mode, end.text)
    if end.context_request is not None:
        wanted = Raw(msgspec.json.encode(end.context_request))
        return _Verdict("insufficient_context", "insufficient_context", wanted)
    if end.stop_reason == "max_tokens":
        return _Verdict("max_tokens_exceeded", "max_tokens_exceeded", end.text)
    if end.status != "completed" or end.stop_reason not in {"end_turn", "stop_sequence"}:
        message = end.error or f"the turn ended with {end.stop_reason}"
        return _Verdict("worker_error", f"worker_error: {message}", end.text)
    return _check_schema(order, end)


def _check_schema(order: WorkerOrder, end: TurnEnd) -> _Verdict:
    schema = order.delegation.given.output_schema
    if schema is None:
        return _Verdict(None, None, end.text)
    validator = output_validator(schema)
    for text in _candidates(end.text):
        try:
            value = msgspec.json.decode(text)
        except msgspec.MsgspecError:
            continue
        if validator.is_valid(value):
            return _Verdict(None, None, Raw(text.encode()))
    failed: FailureMode = "output_schema_validation_failed"
    return _Verdict(failed, failed, end.text)


def _candidates(text: str) -> Iterator[str]:
    """Yield the answer, and the inside of a fenced block that is all of it."""
    bare = text.strip()
    yield bare
    if bare.startswith(_FENCE) and bare.endswith(_FENCE) and bare.count(_FENCE) == 2:
        yield bare.partition("\n")[2].removesuffix(_FENCE).strip()


def _started_event(order: WorkerOrder, model: str) -> DelegateStarted:
    given = order.delegation.given
    return DelegateStarted(
        tool_use_id=order.delegation.use.id,
        worker_session_id=order.turn.session_id,
        tier=given.tier,
        resolved_model=model,
        context_mode=context_mode(given.context),
        context_reference_count=len(included_items(given.context)),
        task_size_tokens=order.task_tokens,
        allowed_tool_count=len(order.turn.tools) - 1,
        dropped_tools=order.dropped_tools,
    )


def _completed_event(order: WorkerOrder, end: TurnEnd, result: DelegateResult) -> DelegateCompleted:
    output = result.output
    size = len(output.encode("utf-8", "surrogatepass") if isinstance(output, str) else output)
    return DelegateCompleted(
        tool_use_id=order.delegation.use.id,
        worker_session_id=order.turn.session_id,
        success=True,
        output_size_bytes=size,
        worker_total_cost_usd=end.tally.cost_usd,
        pricing_version=end.tally.pricing_version,
        turn_count=1,
        llm_call_count=end.tally.llm_calls,
        tool_call_count=end.tally.tool_calls,
        wall_time_seconds=end.tally.wall_seconds,
        model=end.model,
    )


def _failed_event(order: WorkerOrder, end: TurnEnd, verdict: _Verdict) -> DelegateFailed:
    wanted = None
    if end.context_request is not None:
        wanted = msgspec.json.encode(end.context_request).decode()
    return DelegateFailed(
        tool_use_id=order.delegation.use.id,
        worker_session_id=order.turn.session_id,
        failure_mode=verdict.mode or "worker_error",
        error_message=verdict.error or "",
        worker_total_cost_usd=end.tally.cost_usd,
        pricing_version=end.tally.pricing_version,
        insufficient_context_request=wanted,
    )


def _summary(end: TurnEnd) -> UsageSummary:
    tally = end.tally
    return UsageSummary(
        model=end.model,
        turn_count=0 if end.status == "no_model" else 1,
        input_tokens=tally.input_tokens,
        output_tokens=tally.output_tokens,
        cost_usd=tally.cost_usd,
        wall_time_seconds=tally.wall_seconds,
        tool_call_count=tally.tool_calls,
    )


def _ended_event(end: TurnEnd) -> SessionEnded:
    disposition: Disposition = "completed" if end.status == "completed" else "error"
    return SessionEnded(
        disposition="abandoned" if end.status == "cancelled" else disposition,
        turn_count=0 if end.status == "no_model" else 1,
        total_cost_usd=end.tally.cost_usd,
        duration_seconds=end.tally.wall_seconds,
    )
