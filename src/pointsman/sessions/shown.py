"""Events as a user sees them: the state of tools and workers, what was used."""

from __future__ import annotations

from collections.abc import Mapping

from pointsman.sessions.catalogue import Payload
from pointsman.sessions.envelope import Envelope
from pointsman.sessions.events.delegation import (
    DelegateCompleted,
    DelegateFailed,
    DelegateStarted,
)
from pointsman.sessions.events.tools import (
    ToolCalled,
    ToolCompleted,
    ToolConfirmationRequested,
    ToolFailed,
)
from pointsman.sessions.update import ToolProgress, ToolState, Update, WorkerState


def shown(event: Envelope, names: Mapping[str, str]) -> Update | None:
    """Give what an event shows; `names` are the tools by their calls."""
    payload = event.payload
    worker = event.session_id if event.parent_session_id else ""
    return _tool(payload, names, worker) or _worker(payload)


def _tool(payload: Payload, names: Mapping[str, str], worker: str) -> ToolState | None:
    match payload:
        case ToolConfirmationRequested():
            summary = str(payload.input_summary)
            return ToolState(payload.tool_use_id, payload.tool_name, "waiting", summary, 0, worker)
        case ToolCalled():
            return ToolState(payload.tool_use_id, payload.tool_name, "running", "", 0, worker)
        case ToolCompleted():
            name = names.get(payload.tool_use_id, "")
            return ToolState(payload.tool_use_id, name, "done", "", payload.latency_ms, worker)
        case ToolFailed():
            name = names.get(payload.tool_use_id, "")
            state: ToolProgress = "cancelled" if payload.error_class == "cancelled" else "failed"
            detail = str(payload.error_message)
            latency_ms = payload.latency_ms
            return ToolState(payload.tool_use_id, name, state, detail, latency_ms, worker)
        case _:
            return None


def _worker(payload: Payload) -> WorkerState | None:
    match payload:
        case DelegateStarted():
            return WorkerState(
                payload.tool_use_id, payload.worker_session_id, "started", payload.resolved_model
            )
        case DelegateCompleted():
            cost = payload.worker_total_cost_usd
            names = (payload.tool_use_id, payload.worker_session_id)
            return WorkerState(*names, "completed", payload.model, "", cost)
        case DelegateFailed():
            names = (payload.tool_use_id, payload.worker_session_id or "")
            detail, cost = str(payload.error_message), payload.worker_total_cost_usd
            return WorkerState(*names, "failed", "", detail, cost)
        case _:
            return None
