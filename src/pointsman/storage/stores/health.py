"""The health of a home's providers: one value that its processes change in turn."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, TypeVar

import apsw

from pointsman.errors import LedgerUnavailable
from pointsman.storage.place import StorePlace
from pointsman.storage.sqlite.database import SqliteConnection, named_blocks, sql_text

HEALTH: Final = "health"
"""What the store is called in a home."""

BUSY_MS: Final = 100
"""How long a change waits for another process. A change takes a tenth of a millisecond and no sync,
so only a process that was stopped in the middle of one keeps others waiting. The event loop of a
gateway waits, too: after this it goes on with a state of its own."""

NOT_THERE: Final = -1
"""The version of a store that was never written."""

T = TypeVar("T")
Change = Callable[[bytes], tuple[bytes, T]]
"""Makes a new value of the one that is there; pure, because it may be asked twice."""

_SQL = named_blocks(sql_text("health_queries.sql"))


class HealthStore:
    """Keeps one value; the file is made with the first change. For one thread at a time.

    Commits are not synced: a killed process loses nothing; a power cut may take the last changes,
    and the calls after it find out anew.
    """

    def __init__(self, place: StorePlace) -> None:
        self._place = place
        self._path = str(place)
        self._connection: SqliteConnection | None = None
        self._opened = 0

    def version(self) -> int:
        """Return a number that changes when another process made a change. Takes microseconds."""
        try:
            if self._connection is None and not os.path.exists(self._path):  # noqa: PTH110 - asked at every turn
                return NOT_THERE
            seen = (self._connection or self._open()).version()
        except apsw.Error as error:
            raise self._error(error) from error
        # A connection counts its own way: one that is opened anew has another number, too.
        return self._opened + seen

    def read(self) -> bytes:
        """Return the value; empty where there is none."""
        try:
            return self._read()
        except apsw.Error as error:
            raise self._error(error) from error

    def change(self, change: Change[T]) -> T:
        """Replace the value while no other process does.

        INVARIANT: changes have one order, and each is made on the value that the one before left.
        """
        try:
            try:
                return self._change(change)
            except (apsw.CantOpenError, apsw.SQLError):
                self.prepare()
                return self._change(change)
        except apsw.Error as error:
            raise self._error(error) from error

    def prepare(self) -> None:
        """Make the file where there is none, so that no change has to wait for that."""
        try:
            self._place.writing("health.sql", sync="NORMAL", is_lean=True).close()
        except (apsw.Error, OSError) as error:
            raise self._error(error) from error

    def close(self) -> None:
        """Let go of the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _read(self) -> bytes:
        return bytes(self._open().execute(_SQL["read"]).get or b"")

    def _change(self, change: Change[T]) -> T:
        connection = self._open()
        with connection.transaction():
            value, told = change(self._read())
            connection.execute(_SQL["write"], (value,))
        return told

    def _open(self) -> SqliteConnection:
        """Open what exists, without a look at its tables: that would wait for other processes."""
        if self._connection is None:
            connection = SqliteConnection(self._path, flags=apsw.SQLITE_OPEN_READWRITE)
            connection.set_busy_timeout(BUSY_MS)
            connection.pragma("synchronous", "NORMAL")
            connection.pragma("trusted_schema", 0)
            self._connection = connection
            self._opened += 1 << 32
        return self._connection

    def _error(self, error: Exception) -> LedgerUnavailable:
        if not isinstance(error, apsw.BusyError):
            self.close()
        return LedgerUnavailable(
            f"the health of providers is not shared: {error}", where=self._path
        )
