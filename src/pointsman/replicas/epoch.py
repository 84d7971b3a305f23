"""Redis counts under an epoch; this joins one, and builds the next where Redis lost its data.

INVARIANT: nothing is reserved in an epoch before every living replica has restored its
reservations in it, or has reported that it holds nothing and belongs to no epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pointsman.access.shared_budgets import SharedBudgets
from pointsman.errors import PointsmanError, RedisUnavailable
from pointsman.kernel.instant import IdSource
from pointsman.storage.postgres.shared.reserves import PostgresReserves
from pointsman.storage.postgres.shared.state import SharedState
from pointsman.storage.redis.reserves import RedisReserves
from pointsman.storage.sharing import Peer


class EpochKeeper:
    """Keeps one replica in the epoch of Redis; for one thread."""

    def __init__(
        self,
        quick: RedisReserves,
        durable: PostgresReserves,
        state: SharedState,
        budgets: SharedBudgets,
        ids: IdSource,
    ) -> None:
        self._quick = quick
        self._durable = durable
        self._state = state
        self._budgets = budgets
        self._ids = ids
        self._restored: tuple[str, frozenset[str]] = ("", frozenset())

    @property
    def current_epoch(self) -> str:
        """The epoch this replica has joined or restored its reservations in; empty for none."""
        return self._quick.epoch or self._restored[0]

    def tend(self, beat: Callable[[], object]) -> None:
        """Stay in the open epoch, or continue building one. Raises where Redis is down.

        `beat` reports this replica's state to the others.
        """
        try:
            current = self._quick.current()
            if current:
                if current != self._quick.epoch:
                    self._join(current)
                if not self._is_ahead():
                    return
                self._quick.finish(current)
                self._leave()
            self._build(beat)
        except RedisUnavailable:
            self._leave()
            raise

    def _is_ahead(self) -> bool:
        """Whether Redis has counted entries that the ledger does not have.

        The sums of the ledger are folded first: so the database went back, as an older dump of it
        does. Redis is asked first: a mark that grows meanwhile changes nothing.
        """
        counted, known = self._quick.marks(), self._durable.marks()
        return any(mark > known.get(chain, 0) for chain, mark in counted.items())

    def _leave(self) -> None:
        self._quick.join("")
        self._restored = ("", frozenset())

    def _join(self, epoch: str) -> None:
        """Join an open epoch with the reservations of this process and no more."""
        named, restored = self._restored
        self._restored = ("", frozenset())
        self._quick.join(epoch)
        try:
            open_holds = self._budgets.open_holds
            if named == epoch:
                # Calls that ended while the epoch was built are in its seeds already.
                self._quick.give_back(sorted(restored - {each.id for each in open_holds}))
                return
            # The epoch was opened without this replica, which was thought dead: restore its holds.
            for each in open_holds:
                self._quick.reserve(each, ())
        except PointsmanError:
            self._quick.join("")
            raise

    def _build(self, beat: Callable[[], object]) -> None:
        self._quick.join("")
        # INVARIANT: the time is read after the loss was noticed, so that a replica with a later
        # heartbeat knows of no epoch that was lost.
        since = self._state.now_us()
        found = self._quick.begin_epoch(f"{self._ids.new_id()}@{since}")
        if found.is_open:
            return
        open_holds = self._budgets.open_holds
        if not self._quick.restore(found.name, open_holds):
            return
        before = self._restored[1] if self._restored[0] == found.name else frozenset()
        self._restored = (found.name, before | {each.id for each in open_holds})
        beat()
        if is_complete(found.name, self._state.peers()):
            opened = self._quick.open(found.name, self._durable.marks())
            if opened:
                self._join(opened)


def is_complete(epoch: str, peers: Iterable[Peer]) -> bool:
    """Return whether every living replica has restored its holds in an epoch, or has none."""
    since_us = int(epoch.rpartition("@")[2])
    return all(
        peer.beat.epoch == epoch
        or (not peer.beat.epoch and not peer.beat.holding and peer.beat_at_us > since_us)
        for peer in peers
        if peer.is_alive
    )
