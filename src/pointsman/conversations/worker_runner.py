"""The workers of one turn: at most four at a time, each a session of its own, cancelled first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from pointsman.calls.flow import Record
from pointsman.conversations.services import ConversationServices, Kit
from pointsman.conversations.session_events import session_created
from pointsman.conversations.turn_driver import TurnCallbacks, TurnDriver, TurnScope, run_no_workers
from pointsman.conversations.turn_preparation import SessionState, TurnInput, TurnPreparer
from pointsman.kernel.number import MicroUsd, microusd
from pointsman.providers.messages import OutputFormat
from pointsman.sessions.delegate_call import (
    CONTEXT_TOOL,
    MOST_AT_ONCE,
    DelegateResult,
    Delegation,
    UsageSummary,
    worker_tools,
)
from pointsman.sessions.events.delegation import DelegateFailed
from pointsman.sessions.events.session import CancelReason
from pointsman.sessions.prompts import worker_prompt
from pointsman.sessions.update import EventUpdate, Update
from pointsman.sessions.worker import WorkerOrder, run_worker
from pointsman.signals.tokens import count_tokens
from pointsman.storage.policies.policies import InForce
from pointsman.storage.stores.conversations import StoredSession, StoredTurn, TurnClose, TurnStatus
from pointsman.turns.facts import Privacy


class PlannerTurn(Struct, frozen=True):
    """The planner's turn that workers belong to."""

    scope: TurnScope
    state: SessionState
    in_force: InForce
    callbacks: TurnCallbacks
    privacy: Privacy


class WorkerRunner:
    """Runs the workers of one planner's turn."""

    def __init__(
        self, services: ConversationServices, kit: Kit, show: Callable[[Update], None]
    ) -> None:
        self._services = services
        self._kit = kit
        self._show = show
        self._drivers: list[TurnDriver] = []
        self._cancelled: CancelReason | None = None
        self.cost_microusd = MicroUsd(0)

    def cancel(self, reason: CancelReason) -> None:
        """Cancel every worker."""
        self._cancelled = self._cancelled or reason
        for driver in self._drivers:
            driver.cancel(reason)

    async def run(
        self, planner: PlannerTurn, work: Sequence[Delegation]
    ) -> tuple[DelegateResult, ...]:
        """Run delegations side by side; the results are in their order."""
        free = asyncio.Semaphore(MOST_AT_ONCE)

        async def one(each: Delegation) -> DelegateResult:
            async with free:
                return await self._run_worker(planner, each)

        return tuple(await asyncio.gather(*(one(each) for each in work)))

    async def _run_worker(self, planner: PlannerTurn, work: Delegation) -> DelegateResult:
        opened = self._services.opened
        scope = TurnScope(
            session_id=opened.ids.new_id(),
            turn_id=opened.ids.new_id(),
            workspace=planner.scope.workspace,
            parent_session_id=planner.scope.session_id,
            parent_turn_id=planner.scope.turn_id,
            handed_labels=planner.scope.handed_labels,
        )
        rows = _WorkerRows(self._services, scope)
        await rows.begin(work.use.id, planner.privacy)
        driver = TurnDriver(
            self._services, scope, planner.in_force, self._worker_callbacks(planner, rows)
        )
        self._drivers.append(driver)
        if self._cancelled is not None:
            driver.cancel(self._cancelled)
        late = asyncio.get_running_loop().call_later(self._kit.worker_s, driver.cancel, "timeout")
        try:
            preparer = TurnPreparer(self._services, self._kit, planner.in_force)
            order = _worker_order(preparer, scope, planner.state, work, planner.in_force.policy_id)
            result = await driver.run(run_worker(order))
        except Exception as error:  # noqa: BLE001 - whatever a worker raises is its planner's to know
            result = _report_crash(driver, scope, work, error)
        finally:
            late.cancel()
            self._drivers.remove(driver)
        await rows.end(result)
        self.cost_microusd = MicroUsd(self.cost_microusd + microusd(result.usage_summary.cost_usd))
        return result

    def _worker_callbacks(self, planner: PlannerTurn, rows: _WorkerRows) -> TurnCallbacks:
        """A worker shows its events alone, asks nothing of routes, and has no workers."""

        def show(update: Update) -> None:
            if isinstance(update, EventUpdate):
                self._show(update)

        return replace(
            planner.callbacks,
            show=show,
            run_workers=run_no_workers,
            on_decision=rows.record_decision,
        )


class _WorkerRows:
    """The rows of a worker's session and its turn."""

    def __init__(self, services: ConversationServices, scope: TurnScope) -> None:
        self._services = services
        self._scope = scope
        self._decision_id = ""
        self._model = ""

    async def begin(self, tool_use_id: str, privacy: Privacy) -> None:
        scope, now = self._scope, self._services.opened.clock.now()
        row = StoredSession(
            scope.session_id,
            scope.parent_session_id,
            tool_use_id,
            scope.workspace,
            privacy,
            None,
            now,
            now,
            None,
        )
        await asyncio.wrap_future(self._services.store.begin(row))

    def record_decision(self, effect: Record, decision_id: str) -> None:
        self._decision_id, self._model = decision_id, effect.ruling.model
        if effect.kind == "turn" and self._model:
            now = self._services.opened.clock.now()
            row = StoredTurn(
                self._scope.turn_id, self._scope.session_id, decision_id, self._model, "open", now
            )
            self._services.store.begin_turn(row)

    async def end(self, result: DelegateResult) -> None:
        now, store = self._services.opened.clock.now(), self._services.store
        status: TurnStatus = "completed" if result.success else "failed"
        if result.failure_mode in {"cancelled_by_user", "timeout"}:
            status = "cancelled"
        cost = microusd(result.usage_summary.cost_usd)
        store.end_turn(
            TurnClose(self._scope.turn_id, status, self._model, self._decision_id, now, cost)
        )
        await asyncio.wrap_future(store.end(self._scope.session_id, now, now))


def _report_crash(
    driver: TurnDriver, scope: TurnScope, work: Delegation, error: Exception
) -> DelegateResult:
    """Record and return the failure of a worker that raised an unexpected error."""
    message = f"worker_error: {error}"
    failed = DelegateFailed(work.use.id, scope.session_id, "worker_error", message, "0", "", None)
    driver.record_event(failed, work.parent, (scope.parent_session_id, scope.parent_turn_id, ""))
    return DelegateResult(
        success=False,
        output="",
        error=message,
        usage_summary=UsageSummary(),
        worker_session_id=scope.session_id,
        failure_mode="worker_error",
    )


def _worker_order(
    preparer: TurnPreparer, scope: TurnScope, state: SessionState, work: Delegation, policy_id: str
) -> WorkerOrder:
    """Return the order for a delegation's worker (002 §6.2); it gets no history."""
    given = work.given
    offered, dropped = worker_tools(work.tools, given.allowed_tools)
    tools = (*offered, CONTEXT_TOOL)
    names = [each.name for each in tools]

    def system(model: str) -> str:
        schema, context = given.output_schema, work.handed.summary
        return worker_prompt(model, given.task, context, names, schema, *state.prompts)

    output = None
    if given.output_schema is not None:
        schema = Raw(msgspec.json.encode(given.output_schema))
        output = OutputFormat("json_schema", "result", schema)
    turn_input = TurnInput(
        text=given.task,
        more=work.handed.blocks,
        tier=given.tier,
        output=output,
        parent_tool_use_id=work.use.id,
        most_output_tokens=given.max_tokens,
    )
    alone = SessionState(privacy=state.privacy, prompts=state.prompts)
    prepared = preparer.prepare(scope, alone, turn_input, tools, system)
    return WorkerOrder(
        delegation=work,
        turn=prepared.turn,
        created=session_created(scope.workspace, None, policy_id),
        task_tokens=count_tokens(given.task),
        dropped_tools=dropped,
    )
