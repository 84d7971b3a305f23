"""Bulk work as tables: the request, its ranges, and the part of each that is done.

Parts are kept as they were given; their meaning is the business of the worker.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from pointsman.errors import NotFound
from pointsman.kernel.instant import Instant
from pointsman.storage.connection import Connection, Row, Value
from pointsman.storage.place import Where
from pointsman.storage.sqlite.database import named_blocks, sql_text
from pointsman.storage.sqlite.place import place_of

State = Literal["running", "done", "failed", "cancelled"]

MOST_JOBS: Final = 100
MOST_TROUBLES: Final = 20

_SQL = named_blocks(sql_text("bulk_queries.sql"))


class BulkRange(Struct, frozen=True):
    """One range of some work; `place` is where it stands among the ranges."""

    place: int
    chain: str
    number: int
    first: int
    end: int


class BulkRequest(Struct, frozen=True):
    """Some work as it was asked for; `given` are its parameters, as JSON."""

    id: str
    kind: str
    given: bytes
    at: Instant


class EndedRange(Struct, frozen=True):
    """The result of some work; `found` is JSON."""

    state: State
    told: str
    is_clean: bool | None = None
    found: bytes = b""


class BulkJob(Struct, frozen=True):
    """Some work, and how far it is."""

    id: str
    kind: str
    begun_at: Instant
    ended_at: Instant | None
    state: State
    is_clean: bool | None
    told: str
    ranges: int
    ranges_done: int
    entries: int
    entries_done: int
    last_done_at: Instant | None
    troubled: int


class TroubleRow(Struct, frozen=True):
    """A range that could not be done, and why."""

    place: int
    chain: str
    first: int
    end: int
    tries: int
    trouble: str


class BulkStore:
    """The bulk work of one home; may be shared by threads."""

    def __init__(self, where: Where) -> None:
        self._place = place_of(where)
        self._lock = threading.Lock()
        with self._place.told_errors():
            self._connection: Connection = self._place.writing("bulk.sql")

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            self._connection.close()

    def begin(self, asked: BulkRequest, ranges: Sequence[BulkRange]) -> None:
        """Write down some work and its ranges, all or nothing."""
        job = (asked.id, asked.kind, asked.given, asked.at, b"")
        rows = [(asked.id, r.place, r.chain, r.number, r.first, r.end) for r in ranges]
        with self._lock, self._place.told_errors(), self._connection.transaction():
            self._connection.execute(_SQL["add_job"], job)
            self._connection.executemany(_SQL["add_range"], rows)

    def jobs(self, most: int = MOST_JOBS) -> list[BulkJob]:
        """Return the requested work, the newest first."""
        return [_job(row) for row in self._rows("list_jobs", "%", most)]

    def job(self, name: str) -> BulkJob:
        """Return a job by its id."""
        for row in self._rows("list_jobs", name, 1):
            if row[0] == name:
                return _job(row)
        raise NotFound(f"there is no bulk job `{name[:100]}`", hint="pointsman bulk status")

    def same(self, kind: str, given: bytes) -> str | None:
        """Return the id of work of the same kind and parameters that is not at its end."""
        return next((str(row[0]) for row in self._rows("find_same", kind, given)), None)

    def running(self) -> list[str]:
        """Return the ids of unfinished work, the oldest first."""
        return [str(row[0]) for row in self._rows("running_jobs")]

    def parameters(self, job: str) -> tuple[str, bytes, State]:
        """Return the kind, the parameters and the state of some work."""
        for kind, given, state in self._rows("read_given", job):
            return str(kind), bytes(given), state
        raise NotFound(f"there is no bulk job `{job[:100]}`", hint="pointsman bulk status")

    def result(self, job: str) -> bytes:
        """Return the result of a job, as JSON; empty while it is not at its end."""
        return next((bytes(row[0]) for row in self._rows("read_found", job)), b"")

    def waiting(self, job: str) -> list[BulkRange]:
        """Return the ranges that are not done."""
        return [BulkRange(*row) for row in self._rows("waiting_ranges", job)]

    def waiting_at(self, job: str, place: int) -> BulkRange | None:
        """Return one range; None where it is done."""
        rows = self._rows("waiting_range", job, place)
        return BulkRange(*rows[0]) if rows else None

    def keep(self, job: str, place: int, part: bytes, at: Instant) -> bool:
        """Keep the result of a range; False where it was done before."""
        return self._change("keep_part", part, at, job, place)

    def note(self, job: str, place: int, trouble: str) -> int:
        """Note why a range could not be done; gives how often it was tried."""
        self._change("note_trouble", trouble, job, place)
        return next((int(row[0]) for row in self._rows("read_tries", job, place)), 0)

    def parts(self, job: str) -> list[bytes]:
        """Return the results of finished ranges, in order."""
        return [bytes(row[0]) for row in self._rows("read_parts", job)]

    def troubles(self, job: str) -> list[TroubleRow]:
        """Return what stands in the way."""
        return [TroubleRow(*row) for row in self._rows("read_troubles", job, MOST_TROUBLES)]

    def end(self, job: str, at: Instant, ended: EndedRange) -> bool:
        """Write down the result of some work; False where it was at its end before."""
        clean = None if ended.is_clean is None else int(ended.is_clean)
        return self._change("end_job", ended.state, at, clean, ended.told, ended.found, job)

    def _rows(self, name: str, *values: Value) -> list[Row]:
        with self._lock, self._place.told_errors():
            return self._connection.execute(_SQL[name], values).fetchall()

    def _change(self, name: str, *values: Value) -> bool:
        with self._lock, self._place.told_errors():
            self._connection.execute(_SQL[name], values)
            return self._connection.changes() > 0


def _job(row: Row) -> BulkJob:
    name, kind, begun, ended, state, clean, *rest = row
    return BulkJob(name, kind, begun, ended, state, None if clean is None else bool(clean), *rest)
