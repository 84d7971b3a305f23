"""One running turn: driven in a task of its own, followed through its updates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Generic, TypeVar

from msgspec.structs import replace

from pointsman.calls.flow import Record
from pointsman.conversations.services import ConversationServices, Kit
from pointsman.conversations.turn_driver import TurnCallbacks, TurnDriver, TurnScope
from pointsman.conversations.turn_preparation import PreparedTurn, SessionState
from pointsman.conversations.worker_runner import PlannerTurn, WorkerRunner
from pointsman.errors import NotFound
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.sessions.delegate_call import DelegateResult, Delegation
from pointsman.sessions.effects import AskEgress, AskRoute, RouteAnswer
from pointsman.sessions.events.calls import LlmCallCompleted
from pointsman.sessions.events.session import CancelReason
from pointsman.sessions.message import MessageUsage
from pointsman.sessions.tool import ConfirmationAnswer, Confirmer, DenyAll, PendingConfirmation
from pointsman.sessions.turn import TurnEnd
from pointsman.sessions.turn_flow import run_turn
from pointsman.sessions.update import (
    ChooseRoute,
    Confirm,
    ConfirmEgress,
    EventUpdate,
    Notice,
    RouteUpdate,
    ToolUseBegun,
    TurnOver,
    Update,
    UsageUpdate,
    update_of_event,
)
from pointsman.storage.policies.policies import InForce
from pointsman.storage.stores.conversations import StoredTurn, TurnClose, TurnStatus

_STATUSES: dict[str, TurnStatus] = {
    "completed": "completed",
    "cancelled": "cancelled",
    "failed": "failed",
    "refused": "refused",
}


class TurnRun:
    """One turn of a user's session."""

    def __init__(
        self,
        services: ConversationServices,
        kit: Kit,
        scope: TurnScope,
        prepared: PreparedTurn,
        state: SessionState,
    ) -> None:
        self._services = services
        self._kit = kit
        self.scope = scope
        self._prepared = prepared
        self._state = state
        self._updates: asyncio.Queue[Update | None] = asyncio.Queue()
        self._tools: dict[str, str] = {}
        self._spent = MicroUsd(0)
        self._decision_id = ""
        self._driver: TurnDriver | None = None
        self._planner: PlannerTurn | None = None
        self._workers = WorkerRunner(services, kit, self._show)
        self.confirmer = UpdateConfirmer(self._show)
        self.route: PendingAnswer[RouteAnswer] = PendingAnswer()
        self.egress: PendingAnswer[bool] = PendingAnswer()
        self.end: TurnEnd | None = None

    async def follow(self, in_force: InForce, cost: MicroUsd) -> AsyncGenerator[Update]:
        """Run the turn and yield its updates; closing the generator cancels it."""
        self._spent = cost
        running = asyncio.get_running_loop().create_task(self._run(in_force))
        running.add_done_callback(lambda _task: self._updates.put_nowait(None))
        try:
            while (update := await self._updates.get()) is not None:
                yield update
        finally:
            if not running.done():
                self.cancel("client_disconnect")
            await running

    def cancel(self, reason: CancelReason = "user_cancel") -> None:
        """Cancel the turn: its workers first, then itself. A second cancel does nothing."""
        self._workers.cancel(reason)
        if self._driver is not None:
            self._driver.cancel(reason)

    async def _run(self, in_force: InForce) -> None:
        callbacks = TurnCallbacks(
            show=self._show,
            ask_route=self._ask_route,
            ask_egress=self._ask_egress,
            confirmer=self._choose_confirmer(),
            tools=self._kit.tools,
            run_workers=self._run_workers,
            on_decision=self._record_decision,
        )
        self._planner = PlannerTurn(
            self.scope, self._state, in_force, callbacks, self._state.privacy
        )
        self._driver = TurnDriver(self._services, self.scope, in_force, callbacks)
        end = await self._driver.run(run_turn(self._prepared.turn))
        self.end = end
        await self._close_turn(end)
        self._show(
            TurnOver(
                self.scope.turn_id,
                end.status,
                end.stop_reason,
                end.text,
                end.model,
                end.tally.cost_usd,
                end.error,
            )
        )

    async def _close_turn(self, end: TurnEnd) -> None:
        """Store how the turn ended; a turn that never began has no row."""
        status = _STATUSES.get(end.status)
        if status is None:
            return
        tally = end.tally
        close = TurnClose(
            self.scope.turn_id,
            status,
            end.model,
            self._decision_id,
            self._services.opened.clock.now(),
            tally.cost_microusd,
            tally.latency_ms,
            tally.pricing_version,
        )
        await asyncio.wrap_future(self._services.store.end_turn(close))

    def _choose_confirmer(self) -> Confirmer:
        if self._kit.confirmer is not None:
            return self._kit.confirmer
        return self.confirmer if self._kit.is_interactive else DenyAll()

    async def _run_workers(self, work: Sequence[Delegation]) -> tuple[DelegateResult, ...]:
        if self._planner is None:
            return ()
        first, later = self._prepared.turn.asked.labels, self._driver.labels if self._driver else ()
        labels = tuple(dict.fromkeys((*(first or ()), *later)))
        scope = replace(self._planner.scope, handed_labels=labels)
        return await self._workers.run(replace(self._planner, scope=scope), work)

    async def _ask_route(self, effect: AskRoute) -> RouteAnswer:
        if not self._kit.is_interactive:
            return "none"
        self._show(ChooseRoute(effect.ruling.model, effect.suggested, effect.text))
        try:
            async with asyncio.timeout(self._kit.route_s):
                return await self.route.ask()
        except TimeoutError:
            return "none"

    async def _ask_egress(self, effect: AskEgress) -> bool:
        if not self._kit.is_interactive:
            return False
        placing = effect.ruling.placing
        self._show(ConfirmEgress("; ".join(placing.trace.prompts) or placing.outcome.reason))
        return await self.egress.ask()

    def _record_decision(self, effect: Record, decision_id: str) -> None:
        ruling, self._decision_id = effect.ruling, decision_id
        if effect.kind == "turn" and ruling.model:
            now, prepared = self._services.opened.clock.now(), self._prepared
            row = StoredTurn(
                self.scope.turn_id,
                self.scope.session_id,
                decision_id,
                ruling.model,
                "open",
                now,
                fingerprint=prepared.fingerprint,
                vector=prepared.vector,
            )
            self._services.store.begin_turn(row)
        if ruling.model:
            winner = ruling.trace.chain[ruling.outcome.winner_index]
            self._show(
                RouteUpdate(
                    self.scope.turn_id,
                    decision_id,
                    ruling.model,
                    winner.policy,
                    winner.reason,
                    winner.rule_name,
                    effect.kind,
                )
            )
        for banner in ruling.outcome.banners:
            self._show(Notice(banner.code, banner.text))

    def _show(self, update: Update) -> None:
        if isinstance(update, ToolUseBegun):
            self._tools[update.tool_use_id] = update.name
        self._updates.put_nowait(update)
        if isinstance(update, EventUpdate):
            found = update_of_event(update.event, self._tools)
            if found is not None:
                self._updates.put_nowait(found)
            if isinstance(update.event.payload, LlmCallCompleted):
                self._updates.put_nowait(self._usage_update(update.event.payload))

    def _usage_update(self, told: LlmCallCompleted) -> UsageUpdate:
        usage = MessageUsage(
            told.input_tokens,
            told.output_tokens,
            told.cached_input_tokens,
            told.cache_creation_input_tokens,
            told.cost_usd,
            told.pricing_version,
            told.latency_ms,
        )
        self._spent = MicroUsd(self._spent + usage.cost_microusd)
        return UsageUpdate(told.model, usage, microusd_text(self._spent))


T = TypeVar("T")


class PendingAnswer(Generic[T]):
    """One question at a time, answered from elsewhere in the event loop."""

    def __init__(self) -> None:
        self._waiting: asyncio.Future[T] | None = None

    @property
    def is_open(self) -> bool:
        """Whether an answer is awaited."""
        return self._waiting is not None and not self._waiting.done()

    async def ask(self) -> T:
        """Wait for the answer."""
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def answer(self, value: T) -> bool:
        """Set the answer; return whether a question was open."""
        if self._waiting is None or self._waiting.done():
            return False
        self._waiting.set_result(value)
        return True


class UpdateConfirmer:
    """Shows a tool's request as an update and waits for `answer`; several may wait side by side."""

    def __init__(self, show: Callable[[Update], None]) -> None:
        self._show = show
        self._waiting: dict[str, asyncio.Future[ConfirmationAnswer]] = {}

    async def ask(self, asked: PendingConfirmation) -> ConfirmationAnswer:
        """Show a request and wait."""
        waiting: asyncio.Future[ConfirmationAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[asked.id] = waiting
        self._show(Confirm(asked))
        try:
            return await waiting
        finally:
            self._waiting.pop(asked.id, None)

    def answer(self, request_id: str, answered: ConfirmationAnswer) -> None:
        """Answer a request by its id."""
        waiting = self._waiting.get(request_id)
        if waiting is None or waiting.done():
            raise NotFound(f"nobody waits for an answer to `{request_id}`")
        waiting.set_result(answered)
