"""Putting many rows into PostgreSQL at once, with names of tables and columns that are our own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import psycopg

from pointsman.storage.connection import Row
from pointsman.storage.postgres.connection import PostgresConnection, Raw, translate_error


def load(
    connection: PostgresConnection,
    table: str,
    columns: Sequence[str],
    key: Sequence[str],
    rows: Iterable[Row],
    *,
    is_kept: bool = False,
) -> int:
    """Insert rows inside a transaction; return how many.

    A row replaces the one with its key, unless existing rows are kept; without a key it must be
    the first of its kind.
    """
    listed, raw = ", ".join(columns), connection.raw
    made = f"CREATE TEMPORARY TABLE loaded AS SELECT {listed} FROM {table} LIMIT 0"  # noqa: S608 - names are our own
    # In the order they were given: what the database counts up follows it.
    put = f"INSERT INTO {table} ({listed}) SELECT {listed} FROM loaded ORDER BY ctid"  # noqa: S608 - as above
    try:
        raw.execute(made)
        count = _copy_rows(raw, f"COPY loaded ({listed}) FROM STDIN", rows)
        raw.execute(f"{put} {_conflict(() if is_kept else columns, key)}")
        raw.execute("DROP TABLE loaded")
    except psycopg.Error as error:
        raise translate_error(error, table) from error
    return count


def _copy_rows(raw: Raw, sql: str, rows: Iterable[Row]) -> int:
    count = 0
    with raw.cursor() as cursor, cursor.copy(sql) as copy:
        for row in rows:
            copy.write_row(row)
            count += 1
    return count


def _conflict(columns: Sequence[str], key: Sequence[str]) -> str:
    rest = [each for each in columns if each not in key]
    if not key or not rest:
        return f"ON CONFLICT ({', '.join(key)}) DO NOTHING" if key else ""
    changed = ", ".join(f"{each} = excluded.{each}" for each in rest)
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changed}"


def count_on(connection: PostgresConnection, table: str, column: str) -> None:
    """Let the database count a column on from the largest number that is there."""
    largest = f"SELECT coalesce(max({column}), 0) + 1 FROM {table}"  # noqa: S608 - names are our own
    counting = f"SELECT setval(pg_get_serial_sequence(?, ?), ({largest}), FALSE)"
    connection.execute(counting, (table, column))
