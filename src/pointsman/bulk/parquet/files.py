"""Rows into Parquet files, a day at a time: each file takes its place in one step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pointsman.bulk.parquet.folder import file_of
from pointsman.bulk.parquet.rows import Row
from pointsman.bulk.parquet.tables import REJECTION, TABLES, TableName
from pointsman.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

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
