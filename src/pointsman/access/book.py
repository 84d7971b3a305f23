"""The book of a home: what each call cost and the sums of it, made whole from the ledger at need.

The ledger's outcome entries are the truth about spending; the spend store is a sum over them that
can be made again from them at any time.

That of a database which several machines share is `folded_book`'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Protocol

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from pointsman.access.accounts import names_of
from pointsman.access.caps import Account, Owners, is_counted
from pointsman.errors import ChainHeld
from pointsman.kernel.canonical import Form
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import DAY, Instant
from pointsman.kernel.number import MicroUsd
from pointsman.kernel.record import OUTCOME, OUTCOME_FORM
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.store_url import shared_store
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.stores.spend import (
    SPEND,
    SpendAmounts,
    SpendKey,
    SpendStore,
    Sums,
    add_to,
)
from pointsman.storage.stores.spend_counts import SpendCounts
from pointsman.storage.writer.lease import Lease, first_free_lease


class Spent(Struct, frozen=True, forbid_unknown_fields=True):
    """What one call used and cost.

    The three kinds of input are disjoint. `at` is when the money was reserved: it fixes the day.
    `cost_microusd` is None where no price is known; `is_estimated` where usage or a price was
    guessed.
    """

    model: str
    key_id: str
    session_id: str
    workspace: str
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    cache_creation_input_tokens: int
    cost_microusd: MicroUsd | None
    price_version: str
    is_estimated: bool
    at: Instant
    tenant: str | UnsetType = UNSET

    @property
    def owners(self) -> Owners:
        """Whose money it was."""
        return Owners(self.key_id, self.session_id, self.workspace, self.tenant or "")


SPENT_FORM = Form(Spent)


def spend_key(spent: Spent) -> SpendKey:
    """Return the sum a call belongs to."""
    return SpendKey(
        spent.at // DAY,
        spent.key_id,
        spent.session_id,
        spent.workspace,
        spent.model,
        spent.price_version,
        spent.tenant or "",
    )


def spend_amounts(spent: Spent) -> SpendAmounts:
    """Return what a call adds to its sum."""
    return SpendAmounts(
        1,
        int(spent.is_estimated),
        int(spent.cost_microusd is None),
        spent.input_tokens,
        spent.output_tokens,
        spent.cached_input_tokens,
        spent.cache_creation_input_tokens,
        spent.cost_microusd or 0,
    )


def spent_of(entry: Entry) -> Spent | None:
    """Read what an outcome entry says was spent: the member `spent` of its detail."""
    return spent_in(entry.payload) if entry.kind == OUTCOME else None


def spent_in(payload: bytes) -> Spent | None:
    """Read what the payload of an outcome entry says was spent."""
    detail = bytes(OUTCOME_FORM.read(payload).detail)
    if not detail.startswith(b"{"):
        return None
    spent = bytes(_DETAIL.decode(detail).spent)
    return None if spent == b"null" else SPENT_FORM.read(spent)


def rebuild(entries: Iterable[Entry], first_day: int = 0) -> Sums:
    """Add up what ledger entries say was spent, from a day on; an entry counts once."""
    sums: Sums = {}
    seen: set[str] = set()
    for entry in entries:
        spent = spent_of(entry)
        if spent is not None and entry.id not in seen and spent.at // DAY >= first_day:
            seen.add(entry.id)
            add_to(sums, spend_key(spent), spend_amounts(spent))
    return sums


class _Detail(Struct, frozen=True):
    spent: Raw = Raw(b"null")


_DETAIL = msgspec.json.Decoder(_Detail)


class OpenBook(Protocol):
    """A book that its opener closes."""

    def cost(self, account: Account) -> int:
        """Return the amount an account has spent."""
        ...

    def add(self, spent: Spent) -> None:
        """Keep what a call spent."""
        ...

    def flush(self) -> None:
        """Write all pending sums before this returns."""
        ...

    def close(self) -> None:
        """Write all pending sums and close."""
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
    """Keeps the spending of one home of files; waits for the disk only when opened and closed.

    Each writer has a lease while it lives. One that is alone makes the sums whole where another was
    killed before all was written; beside others it only adds.
    """

    def __init__(self, home: Home, writer: str) -> None:
        self._home = home
        # A second one of this name in a process, or another that looks at the lease just now: `-2`.
        lease = first_free_lease(home.path / "leases", _lease_name(writer))
        self._writer = lease.chain.removeprefix(_lease_name(""))
        self._lease: Lease | None = lease
        try:
            opening = home.lease(SPEND, waits=True)
            try:
                self._store, self.counts = self._open()
            finally:
                opening.release()
        except BaseException:
            lease.release()
            raise

    def _open(self) -> tuple[SpendStore, SpendCounts]:
        store = SpendStore(self._home.place(SPEND), self._writer, names_of_sum)
        counts = SpendCounts(self._home, self._writer)
        writers = store.writers()
        killed = [name for name in writers if name == self._writer or self.is_dead(name)]
        counts.free_writers({*killed, self._writer})
        # Beside others sums are left as they are: calls may be counted before their entries.
        if killed and len(killed) == len(writers):
            _make_whole(self._home, store)
            for name in killed:
                store.forget_writer(name)
        store.begin()
        return store, counts

    def is_dead(self, writer: str) -> bool:
        """Tell whether a writer lives no more: the system has dropped its lease."""
        if writer == self._writer:
            return False
        try:
            self._home.lease(_lease_name(writer)).release()
        except ChainHeld:
            return False
        return True

    def free_dead(self) -> int:
        """Free the holds of killed processes; return how many there were."""
        freed = 0
        for writer in self.counts.holders():
            if writer == self._writer:
                continue
            try:
                lease = self._home.lease(_lease_name(writer))
            except ChainHeld:
                continue
            # INVARIANT: held meanwhile, so that no process begins under this name and is robbed.
            try:
                freed += self.counts.free_writers([writer])
            finally:
                lease.release()
        return freed

    def cost(self, account: Account) -> int:
        """Return the amount an account has spent."""

        def is_in_account(key: SpendKey) -> bool:
            return is_counted(account, owners_of_sum(key), key.day)

        return self._store.cost(*account, is_in_account)

    def unwritten(self, account: Account) -> int:
        """Return the part of it that this process has not written yet."""
        return self._store.unwritten(lambda key: is_counted(account, owners_of_sum(key), key.day))

    def add(self, spent: Spent) -> None:
        """Keep what a call spent."""
        self._store.add(spend_key(spent), spend_amounts(spent))

    def flush(self) -> None:
        """Write all pending sums before this returns. Blocks: not for an event loop."""
        self._store.flush()

    def close(self) -> None:
        """Write all pending sums and release the home."""
        self._store.close()
        lease, self._lease = self._lease, None
        if lease is not None:
            self.counts.close()
            lease.release()


def _lease_name(writer: str) -> str:
    return f"{SPEND}-{writer}"


def owners_of_sum(key: SpendKey) -> Owners:
    """Return whose money a sum is."""
    return Owners(key.key_id, key.session_id, key.workspace, key.tenant)


def names_of_sum(key: SpendKey) -> tuple[str, ...]:
    """Name the accounts that a sum belongs to."""
    return names_of(owners_of_sum(key), Instant(key.day * DAY))


def _make_whole(home: Home, store: SpendStore) -> None:
    """Make the newest sums again from the ledger.

    Sums are committed in the order calls were settled, and a reservation is younger than a day
    when it is settled: missing sums lie on the last day that was written, the day before, or
    later.
    """
    if not home.database.exists():
        return
    first_day = max(0, store.last_day() - 1)
    with told_errors(home.database), closing(LedgerReader(home.database)) as ledger:
        # The ledger's time never goes back, but a clock may have been set back before a process
        # began: its calls count for earlier days than their entries.
        first_day = min([first_day, *_days_spent(ledger, first_day)])
        outcomes = ledger.of_kind(OUTCOME, Instant(first_day * DAY))
        sums = rebuild((each.entry for each in outcomes), first_day)
    store.replace(first_day, sums)


def _days_spent(ledger: LedgerReader, first_day: int) -> set[int]:
    """Return the days that calls count for whose entries are of a day or later ones."""
    outcomes = ledger.of_kind(OUTCOME, Instant(first_day * DAY))
    found = (spent_of(each.entry) for each in outcomes)
    return {spent.at // DAY for spent in found if spent is not None}
