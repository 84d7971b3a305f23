"""The memory of a witness: of each log the largest tree it cosigned. A file of no home."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock

from msgspec import Struct

from pointsman.storage.sqlite.database import named_blocks, sql_text
from pointsman.storage.sqlite.place import SqlitePlace

_SQL = named_blocks(sql_text("witness_queries.sql"))

Decide = Callable[[str, int], tuple[int, str]]
"""Takes the note kept of a log, empty where there is none, and how many logs there are; returns
the size and the note to keep, or raises."""


class LogRow(Struct, frozen=True):
    """A log, and the note in which its largest tree was cosigned."""

    origin: str
    size: int
    note: str


class WitnessedLogs:
    """Keeps the largest tree of each log; may be shared by threads."""

    def __init__(self, path: Path) -> None:
        self._connection = SqlitePlace(path).writing("witness.sql", is_lean=True)
        self._lock = Lock()

    def advance(self, origin: str, decide: Decide) -> str:
        """Replace the note of a log while nothing else does; durable when this returns it.

        DURABILITY: a witness that forgot a tree it signed would sign a second history.
        """
        with self._lock, self._connection.transaction():
            kept = self._connection.execute(_SQL["find"], (origin,)).get
            count = int(self._connection.execute(_SQL["count"]).get)
            size, note = decide(str(kept or ""), count)
            self._connection.execute(_SQL["replace"], (origin, size, note))
        return note

    def logs(self, prefix: str, most: int) -> list[LogRow]:
        """Return the logs whose origin begins like this."""
        with self._lock:
            rows = self._connection.execute(_SQL["list"], (prefix, prefix + "\x7f", most))
            return [LogRow(*row) for row in rows]

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
