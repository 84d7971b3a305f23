"""`workflow`: run stages joined by decisions, and draw where they lead."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from pointsman.app import Pointsman
from pointsman.cli.decision_terms import decisions_in_force, read_context
from pointsman.cli.groups import CommandGroup
from pointsman.cli.terms import Session, command, read_input
from pointsman.errors import InputError
from pointsman.expressions.syntax import ExpressionRefused
from pointsman.expressions.values import Value
from pointsman.kernel.columns import table
from pointsman.kernel.document import printable
from pointsman.storage.policies.workflow_file import read_workflow
from pointsman.workflows.branch_log import value_to_json_numbers
from pointsman.workflows.graph import dependency_graph
from pointsman.workflows.graph_drawing import FORMATS, draw
from pointsman.workflows.workflow import RunReport, RunStep, WorkflowRunner, WorkflowText

_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_INPUT_HELP = "What the run begins with: JSON, @FILE, or - for standard input."


@click.group(cls=CommandGroup)
def workflow() -> None:
    """Run stages joined by decisions."""


@workflow.command()
@click.argument("file", metavar="FILE")
@click.option("--id", "run_id", metavar="RUN", default="", help="Begin, or go on with, this run.")
@click.option("--input", "given", metavar="JSON|@FILE|-", help=_INPUT_HELP)
@click.option("--approve", multiple=True, metavar="STAGE", help="A stage you approve; recorded.")
@command
def run(
    session: Session, file: str, run_id: str, given: str | None, approve: tuple[str, ...]
) -> None:
    """Run a workflow; with the id of a run that was cut short, go on with it."""
    inputs = None if given is None else read_context(given)
    check_name(run_id)
    with session.open(create=True) as pointsman:
        session.warn(pointsman.branching.in_force().problems)
        name = run_id or pointsman.ids.new_id()
        if not session.as_json:
            click.echo(f"run {name}", err=True)
        report = run_workflow(pointsman, Path(file), name, inputs, approve)
    session.show(report_text(report), report_value(report))
    sys.exit(0 if report.status == "done" else 1)


@workflow.command()
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--format", "form", type=click.Choice(FORMATS), default="mermaid",
              help="What to draw it as.")  # fmt: skip
@command
def graph(session: Session, files: tuple[str, ...], form: str) -> None:
    """Draw which stages use which decisions, and where these can lead."""
    in_force = decisions_in_force(session)
    session.warn(in_force.problems)
    given = [read_workflow(*read_input(each)) for each in files] or list(in_force.workflows)
    found = dependency_graph(given, in_force.decisions)
    session.show(draw(found, "json" if session.as_json else form), found.value())


def run_workflow(
    pointsman: Pointsman,
    path: Path,
    run_id: str,
    inputs: dict[str, Value] | None,
    approved: tuple[str, ...] = (),
) -> RunReport:
    """Run the workflow of a file; its actions are done in the folder of the file."""
    text, source = read_input(str(path))
    folder = path.absolute().parent
    settings = pointsman.files.settings().value.workflow
    sources = (pointsman.clock, pointsman.ids)
    runner = WorkflowRunner(
        pointsman.home, pointsman.decision_recorder, pointsman.branching, sources
    )
    try:
        given = WorkflowText(text, source, folder)
        return runner.run(given, settings, run_id, inputs, approved)
    except ExpressionRefused as refusal:
        raise InputError(f"{refusal.message}\n{refusal.caret()}", where=source) from refusal


def check_name(run_id: str) -> None:
    """Refuse a text that cannot name a run."""
    if len(run_id) > 100 or not set(run_id) <= _NAME:
        hint = "use letters, digits, `.`, `-` and `_`"
        raise InputError(f"`{run_id}` cannot name a run", hint=hint)


def report_text(report: RunReport) -> str:
    """Tell a run step by step."""
    rows = [_row(each) for each in report.steps]
    lines = table([("STEP", "STAGE", "STATUS", "DECIDED", "GOES TO"), *rows]).splitlines()
    lines += [f"{each.stage_id or 'run'}: {each.message}" for each in report.steps if each.message]
    again = ", resumed" if report.is_resumed else ""
    lines.append(f"run {report.run_id} of {report.workflow}: {report.status}{again}")
    if report.waiting_for:
        names = ", ".join(report.waiting_for)
        lines.append(f"waits for approval of {names}: run it again with --approve")
    return "\n".join(map(printable, lines))


def report_value(report: RunReport) -> dict[str, object]:
    """Return a run as JSON."""
    value = msgspec.structs.asdict(report)
    return value | {"context": value_to_json_numbers(report.context), "steps": report.steps}


def _row(step: RunStep) -> tuple[str, ...]:
    status = f"{step.status} before" if step.is_recalled else step.status
    label, goes = ", ".join(step.labels), ", ".join(step.targets)
    return (str(step.number), step.stage_id, status, label, goes)
