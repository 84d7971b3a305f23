"""Redis counts under an epoch; this joins one, and builds the next where Redis lost what it held.

INVARIANT: nothing is set aside in an epoch before every replica that lives has brought what it
holds into it, or has said that it holds nothing and belongs to no epoch.
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
    def told(self) -> str:
        """The epoch this replica has joined, or has brought what it holds into; empty for none."""
        return self._quick.epoch or self._restored[0]

    def tend(self, beat: Callable[[], object]) -> None:
        """Stay in the epoch that is open, or go on with building one. Raises where Redis is out.

        `beat` tells the others where this replica stands.
        """
        try:
            current = self._quick.current()
            if current:
                if current != self._quick.epoch:
                    self._join(current)
                return
            self._build(beat)
        except RedisUnavailable:
            self._leave()
            raise

    def _leave(self) -> None:
        self._quick.join("")
        self._restored = ("", frozenset())

    def _join(self, epoch: str) -> None:
        """Count in an epoch that is open, with what this process holds and no more."""
        named, restored = self._restored
        self._restored = ("", frozenset())
        self._quick.join(epoch)
        try:
            held = self._budgets.held
            if named == epoch:
                # What ended while the epoch was built is in its seeds already.
                self._quick.give_back(sorted(restored - {each.id for each in held}))
                return
            # It was opened without this replica, which was thought dead: it holds all the same.
            for each in held:
                self._quick.reserve(each, ())
        except PointsmanError:
            self._quick.join("")
            raise

    def _build(self, beat: Callable[[], object]) -> None:
        self._quick.join("")
        # INVARIANT: the time is asked for after the loss was noticed, so that whoever gave a sign
        # of life later than that knows of no epoch that was lost.
        since = self._state.now_us()
        found = self._quick.begun(f"{self._ids.new_id()}@{since}")
        if found.is_open:
            return
        held = self._budgets.held
        if not self._quick.restore(found.name, held):
            return
        before = self._restored[1] if self._restored[0] == found.name else frozenset()
        self._restored = (found.name, before | {each.id for each in held})
        beat()
        if is_complete(found.name, self._state.peers()):
            opened = self._quick.open(found.name, self._durable.marks())
            if opened:
                self._join(opened)


def is_complete(epoch: str, peers: Iterable[Peer]) -> bool:
    """Tell whether everybody alive has brought what they hold into an epoch, or holds nothing."""
    since_us = int(epoch.rpartition("@")[2])
    return all(
        peer.beat.epoch == epoch
        or (not peer.beat.epoch and not peer.beat.holding and peer.beat_at_us > since_us)
        for peer in peers
        if peer.is_alive
    )
