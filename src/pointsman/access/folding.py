"""Adding up what the ledger says was spent, chain by chain, each entry once.

The sums carry a mark for every chain: up to which entry it is added up. A process that finds a mark
behind its chain may go on from there, so nothing that a dead process recorded is left out, and
nothing is counted twice. Counts in Redis have marks of their own and follow in the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from pointsman.access.accounts import names_of
from pointsman.access.book import Spent, spend_amounts, spend_key, spent_in
from pointsman.storage.postgres.shared.reserves import PostgresReserves
from pointsman.storage.redis.reserves import RedisReserves
from pointsman.storage.reserves import Batch, EndedHold
from pointsman.storage.stores.spend import Sums, add_to

MOST_AT_ONCE: Final = 1000


class OutcomeEntry(Struct, frozen=True):
    """An outcome in a chain: its place, its id, and the spending it reports."""

    seq: int
    id: str
    spent: Spent | None


class Folding:
    """Folds chains into the sums of a database, and into the counts of Redis where there is one."""

    def __init__(self, durable: PostgresReserves, quick: RedisReserves | None = None) -> None:
        self._durable = durable
        self._quick = quick
        self._uncounted: deque[Batch] = deque()

    def fold(self, chain: str, first: int, outcomes: Sequence[OutcomeEntry]) -> int:
        """Add outcomes that were just made durable; gives the chain's mark afterwards.

        `first` is the mark as the caller knows it. Where another has gone on from there, so does
        this, by what the ledger says. The counts of Redis follow with `count`.
        """
        batch = _batch(chain, first, outcomes)
        if self._durable.fold(batch, _sums(outcomes)) != first:
            return self.catch_up(chain)
        self._uncounted.append(batch)
        return batch.mark

    def count(self) -> None:
        """Have the counts of Redis follow the sums; what fails is left for `catch_up_all`."""
        while self._uncounted:
            batch = self._uncounted.popleft()
            if self._quick is not None and self._quick.fold(batch) != batch.first:
                self._catch_up_quick(batch.chain)

    def catch_up(self, chain: str) -> int:
        """Add to the sums what a chain says beyond its mark; gives the mark afterwards."""
        mark = self._durable.marks().get(chain, 0)
        while outcomes := self._outcomes(chain, mark):
            known = self._durable.fold(_batch(chain, mark, outcomes), _sums(outcomes))
            mark = outcomes[-1].seq + 1 if known == mark else known
        return mark

    def catch_up_all(self) -> None:
        """Add what any chain says beyond its mark, to the sums and then to the counts."""
        for chain in self._durable.behind():
            self.catch_up(chain)
        if self._quick is None:
            return
        counted = self._quick.marks()
        for chain, mark in self._durable.marks().items():
            if counted.get(chain, 0) < mark:
                self._catch_up_quick(chain)

    def _catch_up_quick(self, chain: str) -> None:
        """Bring the counts of Redis up to where the sums are, never beyond."""
        if self._quick is None:
            return
        end = self._durable.marks().get(chain, 0)
        first = self._quick.marks().get(chain, 0)
        while first < end:
            found = [each for each in self._outcomes(chain, first) if each.seq < end]
            batch = _batch(chain, first, found)
            if len(found) < MOST_AT_ONCE:
                batch = Batch(chain, first, end, batch.ended)
            known = self._quick.fold(batch)
            first = batch.mark if known == first else known

    def _outcomes(self, chain: str, first: int) -> list[OutcomeEntry]:
        rows = self._durable.outcomes(chain, first, MOST_AT_ONCE)
        return [OutcomeEntry(seq, name, spent_in(payload)) for seq, name, payload in rows]


def _batch(chain: str, first: int, outcomes: Sequence[OutcomeEntry]) -> Batch:
    mark = outcomes[-1].seq + 1 if outcomes else first
    return Batch(chain, first, mark, tuple(map(_ended_call, outcomes)))


def _ended_call(outcome: OutcomeEntry) -> EndedHold:
    spent = outcome.spent
    if spent is None:
        return EndedHold(outcome.id, outcome.seq, 0, ())
    names = names_of(spent.owners, spent.at)
    return EndedHold(outcome.id, outcome.seq, spent.cost_microusd or 0, names)


def _sums(outcomes: Iterable[OutcomeEntry]) -> Sums:
    sums: Sums = {}
    for each in outcomes:
        if each.spent is not None:
            add_to(sums, spend_key(each.spent), spend_amounts(each.spent))
    return sums
