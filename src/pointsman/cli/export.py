"""`export`: decisions, calls and verdicts as Parquet files, for analysis."""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from pointsman.bulk.parquet.export import export_given, export_parquet
from pointsman.cli.records import bar
from pointsman.cli.terms import Session, command
from pointsman.kernel.document import printable
from pointsman.kernel.instant import EPOCH, read_instant


@click.command()
@click.option("--parquet", "target", required=True, metavar="DIR", help="Where the files go.")
@click.option("--since", metavar="INSTANT", help="Only from the day of this instant on, in UTC.")
@click.option("--text", is_flag=True, help="Also what is kept of the messages' text.")
@click.option("--workers", type=click.IntRange(1, 64), help="Processes [one a core].")
@command
def export(
    session: Session,
    target: str,
    since: str | None,
    text: bool,  # noqa: FBT001 - click passes flags so
    workers: int | None,
) -> None:
    """Write decisions, calls and verdicts as Parquet files by day; only what is new.

    For a signed bundle that another machine can verify, see `verify --export`.
    """
    start = EPOCH if since is None else read_instant(since)
    given = export_given(Path(target), start, has_text=text)
    with session.open() as pointsman, bar("exporting", session) as progress:
        found = export_parquet(pointsman.home, given, workers or os.cpu_count() or 1, progress)
    session.show(printable(found.told), msgspec.json.decode(found.value))
