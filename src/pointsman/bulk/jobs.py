"""Bulk jobs of a home: begun, done range by range, concluded once, cancelled or resumed.

Ranges that are done stay done: resuming a job does only the missing ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from pointsman.audit.pool import Progress, home_opener, run_ranges
from pointsman.audit.ranges import Range, count_entries
from pointsman.bulk.work import KindName, kind_named
from pointsman.errors import ActionRefused, LedgerError, NotFound, PointsmanError
from pointsman.kernel.instant import Clock, IdSource
from pointsman.storage.home import Home
from pointsman.storage.place import StorePlace
from pointsman.storage.sqlite.folder import SqliteFolder
from pointsman.storage.stores.bulk import (
    BulkJob,
    BulkRange,
    BulkRequest,
    BulkStore,
    EndedRange,
    TroubleRow,
)

MOST_TRIES: Final = 5
PLACE: Final = "bulk"

# DETERMINISM: work with the same parameters has the same bytes, and is found again by them.
_ENCODER: Final = msgspec.json.Encoder(order="sorted")


class BegunJob(Struct, frozen=True):
    """A job, and whether it had been begun before."""

    id: str
    is_resumed: bool


class BulkJobs:
    """The bulk jobs of one home."""

    def __init__(self, home: Home, clock: Clock, ids: IdSource) -> None:
        self._home = home
        self._clock = clock
        self._ids = ids
        self._store = BulkStore(home.place(PLACE))

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    @property
    def store(self) -> BulkStore:
        """Where jobs and their parts are kept."""
        return self._store

    def begin(self, kind: KindName, given: Struct) -> BegunJob:
        """Plan some work and write it down; work that is under way already is not begun twice."""
        asked = _ENCODER.encode(given)
        same = self._store.same(kind, asked)
        if same is not None:
            return BegunJob(same, is_resumed=True)
        ranges = kind_named(kind).plan_ranges(self._home, asked)
        name = self._ids.new_id()
        rows = [
            BulkRange(place, each.chain, each.number, each.first, each.end)
            for place, each in enumerate(ranges)
        ]
        self._store.begin(BulkRequest(name, kind, asked, self._clock.now()), rows)
        return BegunJob(name, is_resumed=False)

    def run(self, job: str, workers: int = 1, progress: Progress | None = None) -> BulkJob:
        """Do the missing ranges of a job, here or in other processes, and conclude it."""
        self._check_running(job)
        kind, parameters, _ = self._store.parameters(job)
        waiting = {range_of(each): each.place for each in self._store.waiting(job)}
        found = self._store.job(job)
        done = found.entries - count_entries(waiting)
        work = partial(part_in_process, home_opener(self._home), kind, parameters)
        for each, part in run_ranges(work, [*waiting], workers):
            self._store.keep(job, waiting[each], part, self._clock.now())
            done += each.entries
            if progress is not None:
                progress(done, found.entries)
            self._check_running(job)
        return self.conclude(job)

    def _check_running(self, job: str) -> None:
        state = self._store.parameters(job)[2]
        if state != "running":
            raise ActionRefused(f"the bulk job `{job}` is {state}")

    def do(self, job: str, place: int, part: Callable[[str, bytes, Range], bytes]) -> None:
        """Do one range by `part`, keep its part, and conclude the job if it was the last.

        A range that fails is noted, and raises so that it is tried again; too often fails the job.
        """
        kind, parameters, state = self._store.parameters(job)
        if state != "running":
            return
        each = self._store.waiting_at(job, place)
        if each is not None:
            try:
                found = part(kind, parameters, range_of(each))
            except PointsmanError as error:
                self._note_failure(job, place, error)
                raise
            self._store.keep(job, place, found, self._clock.now())
        self.conclude(job)

    def _note_failure(self, job: str, place: int, error: PointsmanError) -> None:
        tries = self._store.note(job, place, str(error))
        # A store that is away comes back; everything else stays as it is.
        if tries >= MOST_TRIES and not isinstance(error, LedgerError):
            self._store.end(job, self._clock.now(), EndedRange("failed", f"range {place}: {error}"))

    def conclude(self, job: str) -> BulkJob:
        """Fold the parts if all are there; a job is concluded once, by the first caller."""
        kind, parameters, state = self._store.parameters(job)
        if state == "running" and not self._store.waiting(job):
            parts = self._store.parts(job)
            found = kind_named(kind).conclude(self._home, parameters, parts)
            ended = EndedRange("done", found.told, found.is_clean, bytes(found.value))
            self._store.end(job, self._clock.now(), ended)
        return self._store.job(job)

    def report(self, job: str) -> JobReport:
        """Return a job with its result."""
        return _read_report(self._store, job)

    def cancel(self, job: str) -> BulkJob:
        """End a job that is under way; ranges that are under way are dropped."""
        self._check_running(job)
        self._store.end(job, self._clock.now(), EndedRange("cancelled", "cancelled"))
        return self._store.job(job)


def range_of(each: BulkRange) -> Range:
    """Return a stored range as work takes it."""
    return Range(each.chain, each.number, each.first, each.end)


def part_in_process(open_home: Callable[[], Home], kind: str, given: bytes, each: Range) -> bytes:
    """Do one range in this process."""
    return kind_named(kind).part(open_home(), given, each)


def has_queue(home: Home) -> bool:
    """Tell whether ranges are handed out to workers, rather than done by the caller."""
    return not isinstance(home.store, SqliteFolder)


class JobReport(Struct, frozen=True):
    """A job with its result, and the ranges that fail."""

    job: BulkJob
    troubles: tuple[TroubleRow, ...]
    found: msgspec.Raw | None


def list_jobs(place: StorePlace) -> list[BulkJob]:
    """Return the jobs of a store, the newest first; none where there never was one."""
    with _open_store(place) as store:
        return [] if store is None else store.jobs()


def read_job(place: StorePlace, name: str) -> JobReport:
    """Return one job of a store, with its result."""
    with _open_store(place) as store:
        if store is None:
            raise NotFound(f"there is no bulk job `{name[:100]}`", hint="pointsman bulk status")
        return _read_report(store, name)


def _read_report(store: BulkStore, name: str) -> JobReport:
    job, result = store.job(name), store.result(name)
    return JobReport(job, tuple(store.troubles(name)), msgspec.Raw(result) if result else None)


@contextmanager
def _open_store(place: StorePlace) -> Iterator[BulkStore | None]:
    if not place.exists():
        yield None
        return
    with closing(BulkStore(place)) as store:
        yield store
