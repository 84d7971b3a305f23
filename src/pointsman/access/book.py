"""The book of a home: what was spent, kept on disk and made whole from the ledger after a crash.

That of a database which several machines share is `folded_book`'s.
"""

from __future__ import annotations

from contextlib import closing
from typing import Protocol

from pointsman.access.caps import Account, Owners, is_counted
from pointsman.access.spent import Spent, rebuild, spend_amounts, spend_key
from pointsman.errors import ChainHeld
from pointsman.kernel.instant import DAY, Instant
from pointsman.kernel.record import OUTCOME
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.store_url import shared_store
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.stores.spend import SpendKey, SpendStore
from pointsman.storage.writer.chain_rows import HeldLease

SPEND = "spend"
"""What the store is called in a home."""


class OpenBook(Protocol):
    """A book that its opener closes."""

    def cost(self, account: Account) -> int:
        """Return the amount an account has spent."""
        ...

    def add(self, spent: Spent) -> None:
        """Keep what a call spent."""
        ...

    def flush(self) -> None:
        """Write what was kept before this returns."""
        ...

    def close(self) -> None:
        """Write what was kept and let go of it."""
        ...


def opened_book(home: Home, writer: str) -> OpenBook:
    """Open the book of a home: its own file, or what the chains of a shared database add up to."""
    store = shared_store(home.store)
    if store is None:
        return HomeBook(home, writer)
    # Imported here: a database server needs packages that most homes do without.
    from pointsman.access.folded_book import FoldedBook  # noqa: PLC0415 - see above

    return FoldedBook(store)


class HomeBook:
    """Keeps what is spent in one home of files; waits for the disk only when opened and closed.

    The first to open it holds a lease, and makes the sums whole when the one before it crashed;
    others beside it only add.
    """

    def __init__(self, home: Home, writer: str) -> None:
        self._store = store = SpendStore(home.place(SPEND), writer)
        self._lease = _lease(home)
        if self._lease is not None:
            if not store.was_clean():
                _make_whole(home, store)
            store.begin()

    def cost(self, account: Account) -> int:
        """Return the amount an account has spent."""

        def is_in_account(key: SpendKey) -> bool:
            return is_counted(account, Owners(key.key_id, key.session_id, key.workspace), key.day)

        return self._store.cost(*account, is_in_account)

    def add(self, spent: Spent) -> None:
        """Keep what a call spent."""
        self._store.add(spend_key(spent), spend_amounts(spent))

    def flush(self) -> None:
        """Write what was kept before this returns. Blocks: not for an event loop."""
        self._store.flush()

    def close(self) -> None:
        """Write what was kept and let go of the home."""
        self._store.close()
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()


def _lease(home: Home) -> HeldLease | None:
    try:
        return home.lease(SPEND)
    except ChainHeld:
        return None


def _make_whole(home: Home, store: SpendStore) -> None:
    """Make the newest sums again from the ledger.

    Sums are committed in the order calls were settled, and a reservation is younger than a day
    when it is settled: what is lacking lies on the last day that was written, the day before, or
    later.
    """
    if not home.database.exists():
        return
    first_day = max(0, store.last_day() - 1)
    with told_errors(home.database), closing(LedgerReader(home.database)) as ledger:
        outcomes = ledger.of_kind(OUTCOME, Instant(first_day * DAY))
        sums = rebuild((each.entry for each in outcomes), first_day)
    store.replace(first_day, sums)
