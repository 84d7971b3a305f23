"""Bulk export: the entries of a range as rows of Parquet files, by day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pointsman.audit.pool import Progress, home_opener, run_ranges
from pointsman.audit.ranges import ChainSize, Range, count_entries, plan_ranges
from pointsman.bulk.parquet.files import (
    FORMAT,
    DayFiles,
    Manifest,
    check_installed,
    continue_folder,
    write_manifest,
)
from pointsman.bulk.parquet.rows import RowReader
from pointsman.bulk.work import BulkKind, BulkResult, value_of
from pointsman.errors import InputError
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import DAY, EPOCH, Instant
from pointsman.kernel.record import OUTCOME
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import ContentReader, LedgerReader

RANGE = 50_000


class ExportGiven(Struct, frozen=True):
    """Where to, from which instant's day on, and whether with the text of messages."""

    target: str
    since: Instant = EPOCH
    has_text: bool = False
    length: int = RANGE


class ExportPart(Struct, frozen=True):
    """The files and rows written of one range."""

    chain: str
    end: int
    rows: dict[str, int]
    files: int
    bytes: int


def export_given(
    target: Path, since: Instant = EPOCH, *, has_text: bool = False, length: int = RANGE
) -> ExportGiven:
    """Return the parameters, or raise at once where Parquet cannot be written."""
    check_installed()
    return ExportGiven(str(target.absolute()), since, has_text, length)


class _ExportWorker:
    def __init__(self, home: Home, given: ExportGiven) -> None:
        check_installed()
        self._folder, self._first_day = Path(given.target), given.since // DAY
        self._ledger = LedgerReader(home.database)
        self._content = ContentReader(home.content, home.content_key())
        self._texts = self._content.displayed_text if given.has_text else None

    def close(self) -> None:
        self._ledger.close()
        self._content.close()

    def part(self, each: Range) -> ExportPart:
        files = DayFiles(self._folder, each.chain, each.first)
        reader = RowReader(each.chain, self._texts)
        try:
            for entry, facts in self._entries(each):
                day = entry.at // DAY
                for table, row in reader.rows(entry, facts):
                    if day >= self._first_day:
                        files.add(table, day, row)
            files.finish()
        except OSError as error:
            message = f"cannot be written: {error.strerror or error}"
            raise InputError(message, where=str(self._folder)) from error
        finally:
            files.drop()
        return ExportPart(each.chain, each.end, files.rows, files.files, files.bytes)

    def _entries(self, each: Range) -> Iterator[tuple[Entry, bytes | None]]:
        """Yield the exported entries of a range, in order: one pass over each of their kinds."""
        place = (each.number, each.first, each.end)
        yield from self._ledger.decisions(*place, Instant(self._first_day * DAY))
        for kind in (OUTCOME, "event.feedback."):
            yield from ((entry, None) for entry in self._ledger.entries_in(*place, kind))


def _manifest(home: Home, given: ExportGiven) -> Manifest:
    first_day = given.since // DAY
    wanted = Manifest(FORMAT, home.identity.ledger, given.length, first_day, given.has_text, {})
    return continue_folder(home, Path(given.target), wanted)


def _plan_export(home: Home, given: ExportGiven) -> list[Range]:
    """Plan the missing ranges: of each chain, from the last file on that may grow."""
    manifest = _manifest(home, given)
    # Before the first file, so that the folder of an export that was cut short is known as one.
    write_manifest(Path(given.target), manifest)
    done = manifest.exported
    if not home.database.exists():
        return []
    with closing(LedgerReader(home.database)) as ledger:
        sizes = [ChainSize(name, n, ledger.size(n)) for name, n in ledger.chains().items()]
        starts = {each.chain: _first_since(ledger, each, given.since) for each in sizes}
    for each in sizes:
        if done.get(each.chain, 0) > each.size:
            message = f"the export has more of `{each.chain}` than the ledger"
            raise InputError(message, where=given.target)
    grown = [each for each in sizes if done.get(each.chain, 0) < each.size]
    return [
        each
        for each in plan_ranges(grown, given.length)
        if each.end > max(done.get(each.chain, 0), starts[each.chain])
    ]


def _first_since(ledger: LedgerReader, size: ChainSize, since: Instant) -> int:
    """Find the first entry of the day of an instant: a chain's time never goes back."""
    start, low, high = since - since % DAY, 0, size.size
    while low < high:
        middle = (low + high) // 2
        entry = next(ledger.entries_in(size.number, middle, middle + 1), None)
        if entry is None or entry.at < start:
            low = middle + 1
        else:
            high = middle
    return low


def _conclude_export(home: Home, given: ExportGiven, parts: Sequence[ExportPart]) -> BulkResult:
    manifest = _manifest(home, given)
    exported = dict(manifest.exported)
    rows: Counter[str] = Counter()
    for part in parts:
        exported[part.chain] = max(exported.get(part.chain, 0), part.end)
        rows.update(part.rows)
    write_manifest(Path(given.target), replace(manifest, exported=exported))
    files = sum(each.files for each in parts)
    told = f"{rows.total()} rows in {files} files of {given.target}"
    value = {
        "target": given.target,
        "rows": dict(rows),
        "files": files,
        "bytes": sum(each.bytes for each in parts),
        "exported": exported,
    }
    return BulkResult(True, told, value_of(value))  # noqa: FBT003 - it either ends or raises


EXPORT = BulkKind(
    "export", (ExportGiven, ExportPart), _plan_export, _ExportWorker, _conclude_export
)


def export_parquet(
    home: Home, given: ExportGiven, workers: int = 1, progress: Progress | None = None
) -> BulkResult:
    """Export the entries a folder does not hold yet; the next export does an interrupted one."""
    asked = msgspec.json.encode(given)
    ranges = EXPORT.plan_ranges(home, asked)
    total, done, parts = count_entries(ranges), 0, []
    for each, part in run_ranges(
        partial(_part_in_process, home_opener(home), asked), ranges, workers
    ):
        parts.append(part)
        done += each.entries
        if progress is not None:
            progress(done, total)
    return EXPORT.conclude(home, asked, parts)


def _part_in_process(open_home: Callable[[], Home], given: bytes, each: Range) -> bytes:
    return EXPORT.part(open_home(), given, each)
