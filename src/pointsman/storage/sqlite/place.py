"""A SQLite file as the place of a store."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import PosixPath

from pointsman.storage.place import StorePlace, Where
from pointsman.storage.sqlite.database import (
    CACHE_KIB,
    SqliteConnection,
    open_database,
    opened_for_reading,
    sqlite_errors_told,
)

LEAN_CACHE_KIB = 4 * 1024
"""The cache of a connection that reads seldom."""


class SqlitePlace(PosixPath):
    """A file that holds one store; still a path, so that it can be copied or removed."""

    def size(self) -> int:
        """Count the bytes of the file."""
        return self.stat().st_size if self.exists() else 0

    def writing(
        self, schema: str, *, sync: str = "FULL", is_lean: bool = False
    ) -> SqliteConnection:
        """Open for writing, making the tables where there are none."""
        cache_kib = LEAN_CACHE_KIB if is_lean else CACHE_KIB
        return open_database(str(self), schema, sync=sync, cache_kib=cache_kib)

    lasting = writing
    """A file is not lost while a process runs."""

    def reading(self) -> SqliteConnection:
        """Open the file, which must exist, without the right to write."""
        return opened_for_reading(str(self))

    def told_errors(self) -> AbstractContextManager[None]:
        """Turn what SQLite raises into an error that says what to do."""
        return sqlite_errors_told(self)


def place_of(where: Where) -> StorePlace:
    """Return a place as it is, and the path of a file as the place of SQLite that it names."""
    return SqlitePlace(where) if type(where) is PosixPath else where  # type: ignore[return-value]
