"""`replay`, `verify` and `export`: run decisions again, check and write the ledger."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click
import msgspec

from pointsman.audit.export import BundleSummary
from pointsman.audit.proof_of_progress import told_before
from pointsman.audit.replay import ReplayReport
from pointsman.audit.verify import LedgerReport
from pointsman.audit.witnessed import TOLD, proofs_value
from pointsman.cli.groups import ExampleCommand
from pointsman.cli.terms import Session, command, count_text, read_input
from pointsman.errors import InputError
from pointsman.kernel.document import printable
from pointsman.kernel.instant import EPOCH, LATEST, instant_text, read_instant
from pointsman.kernel.replay import Replayed

if TYPE_CHECKING:
    from pointsman.app import Pointsman
    from pointsman.storage.policies.witness_settings import WitnessSettings

NO_MODEL = "no model"


MOST_LISTED = 20


class Advance(Protocol):
    """Moves a bar on."""

    def __call__(self, done: int, total: int | None = None, /) -> None:
        """Show how much is done, and of how much where that is known."""
        ...


@click.command(cls=ExampleCommand)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Re-run every recorded decision.")
@click.option("--since", metavar="INSTANT", help="Only decisions from this instant on (RFC 3339).")
@click.option("--workers", type=click.IntRange(1, 64), default=None, help="Processes [one a core].")
@click.option("--from-scratch", is_flag=True, help="Also re-run what came out the same before.")
@command
def replay(
    session: Session,
    ids: tuple[str, ...],
    everything: bool,  # noqa: FBT001 - click passes flags so
    since: str | None,
    workers: int | None,
    from_scratch: bool,  # noqa: FBT001 - click passes flags so
) -> None:
    """Re-run recorded decisions and compare their bytes.

    Where all came out the same under this version before, `--all` goes on from there, once a chain
    has 100,000 entries.
    """
    if bool(ids) == (everything or since is not None):
        raise InputError("give ids, or --all, or --since", hint="pointsman replay --all")
    if from_scratch and not everything:
        raise InputError("`--from-scratch` belongs to `--all`")
    with session.open() as pointsman:
        if ids:
            report = pointsman.replay(ids)
        else:
            start = EPOCH if since is None else read_instant(since)
            with bar("replaying", session) as progress:
                report = pointsman.replay_all(
                    start,
                    workers=workers or os.cpu_count() or 1,
                    progress=progress,
                    from_scratch=from_scratch,
                )
    session.show(_replay_text(report), _replay_value(report))
    sys.exit(0 if report.is_clean else 1)


@click.command(cls=ExampleCommand)
@click.option("--export", "target", metavar="FILE", help="Also write a bundle for another machine.")
@click.option("--since", metavar="INSTANT", help="Export only from this instant on (RFC 3339).")
@click.option("--until", metavar="INSTANT", help="Export only what came before this instant.")
@click.option("--ask", "is_asking", is_flag=True, help="Ask the witnesses what they have seen.")
@click.option("--witnesses", "named", metavar="FILE", help="Believe these, not those of the home.")
@click.option("--seen", multiple=True, metavar="FILE", help="What a witness told of its logs.")
@click.option("--from-scratch", is_flag=True, help="Also read entries that were proved before.")
@command
def verify(  # noqa: PLR0913, PLR0917 - one parameter an option
    session: Session,
    target: str | None,
    since: str | None,
    until: str | None,
    is_asking: bool,  # noqa: FBT001 - click passes flags so
    named: str | None,
    seen: tuple[str, ...],
    from_scratch: bool,  # noqa: FBT001 - click passes flags so
) -> None:
    """Check every chain, checkpoint and signature of the ledger.

    A chain of 100,000 entries and more is read from where it was last proved, by a proof that the
    ledger's key signed. A change before that shows only `--from-scratch`.
    """
    if target is None and (since or until):
        raise InputError("`--since` and `--until` belong to `--export FILE`")
    start = EPOCH if since is None else read_instant(since)
    end = LATEST if until is None else read_instant(until)
    with session.open() as pointsman:
        witnesses, notes = _witness_words(session, pointsman, is_asking, named, seen)
        with bar("verifying", session) as progress:
            # A bundle is proved as a whole by its reader: so it is here.
            from_scratch = from_scratch or target is not None
            report = pointsman.verify(progress, witnesses, notes, from_scratch=from_scratch)
        summary = None
        if target is not None and report.is_intact:
            summary = pointsman.export(Path(target), start, end)
    session.show(_verify_text(report), _verify_value(report, summary))
    if summary is not None and not session.as_json:
        click.echo(f"exported to {target}, with pointsman_verify.py beside it")
        click.echo(f"signed by  {summary.key_id}: publish this id apart from the bundle")
    if target is not None and summary is None:
        click.echo("not exported: only an intact ledger is", err=True)
    sys.exit(0 if report.is_intact else 1)


def _witness_words(
    session: Session,
    pointsman: Pointsman,
    is_asking: bool,  # noqa: FBT001 - click passes flags so
    named: str | None,
    seen: tuple[str, ...],
) -> tuple[WitnessSettings | None, list[str]]:
    """Return the witnesses to believe, and the notes they gave; asked before the ledger is read."""
    if not (is_asking or named or seen):
        return None, []
    # Imported here: few ask witnesses.
    from pointsman.witnessing.submission import ask_witnesses, read_view, read_witnesses  # noqa: PLC0415

    witnesses = None if named is None else read_witnesses(Path(named))
    notes = [note for name in seen for note in read_view(*read_input(name))]
    if is_asking:
        believed = witnesses or pointsman.files.settings().value.witnesses
        answers = ask_witnesses(believed, pointsman.home.identity.ledger)
        notes += answers.notes
        session.warn(f"{name} did not tell: {why}" for name, why in answers.silent.items())
    return witnesses, notes


@contextmanager
def bar(what: str, session: Session) -> Iterator[Advance | None]:
    """Show a bar on a terminal, and nothing anywhere else."""
    if session.as_json or not sys.stderr.isatty():
        yield None
        return
    # Imported here: it costs more time than most commands take, and few show a bar.
    from rich.console import Console  # noqa: PLC0415 - see above
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - see above
    from rich.progress import Progress as Bar  # noqa: PLC0415 - see above

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total=None: bar.update(task, completed=done, total=total)


def _replay_text(report: ReplayReport) -> str:
    lines = [f"{report.identical} of {count_text(report.total, 'decision')} identical"]
    for each in report.others[:MOST_LISTED]:
        lines += _replayed_lines(each)
    if len(report.others) > MOST_LISTED:
        lines.append(f"… and more; --json lists up to {len(report.others)}")
    return "\n".join([*lines, *told_before(report.before, report.whole_at)])


def _replayed_lines(each: Replayed) -> list[str]:
    head = f"{each.decision_id}  {each.code}  {each.reason}".rstrip()
    return [
        printable(head),
        *(
            printable(f"    {row.path}: recorded {row.recorded!r}, now {row.found!r}")
            for row in each.differences[:MOST_LISTED]
        ),
    ]


def _replay_value(report: ReplayReport) -> dict[str, object]:
    return {
        "total": report.total,
        "identical": report.identical,
        "diverged": report.diverged,
        "unable": report.unable,
        "others": report.others,
        **_before_value(report.before, report.whole_at),
    }


def _before_value(entries: int, whole_at: str) -> dict[str, object]:
    """Tell of an earlier proof, where one counted."""
    return {"proved_before": {"entries": entries, "whole_at": whole_at}} if entries else {}


def _verify_text(report: LedgerReport) -> str:
    lines = [
        f"{each.chain:<12} {count_text(each.entries, 'entry', 'entries')}, {each.signed} signed, "
        f"head {each.head.hex()[:16]}"
        if each.fault is None
        else f"{each.chain:<12} checked up to entry {each.entries}"
        for each in report.chains
    ]
    lines += [
        printable(f"FAULT {each.chain}/{each.seq}: {each.code}: {each.message}")
        for each in report.faults[:MOST_LISTED]
    ]
    lines += [
        f"DOUBT {each.chain}/{each.first} to {each.last}: {each.message}" for each in report.doubts
    ]
    lines += [*_proof_lines(report), *told_before(report.before, report.whole_at)]
    state = "NOT INTACT"
    if report.is_intact:
        entries = count_text(report.entries, "entry", "entries")
        state = f"{entries} in {count_text(len(report.chains), 'chain')}, intact"
    return "\n".join([*lines, f"ledger {report.ledger}: {state}"])


def _proof_lines(report: LedgerReport) -> list[str]:
    """Tell against whom each range is proven; ranges of a kind stand together."""
    lines = []
    for against, told in TOLD.items():
        ranges = [
            f"{each.chain} {part.first}-{part.end - 1}"
            for each in report.proofs
            for part in each.ranges
            if part.against == against
        ]
        if ranges:
            more = f" and {len(ranges) - MOST_LISTED} more" if len(ranges) > MOST_LISTED else ""
            lines.append(f"  {', '.join(ranges[:MOST_LISTED])}{more}: {told}")
    for each in report.proofs:
        lines += [
            f"  {each.chain}: {word.witness} cosigned {word.size} entries"
            f" at {instant_text(word.at)}"
            for word in each.witnesses
        ]
        if each.stamped is not None:
            size, at = each.stamped
            lines.append(f"  {each.chain}: {size} entries existed at {instant_text(at)} (stamp)")
    return [printable(line) for line in lines]


def _verify_value(report: LedgerReport, summary: BundleSummary | None) -> dict[str, object]:
    return {
        "ledger": report.ledger,
        "is_intact": report.is_intact,
        "entries": report.entries,
        "chains": [
            {
                "chain": each.chain,
                "entries": each.entries,
                "signed": each.signed,
                "head": each.head.hex(),
                "fault": each.fault,
            }
            for each in report.chains
        ],
        "faults": report.faults,
        "proofs": proofs_value(report.proofs),
        "doubts": report.doubts,
        "export": summary,
        **_before_value(report.before, report.whole_at),
    }


@click.command(cls=ExampleCommand)
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
    # Imported here: few export, and the rows of every table come with it.
    from pointsman.bulk.parquet.export import export_given, export_parquet  # noqa: PLC0415 - see above

    start = EPOCH if since is None else read_instant(since)
    given = export_given(Path(target), start, has_text=text)
    with session.open() as pointsman, bar("exporting", session) as progress:
        found = export_parquet(pointsman.home, given, workers or os.cpu_count() or 1, progress)
    session.show(printable(found.told), msgspec.json.decode(found.value))
