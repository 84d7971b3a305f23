"""Opening a SQLite file the way the ledger needs it, and the named SQL beside this module."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final

import apsw

from pointsman.errors import LedgerBroken, LedgerError, LedgerUnavailable, LedgerUnreadable
from pointsman.storage.connection import Connection, Value
from pointsman.storage.files import make_file
from pointsman.storage.place import Where

FRUGAL_KIB: Final = 8 * 1024


def be_frugal(kib: int = FRUGAL_KIB) -> None:
    """Keep the pages of all databases of this process below a bound, from here on.

    A gateway is fast because its indexes stay in memory; a user who talks for a day wants that
    memory for something else, and waits for models anyway.
    """
    apsw.soft_heap_limit(kib * 1024)


MINIMUM_SQLITE = (3, 51, 3)
"""Versions before this one can corrupt a WAL database that has several connections."""

BUSY_MS = 10_000
AGAIN_S = 0.005
SCHEMA_VERSION = 1
CACHE_KIB = 16 * 1024
"""Digests come in random order: with their index in memory an insert does not wait for a page."""
LOG_PAGES = 1000
"""Few enough to be written back while the next turns are served, many enough to share a sync."""
MOST_ROWS = 160
STATEMENTS = 100
"""How many compiled statements are kept."""

UNREACHABLE = (
    apsw.CantOpenError, apsw.IOError, apsw.PermissionsError, apsw.ReadOnlyError, apsw.NoMemError,
)  # fmt: skip
"""What SQLite raises where the system denies it a file, which may be as it was."""

_BLOCK = re.compile(r"^-- (\w+): .*$", re.MULTILINE)


def sql_text(name: str) -> str:
    """Read a file of SQL beside this module."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def named_blocks(text: str) -> Mapping[str, str]:
    """Split SQL into its blocks, each named by the comment above it."""
    _, *parts = _BLOCK.split(text)
    return MappingProxyType(
        {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}
    )


SQL = named_blocks(sql_text("queries.sql"))


class SqliteConnection(apsw.Connection):
    """A connection as stores use it: `storage.connection.Connection` says what each part does."""

    stream = apsw.Connection.execute
    _written_back: int | None = None  # how many pages were logged before; None where SQLite tends

    def transaction(self) -> AbstractContextManager[None]:
        """Make the statements run inside durable together, or undo them, as the only writer."""
        return _transaction(self)

    def freeze(self) -> None:
        """See the database as it is now until the connection is closed."""
        self.execute("BEGIN")
        self.execute("SELECT 1 FROM sqlite_schema").fetchall()

    def version(self) -> int:
        """Return a number that changes whenever another connection has written."""
        return int(self.execute("PRAGMA data_version").get)

    def scrub(self) -> None:
        """Empty the log: freed pages are overwritten as they are freed."""
        try:
            self.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError as error:
            raise LedgerUnavailable(
                "it is erased, but another process still reads the log that holds it",
                where=self.filename,
                hint="run it again: the log is wiped once no reader needs it",
            ) from error

    def tend(self, pages: int = LOG_PAGES) -> None:
        """Write the log back once so many pages went into it; from now on, at no other time.

        SQLite itself would do so within a commit, while a caller waits for it, and would hide that
        a sync failed and try again.
        """
        # The pages that went into the log; SQLite's own hook would call back in a commit.
        logged = self.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0]
        if self._written_back is None:
            self.wal_autocheckpoint(0)
            self._written_back = logged
        elif logged - self._written_back >= pages:
            with suppress(apsw.BusyError):  # another process is at it
                self.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._written_back = self.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0]

    def damage(self) -> str:
        """Return SQLite's own complaint about the file, or nothing."""
        try:
            found = self.pragma("integrity_check")
        except apsw.Error as error:
            check_reachable(error, self.filename)
            return str(error)
        return "" if found == "ok" else str(found)


def open_database(
    path: str,
    schema: str,
    *,
    vfs: str | None = None,
    sync: str = "FULL",
    exclusive: bool = False,
    cache_kib: int = CACHE_KIB,
) -> SqliteConnection:
    """Open a database for writing, making its tables if it is new.

    `exclusive` keeps every other connection out, for file systems without shared memory.
    """
    if tuple(int(part) for part in apsw.sqlite_lib_version().split(".")) < MINIMUM_SQLITE:
        raise LedgerError(
            f"SQLite {apsw.sqlite_lib_version()} can corrupt a shared database",
            hint="install apsw 3.51.3 or newer",
        )
    if vfs is None:
        make_file(Path(path))
    connection = SqliteConnection(path, vfs=vfs, statementcachesize=STATEMENTS)
    try:
        if exclusive:
            connection.pragma("locking_mode", "exclusive")
        _prepare(connection, schema, sync)
        connection.pragma("cache_size", -cache_kib)
    except BaseException:
        connection.close()
        raise
    return connection


def opened_for_reading(path: str) -> SqliteConnection:
    """Open a database that exists; nothing can be written through the connection."""
    connection = _open_unwritten(path)
    connection.set_busy_timeout(BUSY_MS)
    connection.pragma("trusted_schema", 0)
    return connection


def _open_unwritten(path: str) -> SqliteConnection:
    """Open a database to read, also where nothing can be written beside it.

    SQLite shares its log's index in a file. On a medium that takes none, as an auditor's copy may
    be, a closed database is read as it is, and one with a log through an index in memory.
    """
    log = Path(f"{path}-wal")
    if os.access(log.parent, os.W_OK) or Path(f"{path}-shm").exists():
        return SqliteConnection(path, flags=apsw.SQLITE_OPEN_READONLY)
    if log.exists() and log.stat().st_size:
        # Locks would be files of the medium, too: without them, the log is read by one alone.
        connection = SqliteConnection(path, flags=apsw.SQLITE_OPEN_READONLY, vfs="unix-none")
        connection.pragma("locking_mode", "exclusive")
        return connection
    uri = f"{Path(path).absolute().as_uri()}?immutable=1"
    return SqliteConnection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


@contextmanager
def sqlite_errors_told(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into an error that says what to do."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as error:
        hint = "keep a copy, then run `pointsman verify`"
        raise LedgerBroken(
            f"the database is damaged: {error}", where=str(path), hint=hint
        ) from error
    except apsw.Error as error:
        if isinstance(error, UNREACHABLE):
            check_reachable(error, path)
        raise LedgerUnavailable(f"it cannot be read now: {error}", where=str(path)) from error


def check_reachable(error: Exception, path: object = "") -> None:
    """Raise `LedgerUnreadable` where the system denied the file."""
    is_denied = isinstance(error, (*UNREACHABLE, OSError))
    if isinstance(path, Path) and path.is_dir():
        is_denied = False  # a folder in place of the file was put there: the file is gone
    elif isinstance(path, Path) and isinstance(error, apsw.CantOpenError):
        is_denied = not _can_read(path)
    if is_denied:
        where = getattr(error, "filename", None) or path
        cause = getattr(error, "strerror", None) or error
        hint = "see that you may use it and that its disk works; what it holds may be intact"
        message = f"it cannot be used here: {cause}"
        raise LedgerUnreadable(message, where=str(where), hint=hint) from error


def _can_read(path: Path) -> bool:
    """Tell whether the system lets us read a file, so that the fault is in its content."""
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError:
        return False
    return True


def told_errors(where: Where) -> AbstractContextManager[None]:
    """Turn what the database raises into an error that says what to do."""
    return sqlite_errors_told(where) if isinstance(where, Path) else where.told_errors()


def in_transaction(connection: Connection, work: Callable[[], object]) -> None:
    """Run work in one transaction that is durable when this returns, or undone when it raises."""
    with connection.transaction():
        work()


@contextmanager
def _transaction(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A failed rollback must not hide why: the caller gives the connection up either way.
        with suppress(apsw.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


def insert_rows(connection: Connection, sql: str, rows: Sequence[Sequence[Value]]) -> None:
    """Insert rows: all of them or, if it raises, none; durable at the end."""
    if len(rows) <= MOST_ROWS:
        put_rows(connection, sql, rows)
    else:
        in_transaction(connection, lambda: put_rows(connection, sql, rows))


def put_rows(connection: Connection, sql: str, rows: Sequence[Sequence[Value]]) -> None:
    """Run an insert of one row with many.

    Each step gives the interpreter's lock away and must win it back from the thread that runs
    meanwhile: a step a row, and others to begin and to commit, would cost more than the rows
    themselves.
    """
    for at in range(0, len(rows), MOST_ROWS):
        some = rows[at : at + MOST_ROWS]
        values = list(chain.from_iterable(some))
        connection.execute(_of_rows(sql, len(some)), values)


@cache
def _of_rows(sql: str, count: int) -> str:
    """Return an insert of several rows."""
    head, values, tail = sql.partition("VALUES (")
    marks, end, rest = tail.partition(")")
    return head + ", ".join([f"{values}{marks}{end}", *[f"({marks})"] * (count - 1)]) + rest


def _prepare(connection: SqliteConnection, schema: str, sync: str) -> None:
    connection.set_busy_timeout(BUSY_MS)
    _log_ahead(connection)
    # DURABILITY: with anything less than FULL, a power loss takes acknowledged entries with it.
    connection.pragma("synchronous", sync)
    connection.pragma("secure_delete", 1)
    connection.pragma("trusted_schema", 0)
    connection.pragma("cell_size_check", 1)
    connection.pragma("mmap_size", 0)
    # What a statement would undo by itself is kept in memory, not in a file that is never needed.
    connection.pragma("temp_store", 2)
    in_transaction(connection, lambda: _make_tables(connection, schema))


def _log_ahead(connection: SqliteConnection) -> None:
    """Have changes logged ahead of the database.

    A writer that begins one beside another is told at once that it is locked, whatever the
    timeout: it is tried again for as long.
    """
    end = time.monotonic() + BUSY_MS / 1_000
    while True:
        try:
            connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if time.monotonic() > end:
                raise
            time.sleep(AGAIN_S)
        else:
            return


def _make_tables(connection: apsw.Connection, schema: str) -> None:
    version = connection.pragma("user_version")
    if version == 0:
        connection.execute(sql_text(schema))
    elif version != SCHEMA_VERSION:
        raise LedgerUnavailable(
            f"the database has schema {version}, this program knows {SCHEMA_VERSION}",
            hint="use the version of pointsman that wrote it, or a newer one",
        )
    # DURABILITY: written also where it stands already, for the sync that comes with the commit.
    # A killed process leaves commits in the log that were never synced; nothing may be built on
    # them, and no checkpoint signed over them, while a power cut could still take them.
    connection.pragma("user_version", SCHEMA_VERSION)
