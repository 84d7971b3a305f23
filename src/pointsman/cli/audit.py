"""`audit`: what the ledger can prove: departures, counts of entries, the report of a period."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pointsman.audit.egress import egress_value
from pointsman.cli.groups import CommandGroup
from pointsman.cli.placement import egress_text
from pointsman.cli.terms import Session, command, waits
from pointsman.errors import InputError
from pointsman.kernel.columns import table
from pointsman.kernel.document import printable
from pointsman.kernel.instant import EPOCH, LATEST, Instant, read_instant
from pointsman.storage.files import replace_file

MOST_SHOWN = 40


@click.group(cls=CommandGroup)
def audit() -> None:
    """What the ledger can prove."""


@audit.command("egress")
@click.option("--since", metavar="INSTANT", help="Only turns from this instant on (RFC 3339).")
@command
@waits("reading the ledger")
def egress(session: Session, since: str | None) -> None:
    """Tell what left this machine, under which rule; the ledger is verified first."""
    start = EPOCH if since is None else read_instant(since)
    with session.open() as pointsman:
        report = pointsman.egress(start)
    session.show(egress_text(report), egress_value(report))
    sys.exit(0 if report.is_clean else 1)


@audit.command("count")
@click.option("--kind", required=True, help="The kind of entries; with `*` all that begin so.")
@click.option("--where", multiple=True, metavar="PATH=VALUE", help="Only entries that hold this.")
@click.option("--by", default="", metavar="PATH", help="Also count for each value found there.")
@click.option("--sum", "total", default="", metavar="PATH", help="Add up numbers, not entries.")
@click.option("--from", "start", metavar="INSTANT", help="Only from this instant on (RFC 3339).")
@click.option("--to", "end", metavar="INSTANT", help="Only before this instant.")
@click.option("--tenant", metavar="NAME", help="Only decisions of this tenant, and their calls.")
@command
@waits("counting")
def count(  # noqa: PLR0913, PLR0917 - one parameter an option
    session: Session,
    kind: str,
    where: tuple[str, ...],
    by: str,
    total: str,
    start: str | None,
    end: str | None,
    tenant: str | None,
) -> None:
    """Count entries of the ledger; a report's numbers name the count that gives them again."""
    from pointsman.audit.ledger_query import LedgerQuery, ReportPeriod  # noqa: PLC0415 - few count

    period = ReportPeriod(*_bounds(start, end), tenant)
    with session.open() as pointsman:
        found = pointsman.count_entries(LedgerQuery(kind, where, by, total), period)
    rows = [(name or "(none)", str(value)) for name, value in found.groups.items()]
    lines = [str(found.value), *([table(rows[:MOST_SHOWN])] if rows else [])]
    session.show("\n".join(printable(line) for line in "\n".join(lines).split("\n")), found)


@audit.command("report")
@click.option("--from", "start", required=True, metavar="INSTANT", help="From here (RFC 3339).")
@click.option("--to", "end", required=True, metavar="INSTANT", help="Up to and without this.")
@click.option("--tenant", metavar="NAME", help="Only what can be told of this tenant.")
@click.option("--html", "target", metavar="FILE", help="Also write a page to read and print.")
@command
@waits("reading the ledger")
def report(session: Session, start: str, end: str, tenant: str | None, target: str | None) -> None:
    """Report a period: decisions, departures, overrides, approvals, changes, faults, witnesses."""
    from pointsman.audit.ledger_query import ReportPeriod  # noqa: PLC0415 - few report

    with session.open() as pointsman:
        found = pointsman.period_report(ReportPeriod(*_bounds(start, end), tenant))
    if target is not None:
        from pointsman.audit.period_html import period_html  # noqa: PLC0415 - see above

        try:
            replace_file(Path(target), period_html(found).encode())
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", where=target) from error
    lines = [f"{found.start} to {found.end}, {'intact' if found.intact else 'NOT INTACT'}"]
    for section in found.sections:
        lines += ["", section.title]
        lines.append(table([(str(each.value), each.title) for each in section.numbers]))
    lines += ["", *([f"written to {target}"] if target else ["--json and --html tell more"])]
    session.show("\n".join(printable(line) for line in "\n".join(lines).split("\n")), found)
    sys.exit(0 if found.intact else 1)


def _bounds(start: str | None, end: str | None) -> tuple[Instant, Instant]:
    return (
        EPOCH if start is None else read_instant(start),
        LATEST if end is None else read_instant(end),
    )
