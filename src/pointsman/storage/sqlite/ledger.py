"""The rows of one chain in a SQLite file. The caller holds the chain's lease."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw
from msgspec import Struct

from pointsman.errors import LedgerBroken, LedgerRolledBack
from pointsman.kernel.entry import Chain, Draft, Entry
from pointsman.storage.sqlite.database import (
    LOG_PAGES,
    SQL,
    SqliteConnection,
    in_transaction,
    insert_rows,
    open_database,
)
from pointsman.storage.writer.chain_rows import EntryGroup, Fence
from pointsman.storage.writer.checkpoints import CheckpointFolder, chains_with_checkpoints
from pointsman.storage.writer.lease import Lease

CACHE_KIB = 4 * 1024
"""Little is enough: every index grows at its end."""
Row = tuple[int | str | bytes | None, ...]

ROWS_STEP: Final = 8
FEWEST_ROWS: Final = 4
"""Those of a turn that is alone: its decision, its facts, the end of the one before, the stamp."""
_NOTHING: Final[Row] = ("", *[None] * 10)


class WritePlace(Struct, frozen=True):
    """Where a ledger's parts are, and how its database is opened."""

    database: Path
    checkpoints: Path
    vfs: str | None = None
    sync: str = "FULL"
    exclusive: bool = False
    log_pages: int = LOG_PAGES

    def rows(self, chain: Chain) -> SqliteRows:
        """Return the rows of a chain, not opened yet."""
        return SqliteRows(self, chain)


class SqliteLedger(Struct, frozen=True):
    """A ledger in SQLite, and sole right to write one of its chains."""

    place: WritePlace
    lease: Lease

    @property
    def chain(self) -> str:
        """The chain's name."""
        return self.lease.chain

    def release(self) -> None:
        """Release the lease."""
        self.lease.release()


class SqliteRows:
    """The rows of one chain: `storage.chain_rows.ChainRows` says what each part does."""

    failures = (apsw.Error, OSError)
    damages = (apsw.CorruptError, apsw.NotADBError)
    is_lost = False
    is_remote = False

    _connection: SqliteConnection

    def __init__(self, place: WritePlace, chain: Chain) -> None:
        self._place = place
        self._chain = chain
        self.checkpoints = CheckpointFolder(place.checkpoints, chain)

    def open(self) -> None:
        """Open the database anew, tie it to the chain's ledger and number the chain."""
        place = self._place
        self._connection = open_database(
            str(place.database),
            "schema.sql",
            vfs=place.vfs,
            sync=place.sync,
            exclusive=place.exclusive,
            cache_kib=CACHE_KIB,
        )
        self._connection.tend()
        self._connection.execute(SQL["appending"])
        in_transaction(self._connection, self._claim)

    def size(self) -> int:
        """Return the number that the next entry would have."""
        return int(self._connection.execute(SQL["chain_size"], (self._number,)).get)

    def entries(self, first: int) -> Iterator[Entry]:
        """Return the entries from one on, in order."""
        rows = self._connection.execute(SQL["chain_entries"], (self._number, first))
        return (Entry(*row) for row in rows)

    def hashes(self, first: int) -> str | None:
        """Return the hashes from one on in hexadecimal capitals; nothing when there are none."""
        found: str | None = self._connection.execute(SQL["chain_hashes"], (self._number, first)).get
        return found

    def stamp(self) -> bytes:
        """Return the signed end of the chain."""
        return bytes(self._connection.execute(SQL["read_stamp"], (self._number,)).get)

    def append(
        self,
        group: EntryGroup,
        announce: Callable[[], None],
        fence: Fence | None = None,  # noqa: ARG002 - a lock of this process cannot be lost
    ) -> None:
        """Make entries, their attachments and the end of the chain durable, or none of it."""
        announce()
        rows = appended_rows(self._number, group.entries, group.drafts, group.stamp)
        insert_rows(self._connection, SQL["append"], rows)

    def restamp(self, before: bytes, after: bytes) -> None:
        """Renew the stamp on the chain's end, unless a commit has renewed it meanwhile."""
        self._connection.execute(SQL["restamp"], (after, self._number, before))

    def is_in_doubt(self, error: Exception) -> bool:  # noqa: ARG002 - SQLite always answers
        """Tell that nothing is: a group that was not acknowledged waits for the next opening."""
        return False

    def move(self) -> None:
        """Stay: the lease is a lock of this process, and cannot be lost."""

    def secure(self) -> None:
        """Begin the log anew."""
        # A failed sync may leave parts of the log marked clean that never reached the disk. They
        # are read back as if they had: only a log begun anew can carry further entries.
        self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def tend(self) -> None:
        """Write the log back once it is long."""
        self._connection.tend(self._place.log_pages)

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def let_go(self) -> None:
        """Close after a failure; nothing more is written or synced through the connection."""
        if "_connection" in self.__dict__:
            with suppress(apsw.Error):
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                self._connection.close()

    def _claim(self) -> None:
        """Tie database and ledger id together, and number the chain."""
        known = self._connection.execute(SQL["read_meta"], ("ledger",)).get
        if known is None:
            self._check_is_first()
            self._connection.execute(SQL["write_meta"], ("ledger", self._chain.ledger))
        elif known != self._chain.ledger:
            raise LedgerBroken(f"the database belongs to ledger `{known}`")
        number = self._connection.execute(SQL["find_chain"], (self._chain.name,)).get
        if number is None:
            self._connection.execute(SQL["add_chain"], (self._chain.name,))
            number = self._connection.last_insert_rowid()
        self._number = int(number)

    def _check_is_first(self) -> None:
        """Refuse to start anew where a ledger was signed: its database is gone, not unborn."""
        chains = chains_with_checkpoints(self._place.checkpoints)
        if chains:
            raise LedgerRolledBack(
                f"the database is empty, but there are checkpoints of {', '.join(chains)}",
                where=str(self._place.database),
                hint="restore the newest database, or name it: --store URL",
            )


def appended_rows(
    number: int, entries: Sequence[Entry], drafts: Sequence[Draft], stamp: bytes
) -> list[Row]:
    """Return a group as the rows of one statement, which `appending` in queries.sql takes apart.

    They are its entries, their attachments, and the signature over where the chain then ends.
    """
    rows: list[Row] = [
        ("entry", number, e.seq, e.at, e.kind, e.id, e.ref, e.payload, e.attached, e.prev, e.hash)
        for e in entries
    ]
    rows += [
        ("body", number, entry.seq, place, None, None, None, body, None, None, None)
        for entry, draft in zip(entries, drafts, strict=True)
        for place, body in enumerate(draft.attachments)
    ]
    rows.append(("stamp", number, *[None] * 5, stamp, *[None] * 3))
    # Rows that say nothing: few sizes of the statement are ever compiled.
    lacking = -len(rows) % ROWS_STEP if len(rows) > FEWEST_ROWS else FEWEST_ROWS - len(rows)
    return rows + [_NOTHING] * lacking
