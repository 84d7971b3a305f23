"""The workers of one turn: at most four at a time, each a session of its own, cancelled first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pointsman.calls.flow import Record
from pointsman.conversations.conversation_house import House, Kit
from pointsman.conversations.driver import Desires, Driver, Seat
from pointsman.conversations.hiring import hired
from pointsman.conversations.staging import Stage, Standing
from pointsman.kernel.number import MicroUsd, microusd
from pointsman.sessions.delegate_call import (
    MOST_AT_ONCE,
    DelegateResult,
    Delegation,
    UsageSummary,
)
from pointsman.sessions.events.delegation import DelegateFailed
from pointsman.sessions.events.session import CancelReason
from pointsman.sessions.update import Told, Update
from pointsman.sessions.worker import worker
from pointsman.storage.policies.policies import InForce
from pointsman.storage.stores.conversations import SessionRow, TurnClose, TurnRow, TurnStatus
from pointsman.turns.facts import Privacy


class Boss(Struct, frozen=True):
    """The planner's turn that workers belong to."""

    seat: Seat
    standing: Standing
    in_force: InForce
    desires: Desires
    privacy: Privacy


class Crew:
    """Runs the workers of one planner's turn."""

    def __init__(self, house: House, kit: Kit, show: Callable[[Update], None]) -> None:
        self._house = house
        self._kit = kit
        self._show = show
        self._drivers: list[Driver] = []
        self._cancelled: CancelReason | None = None
        self.cost_microusd = MicroUsd(0)

    def cancel(self, reason: CancelReason) -> None:
        """Cancel every worker."""
        self._cancelled = self._cancelled or reason
        for driver in self._drivers:
            driver.cancel(reason)

    async def run(self, boss: Boss, work: Sequence[Delegation]) -> tuple[DelegateResult, ...]:
        """Run delegations side by side; the results are in their order."""
        free = asyncio.Semaphore(MOST_AT_ONCE)

        async def one(each: Delegation) -> DelegateResult:
            async with free:
                return await self._worked(boss, each)

        return tuple(await asyncio.gather(*(one(each) for each in work)))

    async def _worked(self, boss: Boss, work: Delegation) -> DelegateResult:
        ground = self._house.ground
        seat = Seat(
            session_id=ground.ids.new_id(),
            turn_id=ground.ids.new_id(),
            workspace=boss.seat.workspace,
            parent_session_id=boss.seat.session_id,
            parent_turn_id=boss.seat.turn_id,
        )
        closing = _Closing(self._house, seat)
        await closing.begin(work.use.id, boss.privacy)
        driver = Driver(self._house, seat, boss.in_force, self._desires(boss, closing))
        self._drivers.append(driver)
        if self._cancelled is not None:
            driver.cancel(self._cancelled)
        late = asyncio.get_running_loop().call_later(self._kit.worker_s, driver.cancel, "timeout")
        try:
            stage = Stage(self._house, self._kit, boss.in_force)
            hire = hired(stage, seat, boss.standing, work, boss.in_force.policy_id)
            result = await driver.run(worker(hire))
        except Exception as error:  # noqa: BLE001 - whatever a worker raises is its planner's to know
            result = _broken(driver, seat, work, error)
        finally:
            late.cancel()
            self._drivers.remove(driver)
        await closing.end(result)
        self.cost_microusd = MicroUsd(self.cost_microusd + microusd(result.usage_summary.cost_usd))
        return result

    def _desires(self, boss: Boss, closing: _Closing) -> Desires:
        """A worker shows its events alone, asks nothing of routes, and has no workers."""

        def show(update: Update) -> None:
            if isinstance(update, Told):
                self._show(update)

        async def none(_work: Sequence[Delegation]) -> tuple[DelegateResult, ...]:
            return ()

        return replace(boss.desires, show=show, run_workers=none, decided=closing.decided)


class _Closing:
    """The rows of a worker's session and its turn."""

    def __init__(self, house: House, seat: Seat) -> None:
        self._house = house
        self._seat = seat
        self._decision_id = ""
        self._model = ""

    async def begin(self, tool_use_id: str, privacy: Privacy) -> None:
        seat, now = self._seat, self._house.ground.clock.now()
        row = SessionRow(
            seat.session_id,
            seat.parent_session_id,
            tool_use_id,
            seat.workspace,
            privacy,
            None,
            now,
            now,
            None,
        )
        await asyncio.wrap_future(self._house.store.begin(row))

    def decided(self, effect: Record, decision_id: str) -> None:
        self._decision_id, self._model = decision_id, effect.ruling.model
        if effect.kind == "turn" and self._model:
            now = self._house.ground.clock.now()
            row = TurnRow(
                self._seat.turn_id, self._seat.session_id, decision_id, self._model, "open", now
            )
            self._house.store.begin_turn(row)

    async def end(self, result: DelegateResult) -> None:
        now, store = self._house.ground.clock.now(), self._house.store
        status: TurnStatus = "completed" if result.success else "failed"
        if result.failure_mode in {"cancelled_by_user", "timeout"}:
            status = "cancelled"
        cost = microusd(result.usage_summary.cost_usd)
        store.end_turn(
            TurnClose(self._seat.turn_id, status, self._model, self._decision_id, now, cost)
        )
        await asyncio.wrap_future(store.end(self._seat.session_id, now, now))


def _broken(driver: Driver, seat: Seat, work: Delegation, error: Exception) -> DelegateResult:
    """Tell of a worker that raised what nobody foresaw."""
    message = f"worker_error: {error}"
    failed = DelegateFailed(work.use.id, seat.session_id, "worker_error", message, "0", "", None)
    driver.tell(failed, work.parent, (seat.parent_session_id, seat.parent_turn_id, ""))
    return DelegateResult(
        success=False,
        output="",
        error=message,
        usage_summary=UsageSummary(),
        worker_session_id=seat.session_id,
        failure_mode="worker_error",
    )
