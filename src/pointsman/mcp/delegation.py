"""Delegating for an agent elsewhere: a worker on another tier, as any planner of ours has them.

The agent's own words are not here, so there is no planner's turn: a session stands in for it, which
owns the workers, their cost and the taint that their texts brought.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

import anyio
import msgspec
from msgspec import Raw, Struct

from pointsman.access.keys import tighten_privacy
from pointsman.conversations.services import ConversationServices, Kit
from pointsman.conversations.session_events import (
    DecisionEvent,
    SessionEventRecorder,
    read_session_events,
    session_created,
)
from pointsman.conversations.turn_driver import UNATTENDED, TurnScope
from pointsman.conversations.turn_preparation import SessionState
from pointsman.conversations.worker_runner import PlannerTurn, WorkerRunner
from pointsman.kernel.document import printable
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.mcp.shapes import DelegateAnswer, DelegateInput
from pointsman.mcp.tool import Hints, Tool, ToolAnswer, ToolRequest
from pointsman.mcp.visitor import Admitted, Service
from pointsman.providers.messages import ToolUse
from pointsman.sessions.delegate_call import (
    DELEGATE,
    DelegateResult,
    Delegation,
    included_items,
    read_delegation,
)
from pointsman.sessions.events.session import SessionEnded
from pointsman.sessions.include import resolve_context
from pointsman.storage.stores.conversations import StoredSession
from pointsman.turns.facts import Privacy

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


NO_DECISION: Final = ""


class Order(Struct, frozen=True):
    """The delegated task, as `sessions.delegate_call` writes it, and its bounds."""

    written: dict[str, object]
    privacy: Privacy
    timeout_s: int


class Delegated(Struct, frozen=True):
    """The result, and the names it is recorded under."""

    result: DelegateResult
    session_id: str
    decision_id: str


class _Planner(Struct):
    """The session that stands in for the agent."""

    row: StoredSession
    event_id: str
    began: float
    turns: int = 0
    spent: MicroUsd = MicroUsd(0)


class Delegations:
    """The delegations of one server; may run side by side."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = asyncio.Lock()
        self._kept: _Planner | None = None

    async def run(self, order: Order, by: Admitted) -> Delegated:
        """Run a worker to its end; a call that is cancelled ends it first."""
        house = self._service.house_for(by.caller)
        use = ToolUse(house.opened.ids.new_id(), DELEGATE, Raw(msgspec.json.encode(order.written)))
        given = read_delegation(use)
        handed = resolve_context(included_items(given.context), ())
        planner = await self._planner(house, order, by)
        work = Delegation(use, given, handed, (), planner.event_id)
        try:
            result = await self._run_worker(house, planner, work, order)
        finally:
            if not self._service.keeps_session:
                with anyio.CancelScope(shield=True):
                    await _end(house, planner)
        decision_id = await asyncio.to_thread(_decision_id, house, result.worker_session_id)
        return Delegated(result, planner.row.id, decision_id)

    async def close(self) -> None:
        """End the session of an agent that is gone."""
        if self._kept is not None:
            await _end(self._service.house(), self._kept)
            self._kept = None

    async def _planner(self, house: ConversationServices, order: Order, by: Admitted) -> _Planner:
        if not self._service.keeps_session:
            return await _begin(house, order.privacy, by.workspace)
        async with self._lock:
            if self._kept is None:
                self._kept = await _begin(house, "auto", by.workspace)
            return self._kept

    async def _run_worker(
        self, house: ConversationServices, planner: _Planner, work: Delegation, order: Order
    ) -> DelegateResult:
        ground = house.opened
        crew = WorkerRunner(house, Kit(worker_s=order.timeout_s), UNATTENDED.show)
        seat = TurnScope(planner.row.id, ground.ids.new_id(), planner.row.workspace)
        standing = SessionState(privacy=order.privacy)
        boss = PlannerTurn(seat, standing, ground.files.in_force(), UNATTENDED, order.privacy)
        running = asyncio.ensure_future(crew.run(boss, [work]))
        try:
            (result,) = await asyncio.shield(running)
        except asyncio.CancelledError:
            crew.cancel("user_cancel")
            with anyio.CancelScope(shield=True):
                await asyncio.wait({running})
            raise
        finally:
            planner.turns += 1
            planner.spent = MicroUsd(planner.spent + crew.cost_microusd)
        return result


async def _begin(house: ConversationServices, privacy: Privacy, workspace: str | None) -> _Planner:
    ground = house.opened
    now, name = ground.clock.now(), ground.ids.new_id()
    row = StoredSession(name, "", "", workspace, privacy, None, now, now, None)
    await asyncio.wrap_future(house.store.begin(row))
    created = session_created(workspace, None, ground.files.in_force().policy_id)
    event_id = await SessionEventRecorder(house).record(created, (name, "", ""))
    return _Planner(row, event_id, time.monotonic())


async def _end(house: ConversationServices, planner: _Planner) -> None:
    seconds = f"{time.monotonic() - planner.began:.3f}"
    told = SessionEnded("completed", planner.turns, microusd_text(planner.spent), seconds)
    await SessionEventRecorder(house).record(told, (planner.row.id, "", ""), planner.event_id)
    now = house.opened.clock.now()
    await asyncio.wrap_future(house.store.end(planner.row.id, now, now))


def _decision_id(house: ConversationServices, session_id: str) -> str:
    """Name the decision that a worker ran under, or that kept it from running; the latest one."""
    found = [
        each.id
        for each in read_session_events(house.opened.home, session_id)
        if isinstance(each, DecisionEvent)
    ]
    return found[-1] if found else NO_DECISION
