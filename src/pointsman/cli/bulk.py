"""`bulk`: work over millions of decisions, in ranges, that goes on where it was interrupted."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from pointsman.app import Pointsman
from pointsman.bulk.jobs import PLACE, BulkJobs, JobReport, has_queue, list_jobs, read_job
from pointsman.bulk.parquet.export import export_given
from pointsman.bulk.reruns import ReplayGiven, backtest_given
from pointsman.bulk.rescoring import RescoreGiven
from pointsman.bulk.verifying import VerifyGiven
from pointsman.bulk.view import bulk_row, job_answer, progress_text
from pointsman.bulk.work import KindName
from pointsman.cli.groups import CommandGroup
from pointsman.cli.records import bar
from pointsman.cli.terms import Session, command, count_text, read_input
from pointsman.errors import HomeError
from pointsman.kernel.columns import table
from pointsman.kernel.document import printable
from pointsman.kernel.instant import EPOCH, Instant, instant_text, read_instant
from pointsman.storage.stores.bulk import BulkJob

if TYPE_CHECKING:
    from pointsman.bulk.queue import BulkQueue

LOOK_S = 0.5


class RunOptions(Struct, frozen=True):
    """How many processes run a job, and whether to wait for workers elsewhere."""

    workers: int | None
    wait: bool


@click.group(cls=CommandGroup)
def bulk() -> None:
    """Replay, backtest, verify, export or re-score millions of decisions."""


@bulk.group()
def start() -> None:
    """Begin some bulk work, or go on with it where it was interrupted."""


WORKERS = click.option("--workers", type=click.IntRange(1, 64), help="Processes [one a core].")
WAIT = click.option("--wait", is_flag=True, help="On PostgreSQL: wait until workers have done it.")


@start.command()
@click.option("--since", metavar="INSTANT", help="Only decisions from this instant on (RFC 3339).")
@WORKERS
@WAIT
@command
def replay(session: Session, since: str | None, workers: int | None, wait: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Re-run recorded decisions and compare their bytes."""
    with session.open() as pointsman:
        _run_job(
            session, pointsman, "replay", ReplayGiven(_instant(since)), RunOptions(workers, wait)
        )


@start.command()
@click.option("--policy", required=True, metavar="FILE|-", help="The other routing.yaml.")
@click.option("--models", metavar="FILE", help="The models.yaml it rests on [that of the home].")
@click.option("--since", metavar="INSTANT", help="Only turns from this instant on (RFC 3339).")
@click.option("--no-previews", is_flag=True, help="Leave out turns that `route` only previewed.")
@WORKERS
@WAIT
@command
def backtest(  # noqa: PLR0913, PLR0917 - one for each option
    session: Session,
    policy: str,
    models: str | None,
    since: str | None,
    no_previews: bool,  # noqa: FBT001 - click passes flags so
    workers: int | None,
    wait: bool,  # noqa: FBT001 - likewise
) -> None:
    """Run recorded turns under another policy: what changes, and what it costs."""
    with session.open() as pointsman:
        other = pointsman.candidate_policy(
            read_input(policy), None if models is None else read_input(models)
        )
        given = backtest_given(other, _instant(since), previews=not no_previews)
        _run_job(session, pointsman, "backtest", given, RunOptions(workers, wait))


@start.command()
@WORKERS
@WAIT
@command
def verify(session: Session, workers: int | None, wait: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Check every chain, checkpoint and signature of the ledger."""
    with session.open() as pointsman:
        _run_job(session, pointsman, "verify", VerifyGiven(), RunOptions(workers, wait))


@start.command()
@click.option("--parquet", "target", required=True, metavar="DIR", help="Where the files go.")
@click.option("--since", metavar="INSTANT", help="Only from the day of this instant on, in UTC.")
@click.option("--text", is_flag=True, help="Also what is kept of the messages' text.")
@WORKERS
@WAIT
@command
def export(
    session: Session,
    target: str,
    since: str | None,
    text: bool,  # noqa: FBT001 - click passes flags so
    workers: int | None,
    wait: bool,  # noqa: FBT001 - likewise
) -> None:
    """Write decisions, calls and verdicts as Parquet files by day; only what is new."""
    with session.open() as pointsman:
        given = export_given(Path(target), _instant(since), has_text=text)
        _run_job(session, pointsman, "export", given, RunOptions(workers, wait))


@start.command()
@WORKERS
@WAIT
@command
def rescore(session: Session, workers: int | None, wait: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Count what was thought of turns for their patterns again."""
    with session.open() as pointsman:
        _run_job(session, pointsman, "rescore", RescoreGiven(), RunOptions(workers, wait))


@bulk.command()
@click.option("--concurrency", type=click.IntRange(1, 64), help="Processes [one a core].")
@click.option("--once", is_flag=True, help="End when nothing is left to do.")
@command
def work(session: Session, concurrency: int | None, once: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Do what is left of bulk work; on PostgreSQL also what comes."""
    workers = concurrency or os.cpu_count() or 1
    with session.open() as pointsman, _jobs(pointsman) as jobs:
        if has_queue(pointsman.home):
            asyncio.run(_queue(pointsman, jobs).work(workers, wait=not once))
            found = []
        else:
            with bar("working", session) as progress:
                found = [jobs.run(job, workers, progress) for job in jobs.store.running()]
    session.show(_list_text(found) if found else "nothing is left to do", [*map(bulk_row, found)])


@bulk.command()
@click.argument("name", metavar="[ID]", required=False)
@command
def status(session: Session, name: str | None) -> None:
    """Tell how far bulk work is; without an id, all of it."""
    with session.open() as pointsman:
        place = pointsman.home.place(PLACE)
        if name is None:
            found = list_jobs(place)
            session.show(_list_text(found), [*map(bulk_row, found)])
            return
        report = read_job(place, name)
    _show(session, report)


@bulk.command()
@click.argument("name", metavar="ID")
@command
def cancel(session: Session, name: str) -> None:
    """End bulk work that is under way."""
    with session.open() as pointsman, _jobs(pointsman) as jobs:
        found = jobs.cancel(name)
    session.show(_job_text(found), bulk_row(found))


def _run_job(
    session: Session, pointsman: Pointsman, kind: KindName, given: Struct, how: RunOptions
) -> None:
    with _jobs(pointsman) as jobs:
        begun = jobs.begin(kind, given)
        if begun.is_resumed and not session.as_json:
            click.echo(f"going on with {begun.id}", err=True)
        with bar(kind, session) as progress:
            if not has_queue(pointsman.home):
                found = jobs.run(begun.id, how.workers or os.cpu_count() or 1, progress)
            else:
                _queue(pointsman, jobs).hand_out(begun.id)
                found = _wait_for_workers(jobs, begun.id, progress, wait=how.wait)
        _show(session, jobs.report(begun.id))
    sys.exit(1 if found.is_clean is False or found.state in {"failed", "cancelled"} else 0)


def _wait_for_workers(
    jobs: BulkJobs, name: str, progress: Callable[[int, int], None] | None, *, wait: bool
) -> BulkJob:
    found = jobs.store.job(name)
    while wait and found.state == "running":
        time.sleep(LOOK_S)
        found = jobs.store.job(name)
        if progress is not None:
            progress(found.entries_done, found.entries)
    return found


def _show(session: Session, report: JobReport) -> None:
    lines = [_job_text(report.job)]
    lines += [printable(f"  range {each.place}: {each.trouble}") for each in report.troubles]
    session.show("\n".join(lines), job_answer(report))


@contextmanager
def _jobs(pointsman: Pointsman) -> Iterator[BulkJobs]:
    with closing(BulkJobs(pointsman.home, pointsman.clock, pointsman.ids)) as jobs:
        yield jobs


def _queue(pointsman: Pointsman, jobs: BulkJobs) -> BulkQueue:
    try:
        from pointsman.bulk.queue import BulkQueue  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise HomeError(
            "bulk work on PostgreSQL needs a package that is not installed",
            where=error.name or "",
            hint="pip install 'pointsman[postgres]'",
        ) from error
    return BulkQueue(pointsman.home, jobs)


def _instant(text: str | None) -> Instant:
    return EPOCH if text is None else read_instant(text)


def _list_text(found: list[BulkJob]) -> str:
    if not found:
        return "no bulk work yet"
    rows = [
        (
            each.id,
            each.kind,
            each.state,
            _second(each.begun_at),
            progress_text(each),
        )
        for each in found
    ]
    text = table([("ID", "KIND", "STATE", "BEGUN", "DONE"), *rows])
    return "\n".join(map(printable, text.split("\n")))


def _second(at: Instant) -> str:
    return f"{instant_text(at)[:19]}Z"


def _job_text(each: BulkJob) -> str:
    lines = [f"{each.id}  {each.kind}  {each.state}", f"  {progress_text(each)}"]
    lines += [f"  {each.told}"] if each.told else []
    lines += [f"  {count_text(each.troubled, 'range')} in trouble"] if each.troubled else []
    if each.state == "running":
        lines.append("  next: pointsman bulk work")
    return "\n".join(map(printable, lines))
