"""Copy a home from SQLite files into PostgreSQL: chains, checkpoints, numbers and all other tables.

Rows that are there already are left; an interrupted copy continues where it stopped. No writer may
run on either side meanwhile, and a database of another ledger is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from typing import Final

from msgspec import Struct

from pointsman.access.folded_book import FoldedBook
from pointsman.audit.verify import verify_ledger
from pointsman.errors import LedgerBroken, StoreRefused
from pointsman.kernel.entry import Chain, Entry
from pointsman.kernel.instant import Instant
from pointsman.storage.connection import Connection, Row
from pointsman.storage.copied_tables import CONTENTS, STAYING, TABLES, CopiedTable, places
from pointsman.storage.home import Home
from pointsman.storage.postgres.connection import PostgresConnection
from pointsman.storage.postgres.lease import is_leased
from pointsman.storage.postgres.loading import count_on, load
from pointsman.storage.postgres.place import PostgresStore
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.checkpoints import CheckpointFolder, claimed_size
from pointsman.storage.writer.lease import Lease

Progress = Callable[[int, int], None]
"""Called with how many entries are copied, and of how many."""

ENTRIES: Final = 1_000
TEXTS: Final = 1_000

ENTRY_COLUMNS: Final = (
    *("chain", "seq", "at_us", "kind", "id", "ref"),
    *("payload", "attached", "prev", "hash"),
)
ATTACHMENT_COLUMNS: Final = ("chain", "seq", "place", "body")
NOTE_COLUMNS: Final = ("chain", "size", "note", "leaves")
TURN_COLUMNS: Final = (
    *("session_id", "turn_id", "decision_id", "model", "at_us"),
    *("calls", "is_escalated"),
)

_HEAD: Final = "SELECT hash FROM entries WHERE chain = ? AND seq = ?"
_HASHES: Final = "SELECT hash FROM entries WHERE chain = ? AND seq >= ? AND seq < ? ORDER BY seq"
_ATTACHED: Final = """
SELECT chain, seq, place, body FROM attachments
WHERE chain = ? AND seq >= ? AND seq < ? ORDER BY seq, place
"""
_WAITING: Final = """
SELECT id, turn_id, decision_id, locked_model, changed_at FROM session
WHERE coalesce(locked_model, '') <> '' ORDER BY id
"""
_BEGAN: Final = """
INSERT INTO copies (ledger, began_us) VALUES (?, ?)
ON CONFLICT (ledger) DO UPDATE SET began_us = excluded.began_us, finished_us = NULL
"""


class CopyProgress(Struct, frozen=True):
    """How far a copy has come before; `is_ahead` where the target was written to by itself."""

    finished_at: Instant | None
    is_ahead: bool
    is_equal: bool

    @property
    def is_needless(self) -> bool:
        """Tell whether there is nothing left to write."""
        return self.is_ahead or (self.is_equal and self.finished_at is not None)


class StoreCopy:
    """One copy of one home; to be used under `alone`."""

    def __init__(self, source: Home, target: PostgresStore) -> None:
        self.source = source
        self.target = target
        self.copied = Home(source.path, target)

    @contextmanager
    def alone(self) -> Iterator[CopyProgress]:
        """Keep writers out on both sides; raise where the target may not be written."""
        if not self.source.database.exists():
            raise StoreRefused("there is no ledger to copy", where=str(self.source.path))
        self.target.ensure_migrated()
        with ExitStack() as stack:
            ledger = stack.enter_context(closing(LedgerReader(self.source.database)))
            chains = ledger.chains()
            for name in chains:
                stack.callback(Lease(self.source.leases, name).release)
            holding = stack.enter_context(closing(self.target.connect("pointsman_ledger")))
            self._check_ledger(holding)
            for name in chains:
                if not is_leased(holding, f"chain/{name}"):
                    raise StoreRefused(f"somebody writes the chain `{name}` of the target")
            begun = self._copy_progress(ledger, chains)
            if not begun.is_needless:
                self._check_intact()
            yield begun

    def run(self, at: Instant, progress: Progress | None = None) -> None:
        """Copy the rows that are not there yet."""
        with closing(self.target.connect("pointsman")) as mark:
            mark.execute(_BEGAN, (self.source.identity.ledger, at))
        self._copy_ledger(progress)
        self._copy_texts()
        for name in places():
            self._copy_place(name)
        self._copy_waiting_turns()
        self._fold_spending()

    def finish(self, at: Instant) -> None:
        """Note that everything was copied and proved."""
        with closing(self.target.connect("pointsman")) as mark:
            mark.execute(
                "UPDATE copies SET finished_us = ? WHERE ledger = ?",
                (at, self.source.identity.ledger),
            )

    def _check_intact(self) -> None:
        report = verify_ledger(self.source)
        if report.fault is not None:
            raise LedgerBroken(
                f"the home's own ledger is not intact: {report.fault.message}",
                where=f"{report.fault.chain}/{report.fault.seq}",
                hint="run `pointsman verify`; only an intact ledger is copied",
            )

    def _check_ledger(self, target: Connection) -> None:
        """Refuse a database of another ledger, or one that is used without a ledger."""
        own = self.source.identity.ledger
        found = target.execute("SELECT value FROM meta WHERE key = 'ledger'").get
        if found is not None and found != own:
            raise StoreRefused(
                f"the target holds the ledger `{found}`, not `{own}`",
                where=self.target.shown,
                hint="name an empty database",
            )
        if found is None and (used := self._used_table()):
            raise StoreRefused(
                f"the target has no ledger, but `{used}` is not empty",
                where=self.target.shown,
                hint="name an empty database",
            )

    def _used_table(self) -> str:
        """Name a table of the target that has rows though no copy began there."""
        with closing(self.target.connect("pointsman", is_reading=True)) as marks:
            own = (self.source.identity.ledger,)
            if marks.execute("SELECT 1 FROM copies WHERE ledger = ?", own).get:
                return ""
        for each in (CONTENTS, *TABLES):
            with closing(self.target.place(each.place).reading()) as reading:
                if reading.execute(f"SELECT 1 FROM {each.name} LIMIT 1").get:  # noqa: S608 - our own names
                    return each.title
        return ""

    def _copy_progress(self, ledger: LedgerReader, chains: dict[str, int]) -> CopyProgress:
        with closing(LedgerReader(self.copied.database)) as copied:
            there = copied.chains()
            sizes = {name: copied.size(number) for name, number in there.items()}
        for name in {*chains} & {*there}:
            self._check_same(
                name, chains[name], there[name], min(ledger.size(chains[name]), sizes[name])
            )
        own = {name: ledger.size(number) for name, number in chains.items()}
        is_ahead = any(size > own.get(name, 0) for name, size in sizes.items())
        with closing(self.target.connect("pointsman", is_reading=True)) as marks:
            row = marks.execute(
                "SELECT finished_us FROM copies WHERE ledger = ?", (self.source.identity.ledger,)
            ).fetchone()
        finished = row[0] if row else None
        return CopyProgress(None if finished is None else Instant(finished), is_ahead, own == sizes)

    def _check_same(self, name: str, here: int, there: int, size: int) -> None:
        """Refuse a chain of the target that is not the beginning or the continuation of ours."""
        with (
            closing(self.source.database.reading()) as own,
            closing(self.target.place("ledger").reading()) as other,
        ):
            heads = [
                each.execute(_HEAD, (number, size - 1)).get
                for each, number in ((own, here), (other, there))
            ]
        if here != there or (size and heads[0] != heads[1]):
            raise StoreRefused(
                f"the target's chain `{name}` is not the one of this home",
                where=self.target.shown,
                hint="it was written to before it was copied: name an empty database",
            )

    def _copy_ledger(self, progress: Progress | None) -> None:
        with (
            closing(LedgerReader(self.source.database)) as ledger,
            closing(self.source.database.reading()) as rows,
            closing(self.target.connect("pointsman_ledger")) as target,
        ):
            chains = ledger.chains()
            with target.transaction():
                meta = [("ledger", self.source.identity.ledger)]
                load(target, "meta", ("key", "value"), ("key",), meta)
                named = [(number, name) for name, number in chains.items()]
                load(target, "chains", ("id", "name"), ("id",), named)
                count_on(target, "chains", "id")
            total = sum(ledger.size(number) for number in chains.values())
            done = 0
            for name, number in chains.items():
                for count in self._copy_chain(ledger, rows, target, number):
                    done += count
                    if progress is not None:
                        progress(done, total)
                self._copy_checkpoints(rows, target, Chain(ledger.ledger(), name), number)

    def _copy_chain(
        self, ledger: LedgerReader, rows: Connection, target: PostgresConnection, number: int
    ) -> Iterator[int]:
        """Append the entries the target's chain lacks, in groups; yield how many are there."""
        first = int(
            target.execute(
                "SELECT coalesce(max(seq), -1) + 1 FROM entries WHERE chain = ?", (number,)
            ).get
        )
        yield first
        entries = iter(ledger.chain_entries(number, first))
        for group in iter(lambda: [*islice(entries, ENTRIES)], []):
            attached = rows.execute(_ATTACHED, (number, group[0].seq, group[-1].seq + 1))
            with target.transaction():
                load(target, "entries", ENTRY_COLUMNS, (), _entry_rows(number, group))
                load(target, "attachments", ATTACHMENT_COLUMNS, (), attached)
            yield len(group)
        # Signed is the end of the whole chain: until then no writer takes the copy for one.
        target.execute("UPDATE chains SET stamp = ? WHERE id = ?", (ledger.stamp(number), number))

    def _copy_checkpoints(
        self, rows: Connection, target: PostgresConnection, chain: Chain, number: int
    ) -> None:
        folder, before, notes = CheckpointFolder(self.source.checkpoints, chain), 0, []
        for text in folder.texts()[0]:
            size = claimed_size(text)
            hashes = rows.execute(_HASHES, (number, before, size))
            notes.append((chain.name, size, text, b"".join(each for (each,) in hashes)))
            before = size
        with target.transaction():
            load(target, "checkpoints", NOTE_COLUMNS, ("chain", "size"), notes)

    def _copy_texts(self) -> None:
        if not self.source.content.exists():
            return
        with (
            closing(self.source.content.reading()) as source,
            closing(self.target.connect("pointsman_content")) as target,
        ):
            rows = iter(CONTENTS.read(source))
            for part in iter(lambda: [*islice(rows, TEXTS)], []):
                with target.transaction():
                    load(target, CONTENTS.name, CONTENTS.columns, CONTENTS.key, part)

    def _copy_place(self, name: str) -> None:
        """Replace the rows of one store in the target by those of the home."""
        place = self.source.place(name)
        tables = [each for each in TABLES if each.place == name]
        with ExitStack() as stack:
            target = stack.enter_context(closing(self.target.connect(f"pointsman_{name}")))
            source = None
            if place.exists():
                source = stack.enter_context(closing(place.reading()))
            with target.transaction():
                for each in reversed(tables):
                    if each.title not in STAYING:
                        target.execute(f"DELETE FROM {each.name}")  # noqa: S608 - our own names
                for each in tables:
                    rows = read_or_nothing(source, each, in_key_order=False)
                    stays = each.title in STAYING
                    load(target, each.name, each.columns, each.key, rows, is_kept=stays)
                    if each.numbered:
                        count_on(target, each.name, each.numbered)

    def _copy_waiting_turns(self) -> None:
        """Put turns that wait for a tool where replicas look for them: each keeps its model."""
        with (
            closing(self.target.connect("pointsman_shared")) as target,
            target.transaction(),
        ):
            target.execute("DELETE FROM turns")
            rows = ((*row, 1, False) for row in self.waiting_turns())
            load(target, "turns", TURN_COLUMNS, ("session_id",), rows)

    def waiting_turns(self) -> list[Row]:
        """Return the turns of the home that wait for a tool."""
        if not self.source.sessions.exists():
            return []
        with closing(self.source.sessions.reading()) as source:
            return source.execute(_WAITING).fetchall()

    def _fold_spending(self) -> None:
        """Add up the spending from the copied entries, as every replica continues with it.

        Sums that a book of files holds beside the ledger are not charged: their source is unknown.
        """
        with closing(FoldedBook(self.target)) as book:
            book.flush()


def read_or_nothing(
    source: Connection | None, table: CopiedTable, *, in_key_order: bool = True
) -> Iterable[Row]:
    """Return a table's rows; none where a home was begun before there was such a table."""
    if source is None:
        return ()
    made = "SELECT 1 FROM sqlite_schema WHERE name = ?"
    if source.execute(made, (table.name,)).fetchone() is None:
        return ()
    return table.read(source, in_key_order=in_key_order)


def _entry_rows(number: int, entries: Iterable[Entry]) -> Iterator[Row]:
    for each in entries:
        place = (number, each.seq, each.at, each.kind, each.id, each.ref)
        yield (*place, each.payload, each.attached, each.prev, each.hash)
