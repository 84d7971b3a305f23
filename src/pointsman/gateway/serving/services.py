"""The services of one gateway, opened once and handed to every endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from pointsman.access.budgets import BudgetPort
from pointsman.access.keyring import Keyring
from pointsman.access.roles import RouteKey
from pointsman.app import Pointsman
from pointsman.audit.turn_catalog import TurnCatalog
from pointsman.calls.flow import Fallback, TurnLock, TurnLocks
from pointsman.calls.services import CallServices
from pointsman.errors import LedgerError, PolicyElsewhere
from pointsman.gateway.serving.feed import Feed
from pointsman.gateway.serving.login import Logins
from pointsman.gateway.serving.route import Route
from pointsman.gateway.telemetry.logs import Log
from pointsman.gateway.telemetry.metrics import GatewayMetrics
from pointsman.gateway.telemetry.tracing import Tracing
from pointsman.providers.dialects.parts import Memos
from pointsman.providers.port import Deadlines
from pointsman.providers.registry.providers import LiveProviders
from pointsman.recording.health import LiveHealth
from pointsman.recording.key_limits import KeyLimiter
from pointsman.storage.policies.ledger_policies import LedgerPolicies
from pointsman.storage.policies.policies import InForce
from pointsman.storage.policies.settings import Settings
from pointsman.storage.stores.sessions import SessionStore
from pointsman.storage.writer.durability import LoopBridge

if TYPE_CHECKING:
    from pointsman.gateway.serving.neighbours import Neighbours
    from pointsman.gateway.serving.sharing import Sharing
    from pointsman.gateway.serving.workers import WorkerCounts
    from pointsman.gateway.supervisor import Seat
    from pointsman.witnessing.rounds import WitnessThread


class ReplicaRow(Struct, frozen=True):
    """A replica that lives, and the policy it decides by."""

    replica: str
    chain: str
    policy_id: str
    version: str


class SharedReport(Struct, frozen=True):
    """The state shared with other replicas; `redis` is null where none is used."""

    replica: str
    chain: str
    budgets: Literal["ok", "unavailable"]
    redis: Literal["ok", "down"] | None
    trouble: dict[str, str]
    replicas: tuple[ReplicaRow, ...]


class WorkerStatus(Struct, frozen=True):
    """How one worker stands: requests under way, readers of its feed, whether its ledger writes."""

    in_flight: int
    feed_readers: int
    is_writable: bool


class GatewayServices(Struct, frozen=True):
    """The opened parts of one gateway."""

    pointsman: Pointsman
    settings: Settings
    routes: Mapping[RouteKey, Route]
    """Every route that is served."""
    catalog: TurnCatalog
    providers: LiveProviders
    health: LiveHealth
    locks: TurnLocks
    sessions: SessionStore
    metrics: GatewayMetrics
    keyring: Keyring
    budgets: BudgetPort
    calls: CallServices
    feed: Feed
    log: Log
    limiter: KeyLimiter
    tracing: Tracing | None = None
    new_admin_token: str = ""
    loops: list[LoopBridge] = []
    starting: list[Callable[[], None]] = []
    """Called in the event loop when serving begins."""
    finishing: list[Callable[[], None]] = []
    """Called in the event loop when the last request is served."""
    ending: list[Callable[[], None]] = []
    """Called when the gateway closes."""
    logins: Logins = field(default_factory=Logins)
    sharing: Sharing | None = None
    """The state shared with other replicas; none where the home is a folder of files."""
    seat: Seat | None = None
    """Which worker this is; none where one process serves alone."""
    counts: WorkerCounts | None = None
    """What all workers have counted; none where one process serves alone."""
    neighbours: Neighbours | None = None
    """The other gateways of this folder; none where it is one of several replicas alone."""
    witnessing: list[WitnessThread] = []
    """What submits checkpoints to witnesses; none where the home has none."""
    stopping: list[bool] = []
    """Holds something once the gateway was told to stop."""
    fallback: Fallback = Fallback()
    """When another model may take over, by the settings."""
    deadlines: Deadlines = Deadlines()
    """How long providers may take, by the settings."""

    memos: Memos = field(default_factory=Memos)
    """The facts remembered of the parts of long requests."""
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a long request is read in steps: taking turns, all would be late."""

    looked: list[InForce] = []
    """The policy in force, as this round of the event loop saw it."""

    def in_force(self) -> InForce:
        """Return the policy in force; turns of one round of the event loop share one look at files.

        A round begins by waiting for the network, so no request is handled in it that was sent
        after an edit which the look did not see.
        """
        if not self.looked:
            if self.neighbours is not None:
                self.neighbours.look_once()
            self.looked.append(self.pointsman.files.in_force())
            asyncio.get_running_loop().call_soon(self.looked.clear)
        return self.looked[0]

    def announce(self, what: str) -> None:
        """Tell every other gateway that keys, pins or the policy changed, before a caller is."""
        if self.neighbours is not None:
            # It is done all the same: where this cannot be told now, others look by themselves.
            with suppress(LedgerError):
                self.neighbours.announce(what)
        if self.sharing is not None:
            self.sharing.announce_change()

    def standing(self) -> WorkerStatus:
        """Return how this process stands."""
        ledger = self.pointsman.decision_recorder.recorder().health
        return WorkerStatus(self.metrics.in_flight, self.feed.readers, ledger.is_writable)

    def is_alone(self) -> bool:
        """Tell whether no more than one request to a model is under way, and the ledger is here."""
        return self.metrics.in_flight <= 1 and self.sharing is None

    def bridge(self) -> LoopBridge:
        """Return the bridge from the ledger's threads into this event loop."""
        if not self.loops:
            bridge = LoopBridge(asyncio.get_running_loop())
            self.pointsman.decision_recorder.recorder().serve_loop(
                bridge.after_group, bridge.soon, self.is_alone
            )
            self.loops.append(bridge)
        return self.loops[0]


def fallback_of(settings: Settings) -> Fallback:
    """Return when another model may take over."""
    given = settings.fallback
    return Fallback(
        given.mode == "on", given.most_attempts, given.for_named_models, given.max_price_ratio
    )


def check_own_files(parts: GatewayServices) -> None:
    """Raise where policy files are rolled out to replicas: here, one of them would change alone."""
    is_published = isinstance(parts.pointsman.files, LedgerPolicies)
    if parts.sharing is not None and not is_published:
        hint = "roll the files out to every replica, or publish: `policy: {source: ledger}`"
        raise PolicyElsewhere(hint=hint)


def stored_lock(sessions: SessionStore, session_id: str) -> TurnLock | None:
    """Return a session's lock from before this process began, if its turn waited for a tool."""
    kept = sessions.find(session_id)
    if not kept.locked_model:
        return None
    return TurnLock(kept.turn_id, kept.decision_id, kept.locked_model, is_stored=True)
