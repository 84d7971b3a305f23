"""Opening the parts that a gateway shares with others of the same folder, such as its workers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from pointsman.app import Pointsman
from pointsman.calls.flow import TurnLock, TurnLocks
from pointsman.gateway.serving.chain_follower import ChainFollower
from pointsman.gateway.serving.login import Logins, SharedLogins
from pointsman.gateway.serving.neighbours import KEYS, PINS, POLICY, Neighbours, SharedTurnLocks
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.serving.workers import WorkerCounts
from pointsman.gateway.supervisor import Seat
from pointsman.gateway.telemetry.metrics import GatewayMetrics
from pointsman.storage.policies.ledger_policies import LedgerPolicies
from pointsman.storage.stores.live import LiveStore


def opened_neighbours(stack: ExitStack, pointsman: Pointsman, seat: Seat | None) -> Neighbours:
    """Join the other gateways of a folder; a worker knows from the start that there are some."""
    process = pointsman.ids.new_id()
    store = LiveStore(pointsman.home.path, process if seat is None else seat.gateway, process)
    stack.callback(store.close)
    return Neighbours(store, pointsman.clock, is_expected=seat is not None)


def turn_locks(
    pointsman: Pointsman,
    neighbours: Neighbours | None,
    stored: Callable[[str], TurnLock | None],
) -> TurnLocks:
    """Return the locks of turns, shared with the neighbours there are."""
    if neighbours is None:
        return TurnLocks(stored)
    return SharedTurnLocks(neighbours, stored, pointsman.clock)


def logins_of(neighbours: Neighbours | None, seat: Seat | None) -> Logins:
    """Return who is logged in: at this process, or at all workers of its gateway."""
    return Logins() if neighbours is None or seat is None else SharedLogins(neighbours.store)


def counts_of(
    pointsman: Pointsman,
    neighbours: Neighbours | None,
    metrics: GatewayMetrics,
    seat: Seat | None,
) -> WorkerCounts | None:
    """Return the counts of all workers; None where one process serves alone."""
    if neighbours is None or seat is None:
        return None
    return WorkerCounts(neighbours.store, metrics, pointsman.clock)


def follow_neighbours(parts: GatewayServices, neighbours: Neighbours) -> None:
    """Learn what the other gateways of the home do and change, and tell them."""
    files, counts = parts.pointsman.files, parts.counts
    if counts is not None:
        counts.stand = parts.standing
        parts.starting.append(counts.begin)
        parts.finishing.append(counts.end)
    neighbours.follow(PINS, parts.sessions.look_again)
    neighbours.follow(KEYS, parts.keyring.look_again)
    if isinstance(files, LedgerPolicies):
        neighbours.follow(POLICY, files.look)
    neighbours.share_rates(parts.health.rates)
    if parts.sharing is not None:
        return  # the rest is told by the database that replicas share
    neighbours.share_taints(parts.pointsman.taints)
    follower = ChainFollower(parts.pointsman, parts.feed)
    parts.starting.append(follower.begin)
    parts.ending.append(follower.close)
