"""The rows of one chain in PostgreSQL.

The chain's lease is a lock of the session that writes: a writer that loses the connection loses the
right to write, and takes it anew before anything else. The keys of the table make a fork
impossible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import psycopg

from pointsman.errors import LeaseLost, LedgerBroken, LedgerRolledBack
from pointsman.kernel.entry import Chain, Entry
from pointsman.storage.postgres.checkpoints import SharedCheckpoints
from pointsman.storage.postgres.connection import (
    BYTEA,
    BYTEA_ARRAY,
    INT8,
    INT8_ARRAY,
    TEXT_ARRAY,
    PostgresConnection,
    Statement,
    bytea_array,
    int8_array,
    int8_value,
    is_lost,
    text_array,
    translate_error,
)
from pointsman.storage.postgres.lease import first_free, lease_again
from pointsman.storage.postgres.place import PostgresPlace
from pointsman.storage.sqlite.database import SQL
from pointsman.storage.writer.chain_rows import EntryGroup, Fence

SCHEMA: Final = "schema.sql"

_APPENDED: Final = """
WITH entry AS (
    INSERT INTO entries (chain, seq, at_us, kind, id, ref, payload, attached, prev, hash)
    SELECT $1, * FROM unnest($3, $4, $5, $6, $7, $8, $9, $10, $11)
), body AS (
    INSERT INTO attachments (chain, seq, place, body) SELECT $1, * FROM unnest($12, $13, $14)
){}
UPDATE chains SET stamp = $2 WHERE id = $1
"""
"""One statement, one journey, one commit: `appending` of SQLite in PostgreSQL's words."""

_TYPES: Final = (
    INT8, BYTEA, INT8_ARRAY, INT8_ARRAY, *[TEXT_ARRAY] * 3, *[BYTEA_ARRAY] * 4,
    INT8_ARRAY, INT8_ARRAY, BYTEA_ARRAY,
)  # fmt: skip

_WITH_TEXTS: Final = """, text AS (
    INSERT INTO pointsman_content.contents (digest, kept, text)
    SELECT * FROM unnest($15, $16, $17) ON CONFLICT (digest) DO NOTHING
)"""

_BARE: Final = Statement("append", _APPENDED.format(""), _TYPES)
_FULL: Final = Statement(
    "append_with_texts",
    _APPENDED.format(_WITH_TEXTS),
    (*_TYPES, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY),
)

_FENCED: Final = "SELECT 1 FROM pointsman.leases WHERE name = %s AND token = %s FOR SHARE"


class PostgresLedger:
    """A ledger in PostgreSQL, and sole right to write one of its chains."""

    def __init__(self, place: PostgresPlace, checkpoints: Path, writer: str) -> None:
        self._at = place
        self._root = checkpoints
        self._writer = writer
        self._leased: PostgresConnection | None = place.writing(SCHEMA)
        try:
            self.chain = first_free(self._leased, writer)
        except BaseException:
            self.release()
            raise

    @property
    def place(self) -> PostgresLedger:
        """Where to write the chain."""
        return self

    def rows(self, chain: Chain) -> PostgresRows:
        """Return the rows of a chain, not opened yet; the first take the lease over."""
        leased, self._leased = self._leased, None
        return PostgresRows(self._at, self._root, chain, self._writer, leased)

    def release(self) -> None:
        """Release the lease, unless the rows took it over: then it ends with them."""
        if self._leased is not None:
            self._leased.close()
            self._leased = None


class PostgresRows:
    """The rows of one chain: `storage.chain_rows.ChainRows` says what each part does."""

    failures = (OSError,)
    is_remote = True
    damages: tuple[type[Exception], ...] = ()

    def __init__(
        self,
        place: PostgresPlace,
        root: Path,
        chain: Chain,
        writer: str,
        leased: PostgresConnection | None = None,
    ) -> None:
        self._place = place
        self._root = root
        self._chain = chain
        self._writer = writer
        self._leased = leased
        self._connection: PostgresConnection | None = leased
        self._number = 0
        self.checkpoints = SharedCheckpoints(root, chain, place.looking)

    @property
    def is_lost(self) -> bool:
        """Tell, without asking it, whether the server has gone, and the lease with it."""
        return self._connection is not None and not self._connection.is_alive

    def open(self) -> None:
        """Take the lease, tie the database to the chain's ledger and number the chain."""
        leased, self._leased = self._leased, None
        self._connection = leased or self._newly_leased()
        self.checkpoints.writing = self._connection
        with self._connection.transaction():
            self._claim(self._connection)

    def size(self) -> int:
        """Return the number that the next entry would have."""
        return int(self._open_connection.execute(SQL["chain_size"], (self._number,)).get)

    def entries(self, first: int) -> Iterator[Entry]:
        """Return the entries from one on, in order."""
        rows = self._open_connection.execute(SQL["chain_entries"], (self._number, first))
        return (Entry(*row) for row in rows)

    def hashes(self, first: int) -> str | None:
        """Return the hashes from one on in hexadecimal capitals; nothing when there are none."""
        found = self._open_connection.execute(SQL["chain_hashes"], (self._number, first)).get
        return None if found is None else str(found)

    def stamp(self) -> bytes:
        """Return the signed end of the chain."""
        return bytes(self._open_connection.execute(SQL["read_stamp"], (self._number,)).get)

    def append(
        self, group: EntryGroup, announce: Callable[[], None], fence: Fence | None = None
    ) -> None:
        """Make entries, what belongs to them and the end of the chain durable, or none of it.

        With a fence, its lease is locked until then: its next holder sees the appended entries,
        and an earlier holder is refused.
        """
        statement, values = _FULL if group.texts else _BARE, self._values_of(group)
        connection = self._open_connection
        raw = connection.raw
        try:
            if fence is None:
                connection.execute_prepared(statement, values, announce)
                return
            with raw.transaction():
                if raw.execute(_FENCED, (fence.name, fence.token)).fetchone() is None:
                    raise LeaseLost(f"another process took over `{fence.name}`: nothing is written")
                connection.execute_prepared(statement, values, announce)
        except psycopg.Error as error:
            raise translate_error(error, str(self._place)) from error

    def _values_of(self, group: EntryGroup) -> list[bytes]:
        entries = group.entries
        bodies = [
            (entry.seq, place, body)
            for entry, draft in zip(entries, group.drafts, strict=True)
            for place, body in enumerate(draft.attachments)
        ]
        values = [
            int8_value(self._number),
            group.stamp,
            int8_array([each.seq for each in entries]),
            int8_array([each.at for each in entries]),
            text_array([each.kind for each in entries]),
            text_array([each.id for each in entries]),
            text_array([each.ref for each in entries]),
            bytea_array([each.payload for each in entries]),
            bytea_array([each.attached for each in entries]),
            bytea_array([each.prev for each in entries]),
            bytea_array([each.hash for each in entries]),
            int8_array([each[0] for each in bodies]),
            int8_array([each[1] for each in bodies]),
            bytea_array([each[2] for each in bodies]),
        ]
        if group.texts:
            # In one order everywhere: two writers of the same texts never wait for each other.
            texts = sorted({each.digest: each for each in group.texts}.items())
            values += [
                text_array([digest for digest, _ in texts]),
                text_array([each.kept for _, each in texts]),
                bytea_array([each.text for _, each in texts]),
            ]
        return values

    def restamp(self, before: bytes, after: bytes) -> None:
        """Renew the stamp on the chain's end, unless a commit has renewed it meanwhile."""
        self._open_connection.execute(SQL["restamp"], (after, self._number, before))

    def is_in_doubt(self, error: Exception) -> bool:
        """Tell whether the answer was lost, and with it whether the commit was made."""
        cause = error.__cause__
        return isinstance(cause, psycopg.Error) and is_lost(cause)

    def move(self) -> Chain:
        """Take another free chain: the holder that took this one has verified it and signs it."""
        connection = self._place.writing(SCHEMA)
        try:
            name = first_free(connection, self._writer)
        except BaseException:
            connection.close()
            raise
        self._chain, self._leased = Chain(self._chain.ledger, name), connection
        self.checkpoints = SharedCheckpoints(self._root, self._chain, self._place.looking)
        return self._chain

    def secure(self) -> None:
        """Do nothing: the server stops by itself when a sync fails, and recovers its last one."""

    def tend(self) -> None:
        """Do nothing: the server writes its log back by itself."""

    def close(self) -> None:
        """Let go of the database, and of the lease with it."""
        connection, self._connection = self._connection, None
        self.checkpoints.writing = None
        if connection is not None:
            connection.close()

    def let_go(self) -> None:
        """Close after a failure."""
        self.close()

    @property
    def _open_connection(self) -> PostgresConnection:
        if self._connection is None:
            raise LedgerBroken("the ledger is closed", where=self._chain.name)
        return self._connection

    def _newly_leased(self) -> PostgresConnection:
        connection = self._place.writing(SCHEMA)
        try:
            lease_again(connection, self._chain.name)
        except BaseException:
            connection.close()
            raise
        return connection

    def _claim(self, connection: PostgresConnection) -> None:
        """Tie database and ledger id together, and number the chain."""
        known = connection.execute(SQL["read_meta"], ("ledger",)).get
        if known is None:
            self._check_is_first()
            connection.execute(SQL["write_meta"], ("ledger", self._chain.ledger))
        elif known != self._chain.ledger:
            raise LedgerBroken(
                f"the database belongs to ledger `{known}`",
                where=str(self._place),
                hint="use the identity.json and keys/ that belong to it, or another database",
            )
        number = connection.execute(SQL["find_chain"], (self._chain.name,)).get
        if number is None:
            connection.execute(SQL["add_chain"], (self._chain.name,))
            number = connection.execute(SQL["find_chain"], (self._chain.name,)).get
        self._number = int(number)

    def _check_is_first(self) -> None:
        """Refuse to start anew where a ledger was signed: its database is gone, not unborn."""
        chains = self._place.store.checkpoints().chains()
        if chains:
            raise LedgerRolledBack(
                f"the database is empty, but there are checkpoints of {', '.join(chains)}",
                where=str(self._place),
                hint="restore the newest database, or keep the checkpoints aside",
            )
