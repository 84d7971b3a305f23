"""A folder of Parquet files: its manifest, and rows written a day at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pointsman.bulk.parquet.rows import Row
from pointsman.bulk.parquet.tables import REJECTION, TABLES, TableName
from pointsman.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

import msgspec
from msgspec import Struct

from pointsman.kernel.instant import DAY, Instant, instant_text
from pointsman.storage.files import replace_file
from pointsman.storage.home import Home

FORMAT: Final = "pointsman/parquet/1"
MANIFEST: Final = "_pointsman.json"


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a folder: of which ledger, from which day on, and how far into each chain.

    Files begin at multiples of `length` entries; a file with fewer grows with the next export.
    """

    format: str
    ledger: str
    length: int
    first_day: int
    has_text: bool
    exported: dict[str, int]


def read_manifest(folder: Path) -> Manifest | None:
    """Read the manifest of a folder; None where nothing was exported to it."""
    path = folder / MANIFEST
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"the export cannot be continued: {error}", where=str(path)) from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a folder, in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    replace_file(folder / MANIFEST, text + b"\n")


def continue_folder(home: Home, folder: Path, wanted: Manifest) -> Manifest:
    """Return the manifest of a folder to add to; refuse a folder of something else."""
    found = read_manifest(folder)
    if found is None:
        if folder.exists() and any(folder.iterdir()):
            raise InputError("the folder holds something else", where=str(folder))
        return wanted
    if found.format != FORMAT or found.ledger != home.identity.ledger:
        raise InputError("the folder holds the export of another ledger", where=str(folder))
    asked = (wanted.first_day, wanted.has_text, wanted.length)
    if asked != (found.first_day, found.has_text, found.length):
        raise InputError(
            "the folder was exported with another --since, --text or --length",
            where=str(folder),
            hint="export to another folder, or with the same options",
        )
    return found


def day_text(day: int) -> str:
    """Write a day since 1970 as a date."""
    return instant_text(Instant(day * DAY))[:10]


def file_of(folder: Path, table: TableName, day: int, chain: str, first: int) -> Path:
    """Name the file of one table, day and range."""
    return folder / table / f"day={day_text(day)}" / f"part-{chain}-{first:012d}.parquet"


GROUP: Final = 10_000
"""So many rows are held in memory before they are written."""


def check_installed() -> None:
    """Raise unless Parquet files can be written here."""
    try:
        import pyarrow.parquet  # type: ignore[import-untyped]  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise InputError(
            "Parquet needs a package that is not installed",
            where=error.name or "",
            hint="pip install 'pointsman[parquet]'",
        ) from error


def schema_of(table: TableName) -> pa.Schema:
    """Return a table's schema, with the meaning of each column."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    text = pa.string()
    types: Mapping[str, pa.DataType] = {
        "string": text,
        "int64": pa.int64(),
        "int32": pa.int32(),
        "bool": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "score": pa.decimal128(10, 9),
        "rejections": pa.list_(pa.struct([(name, text) for name in REJECTION])),
    }
    fields = [
        pa.field(each.name, types[each.type], metadata={"told": each.told})
        for each in TABLES[table]
    ]
    return pa.schema(fields, metadata={"pointsman": "pointsman/parquet/1"})


class DayFiles:
    """The files of one range; days come in order, so at most one of a table is open."""

    def __init__(self, folder: Path, chain: str, first: int) -> None:
        self._folder = folder
        self._part = (chain, first)
        self._open: dict[TableName, _File] = {}
        self.rows: dict[str, int] = dict.fromkeys(TABLES, 0)
        self.files = self.bytes = 0

    def add(self, table: TableName, day: int, row: Row) -> None:
        """Add a row to its day."""
        file = self._open.get(table)
        if file is not None and file.day != day:
            self._close(table)
            file = None
        if file is None:
            target = file_of(self._folder, table, day, *self._part)
            file = self._open[table] = _File(table, day, target)
        file.add(row)
        self.rows[table] += 1

    def finish(self) -> None:
        """Put the last files in their places."""
        for table in [*self._open]:
            self._close(table)

    def drop(self) -> None:
        """Remove the files that are not finished."""
        for file in self._open.values():
            file.drop()

    def _close(self, table: TableName) -> None:
        self.bytes += self._open.pop(table).finish()
        self.files += 1


class _File:
    def __init__(self, table: TableName, day: int, target: Path) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - an extra

        self.day = day
        self._target = target
        self._schema = schema_of(table)
        self._rows: list[Row] = []
        target.parent.mkdir(parents=True, exist_ok=True)
        # Not `.parquet`: a reader of the folder does not take it for a finished part.
        self._temporary = target.with_name(f".{target.name}.{os.getpid()}")
        self._writer = pq.ParquetWriter(self._temporary, self._schema, compression="zstd")

    def add(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) >= GROUP:
            self._flush()

    def finish(self) -> int:
        self._flush()
        self._writer.close()
        self._temporary.replace(self._target)
        return self._target.stat().st_size

    def drop(self) -> None:
        self._writer.close()
        self._temporary.unlink(missing_ok=True)

    def _flush(self) -> None:
        import pyarrow as pa  # noqa: PLC0415 - an extra

        if not self._rows:
            return
        columns = zip(*self._rows, strict=True)
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        self._rows = []
