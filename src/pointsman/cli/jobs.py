"""`jobs`: run a job to its end, go on with one that was cut short, and prove how it went."""

from __future__ import annotations

import sys

import click
import msgspec

from pointsman.cli.agents import REQUEST_HELP, read_request
from pointsman.cli.terms import Session, command
from pointsman.errors import InputError
from pointsman.jobs.jobs import JobResult
from pointsman.jobs.request import goal_request
from pointsman.jobs.view import job_screen, job_value, verdict_screen, verdict_value
from pointsman.kernel.columns import table
from pointsman.kernel.document import printable
from pointsman.kernel.instant import instant_text

WELL = ("done", "requested")
"""How a job ends well: with an answer, or as a request that others decide about."""


@click.group()
def jobs() -> None:
    """Have agents do a job, and prove how it went."""


@jobs.command()
@click.option("--request", "given", metavar="FILE|-", help=REQUEST_HELP)
@click.option("--goal", metavar="TEXT", help="What you want, in words.")
@click.option("--resume", metavar="ID", help="Go on with a job that was cut short.")
@command
def run(session: Session, given: str | None, goal: str | None, resume: str | None) -> None:
    """Run a job: decide, call the agent, have it judged; again without one that fails."""
    if sum(each is not None for each in (given, goal, resume)) != 1:
        raise InputError("give one of --request, --goal and --resume")
    request = None if given is None else read_request(given)
    if goal is not None:
        if not goal.strip():
            raise InputError("a goal says what is wanted")
        request = goal_request(goal)
    with session.open(create=resume is None) as pointsman:
        session.warn(pointsman.agency.problems)
        if request is None:
            result = pointsman.jobs.resume(resume or "")
        else:
            result = pointsman.jobs.run(request)
    _show(session, result)
    sys.exit(0 if result.log.status in WELL else 1)


@jobs.command()
@click.argument("name", metavar="ID")
@command
def show(session: Session, name: str) -> None:
    """Show a job by the id of its log, or the latest run of one by its own id."""
    with session.open() as pointsman:
        result = pointsman.jobs.find_result(name)
    _show(session, result)


@jobs.command("list")
@command
def list_(session: Session) -> None:
    """List the latest jobs, the newest first."""
    with session.open() as pointsman:
        found = pointsman.jobs.list_latest()
    head = ("LOG", "JOB", "SINCE", "STATUS")
    rows = [
        (each.log_id, printable(each.job_id), instant_text(each.at), each.status or "cut short")
        for each in found
    ]
    value = [msgspec.structs.asdict(each) | {"at": instant_text(each.at)} for each in found]
    session.show(table([head, *rows]) if rows else "no job was run yet", {"jobs": value})


@jobs.command()
@click.argument("name", metavar="ID")
@command
def replay(session: Session, name: str) -> None:
    """Run a job again from its record alone and compare bytes; no agent is called."""
    with session.open() as pointsman:
        verdict = pointsman.jobs.replay(name)
    session.show(verdict_screen(verdict), verdict_value(verdict))
    sys.exit(0 if verdict.is_identical else 1)


def _show(session: Session, result: JobResult) -> None:
    session.show(job_screen(result), job_value(result))
