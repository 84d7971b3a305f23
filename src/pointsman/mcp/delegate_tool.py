"""`delegate`: hand a sub-task to another tier, through us."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from pointsman.access.keys import tighten_privacy
from pointsman.kernel.document import printable
from pointsman.mcp.delegation import Delegated, Delegations, Order
from pointsman.mcp.shapes import DelegateAnswer, DelegateInput
from pointsman.mcp.tool import Hints, Tool, ToolAnswer, ToolRequest
from pointsman.mcp.visitor import Admitted

TOLD: Final = (
    "Hand a focused sub-task to a worker on another tier (`fast`, `balanced` or `deep`) and wait "
    "for its answer. The worker sees the task and the notes in `context`, nothing else, and has no "
    "tools. Which model it is, is decided and recorded as for any turn: privacy, budgets and "
    "permissions hold. Gives the answer with the model, its cost and the decision's id."
)


def delegate_tool(delegations: Delegations) -> Tool[DelegateInput]:
    """Return the tool."""

    async def delegate(call: ToolRequest[DelegateInput]) -> ToolAnswer:
        done = await delegations.run(_order(call.given, call.by), call.by)
        return _answer(done)

    return Tool(
        "delegate",
        "Delegate to another tier",
        TOLD,
        DelegateInput,
        DelegateAnswer,
        ("POST", "/v1/chat/completions"),
        Hints(is_read_only=False, is_idempotent=False, is_open_world=True),
        delegate,
    )


def _order(given: DelegateInput, by: Admitted) -> Order:
    notes = [{"type": "inline", "label": each.label, "text": each.text} for each in given.context]
    context = {"mode": "explicit", "include": notes} if notes else {"mode": "minimal"}
    written: dict[str, object] = {"tier": given.tier, "task": given.task, "context": context}
    if given.output_schema is not None:
        written["output_schema"] = given.output_schema
    if given.max_tokens is not None:
        written["max_tokens"] = given.max_tokens
    privacy = tighten_privacy(by.privacy, (given.privacy,))
    return Order(written, privacy, given.timeout_s)


def _answer(done: Delegated) -> ToolAnswer:
    result, used = done.result, done.result.usage_summary
    output = result.output
    value = DelegateAnswer(
        success=result.success,
        output=msgspec.json.decode(output) if isinstance(output, Raw) else output,
        error=result.error,
        failure_mode=result.failure_mode,
        model=used.model,
        cost_usd=used.cost_usd,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        wall_time_seconds=used.wall_time_seconds,
        decision_id=done.decision_id,
        session_id=done.session_id,
        worker_session_id=result.worker_session_id,
    )
    if result.success:
        text = bytes(output).decode() if isinstance(output, Raw) else output
        return ToolAnswer(value, text)
    return ToolAnswer(value, _failure(done), is_error=True)


def _failure(done: Delegated) -> str:
    """Say in one line why there is no answer, and where to look."""
    result = done.result
    mode, error = result.failure_mode or "worker_error", result.error or ""
    detail = "" if error in {mode, ""} else f": {error.removeprefix(f'{mode}: ')}"
    where = f" (next: route_explain {done.decision_id})" if done.decision_id else ""
    return printable(f"delegate.{mode}{detail}{where}")
