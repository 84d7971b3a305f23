"""What a store needs of a database: statements, transactions, and whether another process wrote.

Statements are written for SQLite. Another database speaks its own dialect of them behind this
protocol, so that each store is one class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Value = int | str | bytes | float | None
Values = Sequence[Value] | Mapping[str, Value]
Row = tuple[Any, ...]
"""One row; its types are those of the columns, which the tables fix."""


class Rows(Protocol):
    """What a statement gives; to be read before the next statement of the connection."""

    def __iter__(self) -> Iterator[Row]:
        """Return the rows that were not given yet."""
        ...

    def fetchone(self) -> Row | None:
        """Return the next row, or nothing."""
        ...

    def fetchall(self) -> list[Row]:
        """Return the rows that were not given yet."""
        ...

    @property
    def get(self) -> Any:
        """The only column of the only row; None where there is no row."""
        ...


class Connection(Protocol):
    """One connection to one store, to be used by one thread at a time."""

    def execute(self, sql: str, values: Values = ..., /) -> Rows:
        """Run a statement; outside a transaction it is durable when this returns."""
        ...

    def stream(self, sql: str, values: Values = ..., /) -> Iterable[Row]:
        """Run a query whose rows may be too many for memory; other statements may go between."""
        ...

    def executemany(self, sql: str, rows: Iterable[Values], /) -> object:
        """Run a statement once for each row of values."""
        ...

    def changes(self) -> int:
        """Count the rows that the last statement inserted, changed or removed."""
        ...

    def total_changes(self) -> int:
        """Count the rows that all statements of the connection inserted, changed or removed."""
        ...

    def transaction(self) -> AbstractContextManager[object]:
        """Make the statements run inside durable together, or undo them, as the only writer."""
        ...

    def freeze(self) -> None:
        """See the store as it is now until the connection is closed, whatever others write."""
        ...

    def version(self) -> int:
        """Return a number that changes whenever another connection has written."""
        ...

    def scrub(self) -> None:
        """Wipe overwritten values from freed pages and from the log, too."""
        ...

    def tend(self, pages: int) -> None:
        """Write the log back once it has so many pages; called after commits."""
        ...

    def damage(self) -> str:
        """Return the database's own complaint about its pages; empty where they are sound."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...
