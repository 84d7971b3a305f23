"""The stores a contract is held against: SQLite in memory, SQLite in a folder, PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from itertools import count
from pathlib import Path

import apsw
import psycopg
import pytest
from tests.contract.stores.machines import Machines, opened_machines
from tests.servers import PostgresServer

from pointsman.storage.home import Home, open_home
from pointsman.storage.place import Store
from pointsman.storage.sqlite import ledger
from pointsman.storage.sqlite.database import SqliteConnection, open_database, sqlite_errors_told
from pointsman.storage.sqlite.folder import SqliteFolder
from pointsman.storage.sqlite.ledger import SqliteLedger
from pointsman.storage.store_url import opened_store
from pointsman.storage.writer.checkpoints import CheckpointFolders
from pointsman.storage.writer.lease import Lease, first_free_lease

KINDS = ("memory", "sqlite", "postgres")

_memories = count()


class MemoryPlace:
    """A database that is gone with its last connection, one of which is held here."""

    def __init__(self, name: str) -> None:
        self.name = f"/{next(_memories)}-{name}"
        self._held: SqliteConnection | None = None

    def __str__(self) -> str:
        return f"memory{self.name}"

    def exists(self) -> bool:
        return self._held is not None

    def size(self) -> int:
        if self._held is None:
            return 0
        return int(self._held.pragma("page_count")) * int(self._held.pragma("page_size"))

    def writing(
        self, schema: str, *, sync: str = "FULL", is_lean: bool = False
    ) -> SqliteConnection:
        if self._held is None:
            self._held = open_database(self.name, schema, vfs="memdb", sync=sync)
        return open_database(self.name, schema, vfs="memdb", sync=sync)

    lasting = writing

    def reading(self) -> SqliteConnection:
        found = SqliteConnection(self.name, vfs="memdb", flags=apsw.SQLITE_OPEN_READONLY)
        found.set_busy_timeout(10_000)
        return found

    def told_errors(self) -> AbstractContextManager[None]:
        return sqlite_errors_told(Path(self.name))

    def close(self) -> None:
        if self._held is not None:
            self._held.close()


class MemoryStore:
    """A store in memory; what must outlive a process lies in a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, MemoryPlace] = {}

    def place(self, name: str) -> MemoryPlace:
        return self._places.setdefault(name, MemoryPlace(name))

    def ledger(self, writer: str) -> SqliteLedger:
        at = self.place("ledger")
        at.writing("schema.sql").close()
        place = ledger.WritePlace(Path(at.name), self._path / "checkpoints", vfs="memdb")
        return SqliteLedger(place, first_free_lease(self._path / "leases", writer))

    def lease(self, name: str, *, waits: bool = False) -> Lease:
        return Lease(self._path / "leases", name, waits=waits)

    def checkpoints(self) -> CheckpointFolders:
        return CheckpointFolders(self._path / "checkpoints")

    def close(self) -> None:
        for each in self._places.values():
            each.close()


class Emptied:
    """One PostgreSQL store for many tests: what one wrote, the next does not find."""

    def __init__(self, url: str) -> None:
        self.url = url
        opened_store(Path(), url).place("access").writing("").close()
        self._connection = psycopg.connect(url, autocommit=True)
        # A version of semantic memory resists; this is how a server copies without its triggers.
        self._connection.execute("SET session_replication_role = replica")
        tables = self._connection.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
            " WHERE schemaname LIKE 'pointsman_%'"
        ).fetchall()
        self._tables = [str(name) for (name,) in tables]
        self._seeds = {name: self._rows(name) for name in self._tables if self._rows(name)}

    def empty(self) -> None:
        """Put every table back to what a migration leaves."""
        for name in self._tables:
            self._run(f"DELETE FROM {name}")
        for name, rows in self._seeds.items():
            marks = ", ".join("%s" for _ in rows[0])
            for row in rows:
                self._run(f"INSERT INTO {name} VALUES ({marks})", row)

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def _rows(self, name: str) -> list[tuple[object, ...]]:
        return self._connection.execute(f"SELECT * FROM {name}").fetchall()

    def _run(self, sql: str, row: tuple[object, ...] = ()) -> None:
        self._connection.execute(sql, row)


@pytest.fixture(scope="session")
def emptied(postgres_server: PostgresServer) -> Iterator[Emptied]:
    """A database with every table, for many tests."""
    with closing(Emptied(postgres_server.fresh())) as found:
        yield found


@pytest.fixture
def store_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty PostgreSQL store."""
    found: Emptied = request.getfixturevalue("emptied")
    found.empty()
    return found.url


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each kind."""
    if request.param == "postgres":
        yield opened_store(tmp_path, request.getfixturevalue("store_url"))
    elif request.param == "sqlite":
        yield SqliteFolder(tmp_path)
    else:
        memory = MemoryStore(tmp_path)
        yield memory
        memory.close()


@pytest.fixture
def home(store: Store, tmp_path: Path) -> Home:
    """A new home that keeps everything in the store."""
    return Home(open_home(tmp_path).path, store)


@pytest.fixture(params=["sqlite", "postgres"])
def machines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machines]:
    url = request.getfixturevalue("store_url") if request.param == "postgres" else ""
    with opened_machines(tmp_path, url) as found:
        yield found
