"""What replicas of a gateway share, opened for one of them: budgets, turns, health, keys, feed.

Whatever is shared lies behind the network, so it is asked for in threads and awaited; a gateway
whose home is a folder of files has none of this.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar

from msgspec import Struct

from pointsman.access.caps import Cap, Owners
from pointsman.access.keyring import Keyring
from pointsman.access.shared_budgets import SharedBudgets
from pointsman.app import Pointsman
from pointsman.calls.flow import TurnLock
from pointsman.errors import PointsmanError
from pointsman.gateway.serving.addresses import hide_addresses
from pointsman.gateway.serving.chain_follower import ChainFollower
from pointsman.gateway.serving.feed import Feed
from pointsman.gateway.serving.services import ReplicaRow, SharedReport
from pointsman.gateway.telemetry.logs import Log
from pointsman.kernel.instant import Instant
from pointsman.recording.taints import EVENTS
from pointsman.replicas.replica import Replica
from pointsman.replicas.shared_health import SharedHealth
from pointsman.replicas.shared_stores import SharedStores, open_shared_stores
from pointsman.storage.policies.ledger_policies import LedgerPolicies
from pointsman.storage.policies.settings import Settings
from pointsman.storage.postgres.place import PostgresStore
from pointsman.storage.sharing import WaitingTurn
from pointsman.storage.writer.group import GroupCommit
from pointsman.turns.facts import BudgetLeft
from pointsman.turns.registry.models import is_local
from pointsman.turns.registry.provider_state import Health, Thresholds
from pointsman.turns.registry.trials import TRIED_FOR_S
from pointsman.version import VERSION

T = TypeVar("T")

THREADS: Final = 16
LOOK_S: Final = 0.2


_Hold = tuple[str, WaitingTurn, Instant]


class Ahead(Struct, frozen=True):
    """What a turn must know before it is decided that other replicas may have changed."""

    pinned_model: str = ""
    lock: TurnLock | None = None
    budgets: tuple[BudgetLeft, ...] = ()
    denied: dict[str, Health] = {}
    claims: tuple[str, ...] = ()


class Sharing:
    """One replica's part in what all share."""

    def __init__(self, pointsman: Pointsman, shared: SharedStores, keyring: Keyring) -> None:
        self.shared = shared
        self._pointsman = pointsman
        clock, ids, recorder = (
            pointsman.clock,
            pointsman.ids,
            pointsman.decision_recorder.recorder(),
        )
        self._executor = ThreadPoolExecutor(THREADS, "shared")
        self._holding: GroupCommit[_Hold, Sequence[_Hold], None] = GroupCommit(
            "held-turns", self._hold_all
        )
        self.budgets = SharedBudgets(shared.durable, shared.quick, shared.process, ids)
        probe_after_s = pointsman.files.settings().value.availability.probe_after_s
        thresholds = Thresholds(probe_after_s=probe_after_s)
        self.health = SharedHealth(clock, shared.process, self._wake, thresholds)
        self.health.store_clock.compare(shared.state.now_us)
        self.health.is_own = lambda provider: is_local(
            pointsman.files.in_force().ready.models, provider
        )
        self.replica = Replica(
            shared,
            self.budgets,
            self.health,
            recorder,
            (clock, ids),
            lambda: (pointsman.files.in_force().policy_id, VERSION),
        )
        self._keyring = keyring
        files = pointsman.files
        self._published = files if isinstance(files, LedgerPolicies) else None
        self._looked_at = 0.0
        self._looks: list[tuple[str, asyncio.Future[Ahead]]] = []
        """Turns that wait for the next look at their session."""
        self._looking: asyncio.Task[None] | None = None
        self._followed: ChainFollower | None = None

    def begin(self, feed: Feed, log: Log) -> None:
        """Join the other replicas, and follow their entries."""
        if log.is_on:
            self.replica.warn = log.shared_warning
        self._keyring.look(self._pointsman.clock.now())
        self._keyring.is_followed = True
        if self._published is not None:
            self._published.look()
            self._published.is_followed = True
        self._followed = ChainFollower(self._pointsman, feed)
        self.replica.following.append(self._follow)
        self.replica.begin()

    def end(self) -> None:
        """Leave the others. Blocks."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._holding.close()
        self._keyring.is_followed = False
        if self._published is not None:
            self._published.is_followed = False
        self.replica.end()
        if self._followed is not None:
            self._followed.close()

    async def run(self, work: Callable[[], T]) -> T:
        """Run work that waits for the network in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def ahead(
        self, session_id: str, owners: Owners, caps: Sequence[Cap], now: Instant, *, is_new: bool
    ) -> Ahead:
        """Look at what a turn must know before it is decided."""
        known = await self.look_ahead(session_id)
        lock = known.lock
        if lock is not None and not is_new:
            return known
        budgets: tuple[BudgetLeft, ...] = ()
        if caps:
            budgets = await self.run(lambda: self.budgets.remaining(owners, caps, now))
        claims, denied = (await self.run(self._claim)) if self.health.half_open() else ((), {})
        return Ahead(known.pinned_model, lock, budgets, denied, claims)

    def look_ahead(self, session_id: str) -> asyncio.Future[Ahead]:
        """Look at a session and at new taints, together with all turns that wait for such a look.

        Budgets, and models that may be tried again, are not looked at.

        INVARIANT: the look begins after it was asked for, so it sees all earlier changes.
        """
        found: asyncio.Future[Ahead] = asyncio.get_running_loop().create_future()
        self._looks.append((session_id, found))
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_for_all())
        return found

    async def _look_for_all(self) -> None:
        try:
            while self._looks:
                asked, self._looks = self._looks, []
                names = [*dict.fromkeys(name for name, _ in asked)]
                try:
                    known = await self.run(lambda names=names: self._look_at(names))  # type: ignore[misc] # bound at once
                except Exception as error:  # noqa: BLE001 - each turn that waits answers with it
                    for _, found in asked:
                        if not found.done():
                            found.set_exception(error)
                    continue
                for name, found in asked:
                    if not found.done():
                        found.set_result(known[name])
        finally:
            self._looking = None

    def _look_at(self, session_ids: Sequence[str]) -> dict[str, Ahead]:
        """Look at sessions, and read the taints that other replicas recorded. Blocks."""
        taints = self._pointsman.taints
        seen = taints.last_look
        known, events = self.shared.state.ahead_of(session_ids, EVENTS, seen.since)
        taints.look_if_changed(seen, events)
        return {name: Ahead(each.pinned_model, _lock(each.waiting)) for name, each in known.items()}

    def _claim(self) -> tuple[tuple[str, ...], dict[str, Health]]:
        """Claim the right to try models that were out, one request at a time over all replicas."""
        claims: list[str] = []
        denied: dict[str, Health] = {}
        for scope in self.health.half_open():
            if self.shared.claims.claim(f"probe:{scope}", self.shared.process, TRIED_FOR_S):
                claims.append(scope)
            else:
                denied[scope] = "unavailable"
        return tuple(claims), denied

    def let_go(self, claims: Sequence[str]) -> None:
        """Let others try; does not wait."""

        def give_up() -> None:
            with suppress(PointsmanError):
                for scope in claims:
                    self.shared.claims.give_up(f"probe:{scope}", self.shared.process)

        self._executor.submit(give_up)

    def hold(self, session_id: str, lock: TurnLock, now: Instant) -> Future[None]:
        """Bind a session's turn to a model, for all replicas; durable when the future is done.

        Turns that are held at one time share a commit.
        """
        told = WaitingTurn(
            lock.turn_id, lock.decision_id, lock.model, lock.calls, lock.is_escalated
        )
        return self._holding.append((session_id, told, now))

    def _hold_all(self, turns: Sequence[_Hold]) -> list[None]:
        # In their order: of several calls of one turn the last one stands.
        self.shared.state.hold_turns({name: (turn, now) for name, turn, now in turns})
        return [None] * len(turns)

    def announce_change(self) -> None:
        """Tell the others that keys or pins changed, so that they look at once; does not wait."""
        redis = self.shared.redis
        if redis is not None:
            self._executor.submit(_quietly, redis.notify)

    def report(self) -> SharedReport:
        """Return the shared state: live replicas and failures; asks no other process."""
        quick, trouble = (
            self.shared.quick,
            {part: hide_addresses(cause) for part, cause in sorted(self.replica.trouble.items())},
        )
        is_counted = quick is None or bool(quick.epoch)
        rows = (
            ReplicaRow(each.beat.process, each.beat.chain, each.beat.policy_id, each.beat.version)
            for each in self.replica.peers
            if each.is_alive
        )
        return SharedReport(
            replica=self.shared.process,
            chain=self._pointsman.decision_recorder.recorder().chain,
            budgets="ok" if is_counted and "spending" not in trouble else "unavailable",
            redis=None if quick is None else "down" if "redis" in trouble else "ok",
            trouble=trouble,
            replicas=tuple(rows),
        )

    def _wake(self) -> None:
        self.replica.wake()

    def _follow(self) -> None:
        """Look at what others changed; in the replica's thread."""
        redis, now = self.shared.redis, time.monotonic()
        is_told = False
        if redis is not None:
            with suppress(PointsmanError):
                is_told = redis.wait(0)
        if is_told or now - self._looked_at >= LOOK_S:
            self._looked_at = now
            if self._published is not None:
                self._published.look()
            self._keyring.look(self._pointsman.clock.now())
            if self._followed is not None:
                self._followed.look()


def opened_sharing(
    pointsman: Pointsman, store: PostgresStore, settings: Settings, keyring: Keyring
) -> Sharing:
    """Open what the replicas of a home share."""
    shared = open_shared_stores(pointsman.home, store, settings, pointsman.ids.new_id())
    return Sharing(pointsman, shared, keyring)


def _lock(waiting: WaitingTurn | None) -> TurnLock | None:
    if waiting is None:
        return None
    named = (waiting.turn_id, waiting.decision_id, waiting.model)
    return TurnLock(*named, waiting.calls, waiting.is_escalated)


def _quietly(work: Callable[[], None]) -> None:
    with suppress(PointsmanError):
        work()
