"""`rules`: check, show, reload and test the policy of turns."""

from __future__ import annotations

import sys

import click

from pointsman.cli.terms import Session, command, counted, read_input
from pointsman.errors import DocumentError
from pointsman.kernel.document import printable
from pointsman.runs.rules_test import Row, TableReport, read_table
from pointsman.runs.rules_view import (
    checked,
    checked_text,
    checked_value,
    errors,
    kept_files,
    reloaded,
    reloaded_text,
    rules_text,
    rules_value,
)


@click.group()
def rules() -> None:
    """Check, show, reload and test the rules of routing.yaml."""


@rules.command()
@command
def check(session: Session) -> None:
    """List every error of the policy files, then warnings; `ok` when nothing is wrong."""
    with session.open() as pointsman:
        found = checked(pointsman.reload())
    session.show(checked_text(found), checked_value(found))
    sys.exit(2 if found.errors else 0 if found.proof.holds else 1)


@rules.command()
@command
def show(session: Session) -> None:
    """Print the rules in force, in the order in which they are tried."""
    with session.open() as pointsman:
        in_force = pointsman.in_force()
        session.warn(in_force.problems)
    policy = in_force.ready.policy
    session.show(rules_text(policy), rules_value(policy, in_force.policy_id))


@rules.command()
@command
def reload(session: Session) -> None:
    """Read the policy files anew, and say what changed and what is in force."""
    with session.open() as pointsman:
        before = kept_files(pointsman.home)
        in_force = pointsman.reload()
        files = reloaded(pointsman.home, before, in_force)
    session.warn(in_force.problems)
    text = reloaded_text(files, in_force.policy_id)
    session.show(text, {"files": files, "policy_id": in_force.policy_id})


@rules.command()
@click.argument("file", metavar="FILE|-")
@command
def test(session: Session, file: str) -> None:
    """Run a table of expected decisions against the rules; nothing is recorded."""
    with session.open() as pointsman:
        cases = read_table(*read_input(file))
        broken = errors(pointsman.in_force())
        if broken:
            # What the user wants to test is the file, not what stands in for it.
            raise DocumentError(broken)
        report = pointsman.test_rules(cases)
    session.show(_report_text(report), _report_value(report))
    sys.exit(1 if report.failed else 0)


def _report_text(report: TableReport) -> str:
    failed = [line for row in report.rows if row.state == "failed" for line in _row_lines(row)]
    passed = len(report.rows) - report.failed
    summary = f"{passed} of {counted(len(report.rows), 'case')} passed"
    return "\n".join(printable(line) for line in [*failed, summary])


def _row_lines(row: Row) -> list[str]:
    return [
        f"FAILED {row.place}: {row.note}",
        *(f"  {name}: expected {row.expected[name]}, got {row.got[name]}" for name in row.expected),
    ]


def _report_value(report: TableReport) -> dict[str, object]:
    return {
        "passed": len(report.rows) - report.failed,
        "failed": report.failed,
        "rows": report.rows,
    }
