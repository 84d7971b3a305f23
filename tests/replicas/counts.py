"""Shared counts on a real PostgreSQL, with and without a real Redis, and a ledger to fold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pointsman.access.accounts import names_of
from pointsman.access.book import Spent
from pointsman.access.budgets import Reservation
from pointsman.access.caps import Cap, Owners
from pointsman.access.charges import Quote, Tokens
from pointsman.access.folding import Folding, OutcomeEntry
from pointsman.access.shared_budgets import SharedBudgets
from pointsman.kernel.instant import DAY, Instant
from pointsman.kernel.number import MicroUsd
from pointsman.replicas.epoch import EpochKeeper
from pointsman.storage.postgres.place import PostgresStore
from pointsman.storage.postgres.shared.pool import Pool
from pointsman.storage.postgres.shared.reserves import PostgresReserves
from pointsman.storage.postgres.shared.state import SharedState
from pointsman.storage.redis.connection import opened_redis
from pointsman.storage.redis.reserves import RedisReserves
from pointsman.storage.sharing import Beat
from pointsman.testing import CountedIds
from pointsman.turns.registry.prices import Price

LEDGER = "0" * 32
NOW = Instant(25_000 * DAY + 1)
OWNERS = Owners("key", "session", "work")
EVERYBODY = Cap("everybody", MicroUsd(1000), "day")
FREE = Price()


def quote(amount: int | None) -> Quote:
    """Give what a call may cost."""
    return Quote("p:m", FREE, "v", Tokens(1, 1), None if amount is None else MicroUsd(amount))


def spent(cost: int, owners: Owners = OWNERS, at: Instant = NOW) -> Spent:
    """Give what a call cost."""
    who = (owners.key_id, owners.session_id, owners.workspace)
    return Spent("p:m", *who, 1, 1, 0, 0, MicroUsd(cost), "v", False, at)


class Counts(NamedTuple):
    """One process's view of the counts."""

    process: str
    durable: PostgresReserves
    quick: RedisReserves | None
    state: SharedState
    budgets: SharedBudgets
    folding: Folding
    epochs: EpochKeeper | None

    def beat(self) -> None:
        epoch = "" if self.epochs is None else self.epochs.current_epoch
        holding = len(self.budgets.holding)
        self.state.beat(Beat(self.process, "serve", "", "", epoch, holding), 10)

    def tend(self) -> None:
        if self.epochs is not None:
            self.epochs.tend(self.beat)

    def end(
        self, seq: int, name: str, cost: int | None, chain: str = "serve", first: int | None = None
    ) -> None:
        """Count a call's end as the ledger tells it to whoever knows it up to `first`."""
        known = self.durable.marks().get(chain, 0) if first is None else first
        said = None if cost is None else spent(cost)
        self.folding.fold(chain, known, [OutcomeEntry(seq, name, said)])
        self.folding.count()
        self.budgets.mark_counted((name,))

    def left(self, cap: Cap = EVERYBODY) -> int:
        return self.budgets.remaining(OWNERS, (cap,), NOW)[0].left_microusd


@contextmanager
def counting(postgres_url: str, redis_url: str = "", process: str = "one") -> Iterator[Counts]:
    """Open one process's view of the counts, joined to the others."""
    pool = Pool(PostgresStore(postgres_url, Path()))
    durable, state = PostgresReserves(pool), SharedState(pool)
    durable.adopt()
    redis = opened_redis(redis_url) if redis_url else None
    quick = None if redis is None else RedisReserves(redis, LEDGER)
    ids = CountedIds(process)
    budgets = SharedBudgets(durable, quick, process, ids)
    epochs = None if quick is None else EpochKeeper(quick, durable, state, budgets, ids)
    counts = Counts(process, durable, quick, state, budgets, Folding(durable, quick), epochs)
    counts.beat()
    counts.tend()
    try:
        yield counts
    finally:
        pool.close()
        if redis is not None:
            redis.close()


def names(owners: Owners = OWNERS) -> tuple[str, ...]:
    """Name the accounts of these owners."""
    return names_of(owners, NOW)


def held(counts: Counts, amount: int, *caps: Cap, owners: Owners = OWNERS) -> Reservation:
    """Set money aside, which must fit."""
    found = counts.budgets.reserve(owners, quote(amount), caps or (EVERYBODY,), NOW)
    assert isinstance(found, Reservation), found
    return found
