"""A connection to PostgreSQL that outlives it: lost with the server, it is opened anew.

For stores that are open as long as their process. What fails, fails: a statement whose answer was
lost is not said again, but the next one finds a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from pointsman.storage.connection import Row, Values
from pointsman.storage.postgres.connection import Fetched, PostgresConnection


class RenewedConnection:
    """One connection after the other: `storage.connection.Connection` says what each part does."""

    def __init__(self, opened: Callable[[], PostgresConnection]) -> None:
        self._opened = opened
        self._current = opened()
        self._is_busy = False
        self._counted = 0

    def execute(self, sql: str, values: Values = ()) -> Fetched:
        """Run a statement; outside a transaction it is durable when this returns."""
        return self._usable().execute(sql, values)

    def stream(self, sql: str, values: Values = ()) -> Iterator[Row]:
        """Run a query whose rows may be too many for memory; other statements may go between."""
        return self._usable().stream(sql, values)

    def executemany(self, sql: str, rows: Iterable[Values]) -> None:
        """Run a statement once for each row of values."""
        self._usable().executemany(sql, rows)

    def changes(self) -> int:
        """Count the rows that the last statement inserted, changed or removed."""
        return self._current.changes()

    def total_changes(self) -> int:
        """Count the rows that all statements inserted, changed or removed."""
        return self._counted + self._current.total_changes()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the statements run inside durable together, or undo them, as the only writer."""
        current = self._usable()
        # INVARIANT: a transaction never goes on in another connection than it began in.
        self._is_busy = True
        try:
            with current.transaction():
                yield
        finally:
            self._is_busy = False

    def freeze(self) -> None:
        """See the store as it is now until the connection is closed, whatever others write."""
        self._usable().freeze()
        self._is_busy = True

    def version(self) -> int:
        """Return a number that changes whenever another connection has written."""
        return self._usable().version()

    def scrub(self) -> None:
        """Remove overwritten rows from the tables; the server's log still has them for a while."""
        self._usable().scrub()

    def tend(self, pages: int) -> None:
        """Leave it to the server."""

    def damage(self) -> str:
        """Return the server's own complaint about the store's indexes, where it can check them."""
        return self._usable().damage()

    def close(self) -> None:
        """Let go of the database."""
        self._current.close()

    def _usable(self) -> PostgresConnection:
        if not self._is_busy and not self._current.is_alive:
            self._counted += self._current.total_changes()
            self._current.close()
            self._current = self._opened()
        return self._current
