"""One turn on its way: driven in a task of its own, followed through its updates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from pointsman.calls.flow import Record
from pointsman.conversations.asking import Question, ShownConfirmer
from pointsman.conversations.conversation_house import House, Kit
from pointsman.conversations.crew import Boss, Crew
from pointsman.conversations.driver import Desires, Driver, Seat
from pointsman.conversations.staging import Staged, Standing
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.sessions.conversation import conversation_turn
from pointsman.sessions.delegate_call import DelegateResult, Delegation
from pointsman.sessions.effects import AskEgress, AskRoute, RouteAnswer
from pointsman.sessions.events.calls import LlmCallCompleted
from pointsman.sessions.events.session import CancelReason
from pointsman.sessions.message import MessageUsage
from pointsman.sessions.shown import shown
from pointsman.sessions.tool import Confirmer, DenyAll
from pointsman.sessions.turn import TurnEnd
from pointsman.sessions.update import (
    ChooseRoute,
    ConfirmEgress,
    Notice,
    Routed,
    Told,
    ToolUseBegun,
    TurnOver,
    Update,
    Used,
)
from pointsman.storage.policies.policies import InForce
from pointsman.storage.stores.conversations import TurnClose, TurnRow, TurnStatus

_STATUSES: dict[str, TurnStatus] = {
    "completed": "completed",
    "cancelled": "cancelled",
    "failed": "failed",
    "refused": "refused",
}


class TurnRun:
    """One turn of a user's session."""

    def __init__(
        self, house: House, kit: Kit, seat: Seat, staged: Staged, standing: Standing
    ) -> None:
        self._house = house
        self._kit = kit
        self.seat = seat
        self._staged = staged
        self._standing = standing
        self._updates: asyncio.Queue[Update | None] = asyncio.Queue()
        self._tools: dict[str, str] = {}
        self._spent = MicroUsd(0)
        self._decision_id = ""
        self._driver: Driver | None = None
        self._boss: Boss | None = None
        self._crew = Crew(house, kit, self._show)
        self.confirmer = ShownConfirmer(self._show)
        self.route: Question[RouteAnswer] = Question()
        self.egress: Question[bool] = Question()
        self.end: TurnEnd | None = None

    async def followed(self, in_force: InForce, cost: MicroUsd) -> AsyncGenerator[Update]:
        """Run the turn and give what happens; whoever stops following cancels it."""
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
        self._crew.cancel(reason)
        if self._driver is not None:
            self._driver.cancel(reason)

    async def _run(self, in_force: InForce) -> None:
        desires = Desires(
            show=self._show,
            ask_route=self._ask_route,
            ask_egress=self._ask_egress,
            confirmer=self._asked(),
            tools=self._kit.tools,
            run_workers=self._run_workers,
            decided=self._decided,
        )
        self._boss = Boss(self.seat, self._standing, in_force, desires, self._standing.privacy)
        self._driver = Driver(self._house, self.seat, in_force, desires)
        end = await self._driver.run(conversation_turn(self._staged.turn))
        self.end = end
        await self._closed(end)
        self._show(
            TurnOver(
                self.seat.turn_id,
                end.status,
                end.stop_reason,
                end.text,
                end.model,
                end.tally.cost_usd,
                end.error,
            )
        )

    async def _closed(self, end: TurnEnd) -> None:
        """Keep how the turn ended; one that never began has no row."""
        status = _STATUSES.get(end.status)
        if status is None:
            return
        tally = end.tally
        close = TurnClose(
            self.seat.turn_id,
            status,
            end.model,
            self._decision_id,
            self._house.ground.clock.now(),
            tally.cost_microusd,
            tally.latency_ms,
            tally.pricing_version,
        )
        await asyncio.wrap_future(self._house.store.end_turn(close))

    def _asked(self) -> Confirmer:
        if self._kit.confirmer is not None:
            return self._kit.confirmer
        return self.confirmer if self._kit.is_interactive else DenyAll()

    async def _run_workers(self, work: Sequence[Delegation]) -> tuple[DelegateResult, ...]:
        return () if self._boss is None else await self._crew.run(self._boss, work)

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
        prompts = effect.placing.trace.prompts
        self._show(ConfirmEgress("; ".join(prompts) or effect.placing.outcome.reason))
        return await self.egress.ask()

    def _decided(self, effect: Record, decision_id: str) -> None:
        ruling, self._decision_id = effect.ruling, decision_id
        if effect.kind == "turn" and ruling.model:
            now, staged = self._house.ground.clock.now(), self._staged
            row = TurnRow(
                self.seat.turn_id,
                self.seat.session_id,
                decision_id,
                ruling.model,
                "open",
                now,
                fingerprint=staged.fingerprint,
                vector=staged.vector,
            )
            self._house.store.begin_turn(row)
        if ruling.model:
            winner = ruling.trace.chain[ruling.outcome.winner_index]
            self._show(
                Routed(
                    self.seat.turn_id,
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
        if isinstance(update, Told):
            found = shown(update.event, self._tools)
            if found is not None:
                self._updates.put_nowait(found)
            if isinstance(update.event.payload, LlmCallCompleted):
                self._updates.put_nowait(self._used(update.event.payload))

    def _used(self, told: LlmCallCompleted) -> Used:
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
        return Used(told.model, usage, microusd_text(self._spent))
