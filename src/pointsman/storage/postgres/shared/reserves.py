"""Budgets counted by all replicas in PostgreSQL, from the sums of settled calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pointsman.errors import BudgetUnavailable, LedgerError
from pointsman.storage.postgres.shared.pool import Pool
from pointsman.storage.reserves import (
    AccountCount,
    AccountRow,
    Batch,
    Bound,
    Hold,
    Seed,
    Short,
    UnknownAccount,
)
from pointsman.storage.stores.spend import SpendAmounts, SpendKey

_ADD_SPENT: Final = """
INSERT INTO pointsman_spend.spent AS s (
    chain, day, key_id, session_id, workspace, model, price_version, tenant, calls, estimated_calls,
    unpriced_calls, input_tokens, output_tokens, cached_input_tokens, cache_creation_input_tokens,
    cost_microusd
) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (day, key_id, session_id, workspace, model, price_version, chain) DO UPDATE SET
    calls = s.calls + excluded.calls,
    estimated_calls = s.estimated_calls + excluded.estimated_calls,
    unpriced_calls = s.unpriced_calls + excluded.unpriced_calls,
    input_tokens = s.input_tokens + excluded.input_tokens,
    output_tokens = s.output_tokens + excluded.output_tokens,
    cached_input_tokens = s.cached_input_tokens + excluded.cached_input_tokens,
    cache_creation_input_tokens =
        s.cache_creation_input_tokens + excluded.cache_creation_input_tokens,
    cost_microusd = s.cost_microusd + excluded.cost_microusd
"""
_RESERVE: Final = "SELECT * FROM reserve(%s, %s, %s, %s, %s, %s)"
_FOLD: Final = "SELECT fold(%s, %s, %s, %s, %s, %s)"
_SEED: Final = "SELECT seed(%s, %s, %s, %s, %s, %s)"
_SPENT: Final = "SELECT spent(%s, %s, %s, %s, %s)"
_COUNTED: Final = "SELECT name, settled, reserved FROM accounts WHERE name = ANY (%s)"
_OF_PROCESS: Final = "SELECT id FROM holds WHERE process = %s"
_MARKS: Final = "SELECT chain, mark FROM marks"
_BEHIND: Final = """
SELECT c.name FROM pointsman_ledger.chains AS c LEFT JOIN marks AS m ON m.chain = c.name
WHERE EXISTS (
    SELECT 1 FROM pointsman_ledger.entries AS e
    WHERE e.chain = c.id AND e.seq >= coalesce(m.mark, 0) AND e.kind = 'outcome'
) ORDER BY c.name
"""
_OUTCOMES: Final = """
SELECT e.seq, e.id, e.payload
FROM pointsman_ledger.entries AS e JOIN pointsman_ledger.chains AS c ON c.id = e.chain
WHERE c.name = %s AND e.seq >= %s AND e.kind = 'outcome' ORDER BY e.seq LIMIT %s
"""
_RECORDED: Final = "SELECT 1 FROM pointsman_ledger.entries WHERE id = %s AND kind = 'outcome'"
_FORGET: Final = "DELETE FROM accounts WHERE end_day < %s"


class PostgresReserves:
    """Counts what the replicas of one database spend and set aside; may be shared by threads."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def reserve(self, hold: Hold, bounds: Sequence[Bound]) -> Short | UnknownAccount | None:
        """Set money aside in all accounts or in none; twice the same hold is once."""
        bounded = [each.account for each in bounds]
        limits = [each.limit_microusd for each in bounds]
        asked = (hold.id, hold.process, hold.amount_microusd, [*hold.accounts], bounded, limits)
        try:
            with self._pool.lent() as raw:
                rows = raw.execute(_RESERVE, asked).fetchall()
        except LedgerError as error:
            raise BudgetUnavailable(error.message) from error
        word, place, room = rows[0]
        if word == "unknown":
            return UnknownAccount(tuple(bounded[at] for _, at, _ in rows))
        return Short(place, room) if word == "short" else None

    def read_counts(self, accounts: Sequence[str]) -> list[AccountCount | None]:
        """Return how accounts stand; None for those that are not counted yet."""
        try:
            with self._pool.lent() as raw:
                rows = raw.execute(_COUNTED, ([*accounts],)).fetchall()
        except LedgerError as error:
            raise BudgetUnavailable(error.message) from error
        found = {name: AccountCount(settled, reserved) for name, settled, reserved in rows}
        return [found.get(name) for name in accounts]

    def begin(self, account: AccountRow) -> None:
        """Begin to count an account here, from its settled sum and its open reservations."""
        with self._pool.lent() as raw:
            raw.execute(_SEED, (account.name, *account.owner, account.first_day, account.end_day))

    def seed_of(self, account: AccountRow, expires_at_s: int) -> Seed:
        """Return the amount an account spent, and up to where in each chain that holds."""
        asked = (*account.owner, account.first_day, account.end_day)
        with self._pool.lent() as raw, raw.transaction():
            # One look at both: the sum is that of exactly these marks.
            raw.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            row = raw.execute(_SPENT, asked).fetchone()
            marks = dict(raw.execute(_MARKS).fetchall())
        return Seed(account.name, 0 if row is None else row[0], marks, expires_at_s)

    def amount_spent(self, account: AccountRow) -> int:
        """Return the amount an account spent, as far as chains are folded."""
        with self._pool.lent() as raw:
            asked = (*account.owner, account.first_day, account.end_day)
            row = raw.execute(_SPENT, asked).fetchone()
        return 0 if row is None else int(row[0])

    def adopt(self) -> None:
        """Take the sums over: the first time they are made anew, from what the ledger says."""
        with self._pool.lent() as raw:
            raw.execute("SELECT adopt()")

    def behind(self) -> list[str]:
        """Return the names of the chains with entries that the sums do not count yet."""
        with self._pool.lent() as raw:
            return [name for (name,) in raw.execute(_BEHIND).fetchall()]

    def outcomes(self, chain: str, first: int, most: int) -> list[tuple[int, str, bytes]]:
        """Return a chain's outcomes from an entry on: its place, id and payload."""
        with self._pool.lent() as raw:
            rows = raw.execute(_OUTCOMES, (chain, first, most), binary=True).fetchall()
        return [(seq, name, bytes(payload)) for seq, name, payload in rows]

    def is_recorded(self, name: str) -> bool:
        """Tell whether an outcome with this id is in the ledger."""
        with self._pool.lent() as raw:
            return raw.execute(_RECORDED, (name,)).fetchone() is not None

    def marks(self) -> dict[str, int]:
        """Return up to which entry each chain is folded."""
        with self._pool.lent() as raw:
            return dict(raw.execute(_MARKS).fetchall())

    def fold(self, batch: Batch, sums: Mapping[SpendKey, SpendAmounts]) -> int:
        """Add what a chain says was spent, once; gives the mark the chain had before.

        Nothing is added where that is not the batch's first entry: another replica was quicker.
        """
        costs: dict[str, int] = {}
        for each in batch.ended:
            for name in each.accounts if each.cost_microusd else ():
                costs[name] = costs.get(name, 0) + each.cost_microusd
        ids = [each.id for each in batch.ended]
        asked = (batch.chain, batch.first, batch.mark, ids, [*costs], [*costs.values()])
        with self._pool.lent() as raw, raw.transaction():
            row = raw.execute(_FOLD, asked).fetchone()
            known = 0 if row is None else int(row[0])
            if known == batch.first and sums:
                # In one order for all, so that no two transactions wait for each other.
                rows = [(batch.chain, *key, *sums[key]) for key in sorted(sums)]
                with raw.cursor() as cursor:
                    cursor.executemany(_ADD_SPENT, rows)
        return known

    def give_back(self, ids: Iterable[str]) -> int:
        """Release the reservations of calls that were never made."""
        with self._pool.lent() as raw:
            row = raw.execute("SELECT free(%s)", ([*ids],)).fetchone()
        return 0 if row is None else int(row[0])

    def lapse(self, process: str) -> int:
        """Free what a dead process had set aside; gives how many holds that were."""
        ids = self.held_by(process)
        return self.give_back(ids) if ids else 0

    def held_by(self, process: str) -> list[str]:
        """Name the holds of a process."""
        with self._pool.lent() as raw:
            return [name for (name,) in raw.execute(_OF_PROCESS, (process,)).fetchall()]

    def forget(self, before_day: int) -> None:
        """Forget accounts that ended before a day."""
        with self._pool.lent() as raw:
            raw.execute(_FORGET, (before_day,))
