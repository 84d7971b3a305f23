"""Delegating for an agent elsewhere: a worker on another tier, as any planner of ours has them.

The agent's own words are not here, so there is no planner's turn: a session stands in for it, which
owns the workers, their cost and what must stay on this machine because of what they were told.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

import anyio
import msgspec
from msgspec import Raw, Struct

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
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.mcp.service import Service
from pointsman.mcp.visitor import Admitted
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
