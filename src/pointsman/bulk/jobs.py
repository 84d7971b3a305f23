"""Bulk jobs of a home: asked for, done range by range, concluded once, cancelled or gone on with.

What is done stays done: whoever goes on with a job does only what is missing.
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
from pointsman.bulk.kinds import kind_named
from pointsman.bulk.work import KindName
from pointsman.errors import ActionRefused, LedgerError, NotFound, PointsmanError
from pointsman.kernel.instant import Clock, IdSource
from pointsman.storage.home import Home
from pointsman.storage.place import Place
from pointsman.storage.sqlite.folder import SqliteFolder
from pointsman.storage.stores.bulk import Asked, BulkJob, BulkRange, BulkStore, Ended, Trouble

MOST_TRIES: Final = 5
PLACE: Final = "bulk"

# DETERMINISM: work with the same parameters has the same bytes, and is found again by them.
_ENCODER: Final = msgspec.json.Encoder(order="sorted")


class Begun(Struct, frozen=True):
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
        """Let go of the store."""
        self._store.close()

    @property
    def store(self) -> BulkStore:
        """Where jobs and their parts are kept."""
        return self._store

    def begin(self, kind: KindName, given: Struct) -> Begun:
        """Plan some work and write it down; work that is under way already is not begun twice."""
        asked = _ENCODER.encode(given)
        same = self._store.same(kind, asked)
        if same is not None:
            return Begun(same, is_resumed=True)
        ranges = kind_named(kind).plan_ranges(self._home, asked)
        name = self._ids.new_id()
        rows = [
            BulkRange(place, each.chain, each.number, each.first, each.end)
            for place, each in enumerate(ranges)
        ]
        self._store.begin(Asked(name, kind, asked, self._clock.now()), rows)
        return Begun(name, is_resumed=False)

    def run(self, job: str, workers: int = 1, progress: Progress | None = None) -> BulkJob:
        """Do what is missing of a job, here or in other processes, and conclude it."""
        self._check_running(job)
        kind, given, _ = self._store.given(job)
        waiting = {range_of(each): each.place for each in self._store.waiting(job)}
        found = self._store.job(job)
        done = found.entries - count_entries(waiting)
        there = partial(part_there, home_opener(self._home), kind, given)
        for each, part in run_ranges(there, [*waiting], workers):
            self._store.keep(job, waiting[each], part, self._clock.now())
            done += each.entries
            if progress is not None:
                progress(done, found.entries)
            self._check_running(job)
        return self.conclude(job)

    def _check_running(self, job: str) -> None:
        state = self._store.given(job)[2]
        if state != "running":
            raise ActionRefused(f"the bulk job `{job}` is {state}")

    def do(self, job: str, place: int, part: Callable[[str, bytes, Range], bytes]) -> None:
        """Do one range by `part`, keep what comes of it, and conclude the job if it was the last.

        A range that fails is noted, and raises so that it is tried again; too often fails the job.
        """
        kind, given, state = self._store.given(job)
        if state != "running":
            return
        each = self._store.waiting_at(job, place)
        if each is not None:
            try:
                found = part(kind, given, range_of(each))
            except PointsmanError as error:
                self._failed(job, place, error)
                raise
            self._store.keep(job, place, found, self._clock.now())
        self.conclude(job)

    def _failed(self, job: str, place: int, error: PointsmanError) -> None:
        tries = self._store.note(job, place, str(error))
        # A store that is away comes back; everything else stays as it is.
        if tries >= MOST_TRIES and not isinstance(error, LedgerError):
            self._store.end(job, self._clock.now(), Ended("failed", f"range {place}: {error}"))

    def conclude(self, job: str) -> BulkJob:
        """Fold the parts if all are there; a job is concluded once, whoever comes first."""
        kind, given, state = self._store.given(job)
        if state == "running" and not self._store.waiting(job):
            parts = self._store.parts(job)
            found = kind_named(kind).concluded(self._home, given, parts)
            ended = Ended("done", found.told, found.is_clean, bytes(found.value))
            self._store.end(job, self._clock.now(), ended)
        return self._store.job(job)

    def told(self, job: str) -> Told:
        """Give a job with what came of it."""
        return _told(self._store, job)

    def cancel(self, job: str) -> BulkJob:
        """End a job that is under way; ranges that are being done come to nothing."""
        self._check_running(job)
        self._store.end(job, self._clock.now(), Ended("cancelled", "cancelled"))
        return self._store.job(job)


def range_of(each: BulkRange) -> Range:
    """Give a range as work takes it."""
    return Range(each.chain, each.number, each.first, each.end)


def part_there(opened: Callable[[], Home], kind: str, given: bytes, each: Range) -> bytes:
    """Do one range in whatever process this is."""
    return kind_named(kind).part(opened(), given, each)


def has_queue(home: Home) -> bool:
    """Tell whether ranges are handed out to workers, rather than done by whoever asks."""
    return not isinstance(home.store, SqliteFolder)


class Told(Struct, frozen=True):
    """A job with what came of it, and what stands in its way."""

    job: BulkJob
    troubles: tuple[Trouble, ...]
    found: msgspec.Raw | None


def jobs_told(place: Place) -> list[BulkJob]:
    """Give the jobs of a store, the newest first; none where there never was one."""
    with _looking(place) as store:
        return [] if store is None else store.jobs()


def job_told(place: Place, name: str) -> Told:
    """Give one job of a store."""
    with _looking(place) as store:
        if store is None:
            raise NotFound(f"there is no bulk job `{name[:100]}`", hint="pointsman bulk status")
        return _told(store, name)


def _told(store: BulkStore, name: str) -> Told:
    job, found = store.job(name), store.found(name)
    return Told(job, tuple(store.troubles(name)), msgspec.Raw(found) if found else None)


@contextmanager
def _looking(place: Place) -> Iterator[BulkStore | None]:
    if not place.exists():
        yield None
        return
    with closing(BulkStore(place)) as store:
        yield store
