"""The book of a home whose database several processes share: what the ledger's chains add up to."""

from __future__ import annotations

from contextlib import suppress

from pointsman.access.accounts import account_row
from pointsman.access.book import Spent
from pointsman.access.caps import Account
from pointsman.access.folding import Folding
from pointsman.errors import LedgerError
from pointsman.storage.postgres.place import PostgresStore
from pointsman.storage.postgres.shared.pool import Pool
from pointsman.storage.postgres.shared.reserves import PostgresReserves


class FoldedBook:
    """Tells spending by the recorded entries; nothing is kept beside the ledger's entries."""

    def __init__(self, store: PostgresStore) -> None:
        self._pool = Pool(store)
        self._durable = PostgresReserves(self._pool)
        self._durable.adopt()
        self._folding = Folding(self._durable)

    def cost(self, account: Account) -> int:
        """Return the amount an account has spent, as far as it is recorded. Blocks."""
        self._folding.catch_up_all()
        return self._durable.amount_spent(account_row(account))

    def add(self, spent: Spent) -> None:
        """Take no notice: the entry about the call's end says the same, and is what counts."""

    def flush(self) -> None:
        """Add up the recorded entries before this returns. Blocks."""
        self._folding.catch_up_all()

    def close(self) -> None:
        """Add up the recorded entries, as far as possible now; the next one does the rest."""
        with suppress(LedgerError):
            self._folding.catch_up_all()
        self._pool.close()
