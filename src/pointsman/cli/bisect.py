"""`bisect`: which entry of the ledger moved turns from one model to another."""

from __future__ import annotations

import click

from pointsman.audit.bisection import Bisection, StateCause, bisection_value
from pointsman.cli.groups import ExampleCommand
from pointsman.cli.records import bar
from pointsman.cli.terms import Session, command, count_text
from pointsman.kernel.document import printable
from pointsman.kernel.instant import EPOCH, instant_text, read_instant


@click.command(cls=ExampleCommand)
@click.option(
    "--flip",
    required=True,
    metavar="TEXT",
    help="`CONDITION moved from MODEL to MODEL`; the condition is a rule's `when:`.",
)
@click.option("--since", metavar="INSTANT", help="Only turns from this instant on (RFC 3339).")
@command
def bisect(session: Session, flip: str, since: str | None) -> None:
    """Find the entry that moved turns to another model: policy, health, learned rows, prices."""
    start = EPOCH if since is None else read_instant(since)
    with session.open() as pointsman, bar("reading turns", session) as progress:
        found = pointsman.bisect(flip, start, progress=progress)
    session.show(bisection_text(found), bisection_value(found))


def bisection_text(found: Bisection) -> str:
    """Write a bisection on one screen."""
    counts = (count_text(found.turns, "turn"), count_text(found.steps, "decision"))
    lines = [
        "{} meet the condition; {} made again".format(*counts),
        f"last before  {found.last_before}",
        f"first after  {found.first_after}",
        "",
    ]
    if len(found.causes) > 1:
        lines.append("these together turned it, and none alone:")
    for each in found.causes:
        lines += _cause_lines(each)
    lines += ["", f"next: pointsman why {found.first_after}"]
    return "\n".join(map(printable, lines))


def _cause_lines(cause: StateCause) -> list[str]:
    return [
        f"{cause.part}: {', '.join(cause.fields)}",
        f"  was     {cause.was}",
        f"  became  {cause.became}",
        f"  entry   {cause.entry_id}  {cause.entry_kind}  {instant_text(cause.at)[:19]}Z",
    ]
