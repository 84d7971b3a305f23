"""A connection to PostgreSQL that stores can use like one to SQLite.

No error of the driver leaves this module: a lost server is `unavailable`, damage is `broken`.
"""

from __future__ import annotations

import hashlib
import re
import select
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from struct import Struct
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import errors, generators
from psycopg.pq import ExecStatus

from pointsman.errors import LedgerBroken, LedgerUnavailable
from pointsman.storage.connection import Row, Values
from pointsman.storage.sqlite.database import named_blocks, sql_text

_MARK = re.compile(r"'(?:[^']|'')*'|%|\?|(?<![:\w]):([a-z_]\w*)")
_BLOB = re.compile(r"\bx'([0-9a-fA-F]*)'")


@cache
def spoken(sql: str) -> str:
    """Return a statement of SQLite in PostgreSQL's words."""
    own = _own_texts().get(sql)
    return to_driver_marks(own if own is not None else _BLOB.sub(r"'\\x\1'::bytea", sql))


def to_driver_marks(sql: str) -> str:
    """Write `?` and `:name` as the driver wants them."""
    return _MARK.sub(_driver_mark, sql)


def _driver_mark(found: re.Match[str]) -> str:
    text = found[0]
    if text == "?":
        return "%s"
    if text.startswith(":"):
        return f"%({found[1]})s"
    return text.replace("%", "%%")


@cache
def _own_texts() -> Mapping[str, str]:
    """Return the statements PostgreSQL words differently, by their SQLite text."""
    texts: dict[str, str] = {}
    for path in sorted(Path(__file__).parent.glob("*.sql")):
        meant = named_blocks(sql_text(path.name))
        own = named_blocks(path.read_text(encoding="utf-8"))
        texts.update({meant[name]: text for name, text in own.items()})
    return MappingProxyType(texts)


Raw = psycopg.Connection[Row]

STREAMED_ROWS: Final = 500
_CHANGING: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
_GOOD: Final = frozenset({ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK})
_DAMAGE: Final = (
    errors.DataCorrupted,
    errors.IndexCorrupted,
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.InFailedSqlTransaction,  # which one of the others began
)


class Fetched:
    """The rows of one statement."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = iter(rows)

    def __iter__(self) -> Iterator[Row]:
        """Return the rows that were not given yet."""
        return self._rows

    def fetchone(self) -> Row | None:
        """Return the next row, or nothing."""
        return next(self._rows, None)

    def fetchall(self) -> list[Row]:
        """Return the rows that were not given yet."""
        return [*self._rows]

    @property
    def get(self) -> Any:
        """The only column of the only row; None where there is no row."""
        row = self.fetchone()
        return None if row is None else row[0]


# Arrays as PostgreSQL takes them in binary: one value for a column of a whole group. The driver
# would write them value by value, which takes longer than the server needs for the group.
INT8: Final = 20
TEXT: Final = 25
BYTEA: Final = 17
INT8_ARRAY: Final = 1016
TEXT_ARRAY: Final = 1009
BYTEA_ARRAY: Final = 1001

_HEAD: Final = Struct("!iiIii")
_NO_VALUES: Final = Struct("!iiI")
_INT8: Final = Struct("!iq")
_LENGTH: Final = Struct("!i")


class Statement(NamedTuple):
    """A statement whose values are given in binary, prepared once on each connection."""

    name: str
    text: str
    types: tuple[int, ...]


class PostgresConnection:
    """One connection to one store: `storage.connection.Connection` says what each part does."""

    def __init__(
        self,
        raw: Raw,
        schema: str,
        where: str,
        give_back: Callable[[Raw], None] | None = None,
    ) -> None:
        self.raw = raw
        self._schema = schema
        self._where = where
        self._give_back = give_back
        self._changes = 0
        self._total = 0
        self._frozen = False
        self._names = count()
        self._streams: list[psycopg.ServerCursor[Row]] = []
        self._prepared: set[str] = set()

    def execute_prepared(
        self, statement: Statement, values: Sequence[bytes], announce: Callable[[], None]
    ) -> None:
        """Run a statement that returns no rows, and call `announce` once it is under way.

        Raises the driver's errors. Beside `execute`, this spares the driver's own reading of
        the statement and of each value, under the interpreter's lock.
        """
        raw, pg = self.raw, self.raw.pgconn
        with raw.lock:
            if statement.name not in self._prepared:
                pg.send_prepare(statement.name.encode(), statement.text.encode(), statement.types)
                self._wait_for_result()
                self._prepared.add(statement.name)
            pg.send_query_prepared(statement.name.encode(), values, [1] * len(values))
            pg.flush()
            announce()
            self._wait_for_result()

    def _wait_for_result(self) -> None:
        for result in self.raw.wait(generators.execute(self.raw.pgconn)):
            if result.status not in _GOOD:
                raise errors.error_from_result(result, encoding=self.raw.info.encoding)

    def execute(self, sql: str, values: Values = ()) -> Fetched:
        """Run a statement; outside a transaction it is durable when this returns."""
        try:
            cursor = self.raw.execute(spoken(sql), values, binary=True)
            rows = cursor.fetchall() if cursor.description is not None else ()
        except psycopg.Error as error:
            raise translate_error(error, self._where) from error
        self._count(cursor)
        return Fetched(rows)

    def stream(self, sql: str, values: Values = ()) -> Iterator[Row]:
        """Run a query whose rows may be too many for memory; other statements may go between."""
        name = f"stream_{next(self._names)}"
        cursor = self.raw.cursor(name, withhold=not self._frozen)
        self._streams.append(cursor)
        try:
            cursor.execute(spoken(sql), values, binary=True)
        except psycopg.Error as error:
            raise translate_error(error, self._where) from error
        return self._stream(cursor)

    def _stream(self, cursor: psycopg.ServerCursor[Row]) -> Iterator[Row]:
        try:
            while rows := cursor.fetchmany(STREAMED_ROWS):
                yield from rows
            cursor.close()
        except psycopg.Error as error:
            raise translate_error(error, self._where) from error
        # One that is not read to its end is closed with the connection.
        self._streams.remove(cursor)

    def executemany(self, sql: str, rows: Iterable[Values]) -> None:
        """Run a statement once for each row of values."""
        try:
            with self.raw.cursor() as cursor:
                cursor.executemany(spoken(sql), rows)
                self._count(cursor)
        except psycopg.Error as error:
            raise translate_error(error, self._where) from error

    def changes(self) -> int:
        """Count the rows that the last statement inserted, changed or removed."""
        return self._changes

    def total_changes(self) -> int:
        """Count the rows that all statements of the connection inserted, changed or removed."""
        return self._total

    def transaction(self) -> AbstractContextManager[None]:
        """Make the statements run inside durable together, or undo them, as the only writer."""
        return self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with self.raw.transaction():
                # As with SQLite, a transaction that reads and then writes a store is alone with it.
                self.raw.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key(self._schema),))
                yield
        except psycopg.Error as error:
            raise translate_error(error, self._where) from error

    def freeze(self) -> None:
        """See the store as it is now until the connection is closed, whatever others write."""
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self.execute("SELECT 1")
        self._frozen = True

    def version(self) -> int:
        """Return a number that changes whenever another connection has written."""
        seen = str(self.execute("SELECT pg_current_snapshot()::text").get)
        return int.from_bytes(hashlib.sha256(seen.encode()).digest()[:7])

    def scrub(self) -> None:
        """Write the tables anew without overwritten rows, and let the server end its log.

        Segments of the log that the server keeps or uses again, standbys and backups are the
        operator's: `docs/guide/record.md` says how.
        """
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        for (table,) in self.execute(tables).fetchall():
            # A plain VACUUM only marks the room as free: the bytes stay in it.
            self.execute(f'VACUUM FULL "{table}"')
        with suppress(psycopg.Error):  # it takes rights that an owner of tables need not have
            self.raw.execute("SELECT pg_switch_wal()")
            self.raw.execute("CHECKPOINT")

    def tend(self, pages: int) -> None:
        """Leave it to the server."""

    def damage(self) -> str:
        """Return the server's own complaint about the store's indexes, where it can check them."""
        if self.execute("SELECT 1 FROM pg_extension WHERE extname = 'amcheck'").get is None:
            return ""
        try:
            self.execute(_CHECKED)
        except (LedgerBroken, LedgerUnavailable) as error:
            if isinstance(error.__cause__, errors.InsufficientPrivilege):
                return ""
            return error.message
        return ""

    @property
    def is_alive(self) -> bool:
        """Tell, without asking it, whether the server still listens."""
        if self.raw.closed:
            return False
        # An idle server says nothing: whatever there is to read is its farewell.
        poll = select.poll()
        poll.register(self.raw.pgconn.socket, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Let go of the database."""
        raw = self.raw
        streams, self._streams = self._streams, []
        for stream in streams:
            with suppress(psycopg.Error):
                stream.close()
        with suppress(psycopg.Error):
            if self._give_back is None or raw.closed:
                raw.close()
                return
            if raw.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
                raw.rollback()
            self._give_back(raw)

    def _count(self, cursor: psycopg.Cursor[Row]) -> None:
        words = (cursor.statusmessage or "").split(" ", 1)
        self._changes = cursor.rowcount if words[0] in _CHANGING else 0
        self._total += self._changes


_CHECKED: Final = """
SELECT bt_index_check(i.indexrelid, true) FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam
WHERE a.amname = 'btree' AND c.relnamespace = current_schema()::regnamespace
"""


def lock_key(name: str) -> int:
    """Return the number that stands for a name among the server's advisory locks."""
    digest = hashlib.sha256(f"pointsman/{name}".encode()).digest()
    return int.from_bytes(digest[:8], signed=True)


def translate_error(error: psycopg.Error, where: str) -> LedgerBroken | LedgerUnavailable:
    """Turn an error of the driver into one that says what to do."""
    message = " ".join(str(error).split())
    if isinstance(error, _DAMAGE):
        hint = "keep a copy, then run `pointsman verify`"
        return LedgerBroken(f"the database is damaged: {message}", where=where, hint=hint)
    hint = "entries are taken again once the server answers" if is_lost(error) else ""
    return LedgerUnavailable(f"PostgreSQL: {message}", where=where, hint=hint)


def is_lost(error: psycopg.Error) -> bool:
    """Tell whether the connection itself failed, and with it the answer."""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def int8_value(value: int) -> bytes:
    """Return one whole number in binary."""
    return value.to_bytes(8, signed=True)


def int8_array(values: Sequence[int]) -> bytes:
    """Return whole numbers as one array."""
    pack = _INT8.pack
    return _head(INT8, len(values)) + b"".join([pack(8, each) for each in values])


def text_array(values: Sequence[str]) -> bytes:
    """Return texts as one array."""
    return _array(TEXT, [each.encode() for each in values])


def bytea_array(values: Sequence[bytes]) -> bytes:
    """Return byte strings as one array."""
    return _array(BYTEA, values)


def _array(kind: int, values: Sequence[bytes]) -> bytes:
    pack = _LENGTH.pack
    parts = [_head(kind, len(values))]
    for each in values:
        parts += (pack(len(each)), each)
    return b"".join(parts)


def _head(kind: int, count: int) -> bytes:
    # One dimension, no value missing, counted from 1.
    return _HEAD.pack(1, 0, kind, count, 1) if count else _NO_VALUES.pack(0, 0, kind)
