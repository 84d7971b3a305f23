"""Bulk jobs as values and words, for the command line and the HTTP API."""

from __future__ import annotations

from msgspec import Raw, Struct

from pointsman.bulk.jobs import JobReport
from pointsman.kernel.instant import SECOND, instant_text
from pointsman.storage.stores.bulk import BulkJob, TroubleRow


class BulkRow(Struct, frozen=True):
    """A job: its kind of work, how far it is, and its result in one line."""

    id: str
    kind: str
    state: str
    begun_at: str
    ended_at: str | None
    is_clean: bool | None
    told: str
    ranges: int
    ranges_done: int
    entries: int
    entries_done: int
    entries_a_second: int | None
    troubled: int


class BulkAnswer(Struct, frozen=True):
    """The newest jobs of bulk work first."""

    jobs: tuple[BulkRow, ...]


class BulkJobAnswer(Struct, frozen=True):
    """One job; `result` is there when it is at its end, in the shape of its kind of work."""

    job: BulkRow
    troubles: tuple[TroubleRow, ...]
    result: Raw | None


def bulk_row(job: BulkJob) -> BulkRow:
    """Return a job as it is shown."""
    return BulkRow(
        id=job.id,
        kind=job.kind,
        state=job.state,
        begun_at=instant_text(job.begun_at),
        ended_at=None if job.ended_at is None else instant_text(job.ended_at),
        is_clean=job.is_clean,
        told=job.told,
        ranges=job.ranges,
        ranges_done=job.ranges_done,
        entries=job.entries,
        entries_done=job.entries_done,
        entries_a_second=_speed(job),
        troubled=job.troubled,
    )


def job_answer(report: JobReport) -> BulkJobAnswer:
    """Return a job with its troubles and its result."""
    return BulkJobAnswer(bulk_row(report.job), report.troubles, report.found)


def progress_text(job: BulkJob) -> str:
    """Say how far a job is."""
    speed = _speed(job)
    told = f"{job.entries_done} of {job.entries} entries"
    return told if speed is None else f"{told}, {speed} a second"


def _speed(job: BulkJob) -> int | None:
    """Return entries a second from its begin to when the last range was done."""
    if job.last_done_at is None or job.last_done_at <= job.begun_at:
        return None
    return job.entries_done * SECOND // (job.last_done_at - job.begun_at)
