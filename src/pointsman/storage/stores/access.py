"""Virtual keys and the admin token on disk. Stores rows as they come; no secret reaches it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from pointsman.kernel.instant import Instant
from pointsman.storage.connection import Connection
from pointsman.storage.place import Where
from pointsman.storage.sqlite.database import in_transaction, named_blocks, sql_text
from pointsman.storage.sqlite.place import place_of

SQL = named_blocks(sql_text("access_queries.sql"))
SCHEMA = "access.sql"

T = TypeVar("T")


class StoredKey(Struct, frozen=True):
    """One key as it is stored; `changed` grows with every key that is made or ended."""

    id: str
    digest: bytes
    body: bytes
    revoked_at: Instant | None = None
    last_used_at: Instant | None = None
    changed: int = 0


class AccessStore:
    """The keys of one home; may be shared by threads.

    Reading has a connection of its own, which no write makes wait. Writes open one for the moment:
    they are rare, and a command that only lists must not make a database.
    """

    def __init__(self, where: Where) -> None:
        self._place = place_of(where)
        self._lock = threading.Lock()
        self._reading: Connection | None = None

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            if self._reading is not None:
                self._reading.close()
                self._reading = None

    def version(self) -> int:
        """Return a number that changes with every write; -1 before the first."""
        found = self._read(lambda connection: connection.version())
        return -1 if found is None else found

    def changed_since(self, change: int) -> list[StoredKey]:
        """Return the keys that were made or ended after a change, the oldest change first."""
        return self._rows("changed_since", (change,))

    def every_key(self) -> list[StoredKey]:
        """Return every key, in the order they were made."""
        return self._rows("all_keys", ())

    def admin_digest(self) -> bytes | None:
        """Return the digest of the admin token that was made here."""
        found = self._read(lambda each: each.execute(SQL["admin_digest"]).fetchone())
        return bytes(found[0]) if found else None

    def add(self, row: StoredKey) -> None:
        """Keep a new key."""
        self._write("add_key", [(row.id, row.digest, row.body)])

    def revoke(self, key_id: str, at: Instant) -> bool:
        """End a key for good; False when there is none that could be ended."""
        return self._write("revoke_key", [(at, key_id)]) > 0

    def note_uses(self, uses: Mapping[str, Instant]) -> None:
        """Remember when keys were used last."""
        self._write("note_use", [(at, key_id, at) for key_id, at in uses.items()])

    def add_admin(self, digest: bytes) -> bool:
        """Keep the digest of the first admin token; False when there is one already."""
        return self._write("add_admin", [(digest,)]) > 0

    def _rows(self, name: str, values: tuple[int, ...]) -> list[StoredKey]:
        found = self._read(lambda connection: [*connection.execute(SQL[name], values)])
        return [StoredKey(*row) for row in found or ()]

    def _read(self, work: Callable[[Connection], T]) -> T | None:
        """Look at the database; nothing where there is none yet."""
        with self._lock, self._place.told_errors():
            if self._reading is None:
                if not self._place.exists():
                    return None
                # Opened for writing: a database whose making was cut short has no tables.
                self._reading = self._place.lasting(SCHEMA)
            return work(self._reading)

    def _write(self, name: str, rows: Sequence[tuple[str | bytes | int, ...]]) -> int:
        with self._place.told_errors():
            connection = self._place.writing(SCHEMA)
            try:
                before = connection.total_changes()
                in_transaction(connection, lambda: connection.executemany(SQL[name], rows))
                return connection.total_changes() - before
            finally:
                connection.close()
