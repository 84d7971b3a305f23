"""`place` and `taint`: turns that may leave this machine, and sessions that stay."""

from __future__ import annotations

import sys

import click
import msgspec

from pointsman.audit.egress import Egress, EgressReport
from pointsman.cli.groups import CommandGroup, ExampleCommand
from pointsman.cli.terms import MOST_INPUT, Session, command, count_text, read_input
from pointsman.errors import DocumentError
from pointsman.kernel.document import DocumentLimits, printable
from pointsman.kernel.instant import EPOCH, instant_text
from pointsman.kernel.json_text import read_json
from pointsman.placement.explain import to_json, to_screen
from pointsman.placement.facts import GivenPlacement, read_facts

MOST_LISTED = 40


@click.command(cls=ExampleCommand)
@click.option("--facts", required=True, metavar="FILE|-", help="The question and the state.")
@click.option("--no-record", is_flag=True, help="Leave no trace in the ledger.")
@command
def place(session: Session, facts: str, no_record: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Decide whether a question may leave this machine."""
    given = _read_given(session, facts)
    with session.open(create=True) as pointsman:
        in_force = pointsman.in_force()
        session.warn(in_force.problems)
        found = pointsman.placement_facts(given, in_force=in_force)
        shown = pointsman.place(found, record=not no_record, in_force=in_force)
    session.show(to_screen(shown), to_json(shown))
    sys.exit(1 if shown.outcome.error_code else 0)


@click.group(cls=CommandGroup)
def taint() -> None:
    """Sessions that stay on this machine because of what they held."""


@taint.command("list")
@command
def list_(session: Session) -> None:
    """List them, with the turn and the rule that held them."""
    with session.open() as pointsman:
        found = pointsman.tainted()
    lines = [
        f"{each.session_id}  since {instant_text(each.since)}  {each.taint.rule_id}  "
        f"turn {each.taint.turn_id}"
        for each in found
    ]
    text = "\n".join(printable(line) for line in lines) or "no session is held on this machine"
    session.show(text, {"sessions": found})


@taint.command()
@click.argument("session_id", metavar="SESSION")
@click.option("--reason", required=True, help="Why it may leave again; it is recorded.")
@command
def clear(session: Session, session_id: str, reason: str) -> None:
    """Let a session leave this machine again."""
    with session.open() as pointsman:
        held = pointsman.clear_taint(session_id, reason)
    text = f"{session_id} may leave again; it was held since turn {held.turn_id}"
    session.show(printable(text), {"session_id": session_id, "was": held})


def _read_given(session: Session, name: str) -> GivenPlacement:
    """Read the facts; their problems are an error of the table's own."""
    try:
        return read_facts(read_json(*read_input(name), DocumentLimits(bytes=MOST_INPUT)))
    except DocumentError as error:
        if not session.as_json:
            raise
        value = {
            "error_code": "E-VALID-001",
            "rule_id": "",
            "reason": error.message,
            "problems": [str(each) for each in error.problems],
        }
        click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
        sys.exit(error.exit_code)


def egress_text(report: EgressReport) -> str:
    """Write a report of departures for people."""
    called = report.turns - report.previews - report.unreadable
    since = "" if report.since == EPOCH else f" since {instant_text(report.since)}"
    lines = [
        f"{report.left} of {count_text(called, 'turn')} left this machine{since}"
        + (f", in {count_text(report.departures, 'departure')}" if report.departures else "")
        + (f" ({count_text(report.previews, 'preview')} called nobody)" if report.previews else ""),
        *(_row(each) for each in report.rows[:MOST_LISTED]),
    ]
    if len(report.rows) > MOST_LISTED:
        lines.append(f"… and {len(report.rows) - MOST_LISTED} more in --json")
    lines += [f"VIOLATION {_row(each)}" for each in report.violations[:MOST_LISTED]]
    fault = report.ledger.fault
    if fault is not None:
        lines.append(f"NOT PROVED: the ledger is broken: {fault.code}: {fault.message}")
    elif report.unreadable:
        lines.append(f"NOT PROVED: {count_text(report.unreadable, 'turn')} cannot be read")
    else:
        signed = sum(each.signed for each in report.ledger.chains)
        lines.append(f"proved by {report.ledger.entries} intact ledger entries, {signed} signed")
    return "\n".join(printable(line) for line in lines)


def _row(row: Egress) -> str:
    by = f'rule "{row.rule}"' if row.rule else row.slot.replace("_", " ")
    gate = f"{'advice: ' if row.is_advice else ''}{row.placement_rule or 'no placement'}"
    calls = f"{row.calls} calls, " if row.calls > 1 else ""
    return (
        f"  {instant_text(row.at)[:19]}Z  {row.model}  by {by}, {gate}, {calls}"
        f"{row.tokens} tokens  turn {row.turn_id}"
        + ("" if row.call == "ended" else "  (end of call not on record)")
    )
