"""A PostgreSQL database as the store of a home: one schema for each of its parts."""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pointsman.errors import HomeError, LedgerUnavailable
from pointsman.storage.postgres.checkpoints import PostgresCheckpoints
from pointsman.storage.postgres.connection import PostgresConnection, Raw
from pointsman.storage.postgres.lease import PostgresLease
from pointsman.storage.postgres.migrations import migrate
from pointsman.storage.postgres.renewed import RenewedConnection
from pointsman.storage.postgres.standstill import Standstill
from pointsman.storage.writer.chain_rows import LeasedLedger

MOST_IDLE: Final = 4
"""How many connections for reading are kept, for each part of the store."""

_DEFAULTS: Final = {
    "connect_timeout": "5",
    # A peer that vanished without a farewell is noticed in half a minute, on both ends: until
    # then it would hold its chain.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "pointsman",
}
_SESSION: Final = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "client_min_messages": "warning",
    "timezone": "UTC",
    # DURABILITY: said here, whatever the server, the database or the role has as its default.
    "synchronous_commit": "on",
}


class PostgresStore:
    """Everything a home keeps, in one database."""

    def __init__(self, url: str, checkpoints: Path) -> None:
        self._conninfo = _check_url(url)
        self._root = checkpoints
        self._options = str(conninfo_to_dict(self._conninfo).get("options") or "")
        self.shown = _without_secrets(self._conninfo)
        self._standstill = Standstill(self._conninfo)
        self._lock = threading.Lock()
        self._idle: defaultdict[str, list[Raw]] = defaultdict(list)
        self.existing: set[str] = set()
        """Schemas that were found: none goes again."""
        self._migrated = False
        # INVARIANT: nothing here leads back to the store, so that dropping the store closes these.
        weakref.finalize(self, _close_all, self._idle)

    def __reduce__(self) -> tuple[object, ...]:
        """Let another process open the same database for itself."""
        return PostgresStore, (self._conninfo, self._root)

    def conninfo(self, schema: str) -> str:
        """Return the connection settings for a schema, secrets included: never to be shown."""
        return make_conninfo(
            self._conninfo, options=f"{self._options} -c search_path={schema}".strip()
        )

    def place(self, name: str) -> PostgresPlace:
        """Return the part of the database that is one store's."""
        return PostgresPlace(self, name)

    def prepare(self) -> str:
        """Make the tables where there are none; give the address without secrets."""
        self.ensure_migrated()
        return self.shown

    def examine(self) -> Iterator[tuple[str, str]]:
        """Return the server's version, and its settings that could lose acknowledged entries."""
        connection = self.connect("pointsman", is_reading=True)
        try:
            asked = ("server_version", "fsync", "full_page_writes")
            version, *safe = [
                str(connection.execute("SELECT current_setting(?)", (name,)).get) for name in asked
            ]
        finally:
            connection.close()
        yield f"PostgreSQL {version} at {self.shown}", ""
        for name, value in zip(asked[1:], safe, strict=True):
            if value != "on":
                yield f"{name} is {value}: a crash can lose acknowledged entries", f"set {name}=on"

    def ledger(self, writer: str) -> LeasedLedger:
        """Take the chain `writer`, or `writer-2`, `writer-3`, … when others hold those before."""
        from pointsman.storage.postgres.ledger import PostgresLedger  # noqa: PLC0415 - a circle

        return PostgresLedger(self.place("ledger"), self._root, writer)

    def lease(self, name: str, *, waits: bool = False) -> PostgresLease:
        """Take the sole right to something; while another has it, wait or raise `ChainHeld`."""
        self.ensure_migrated()
        return PostgresLease(lambda: self.connect("pointsman"), name, waits=waits)

    def checkpoints(self) -> PostgresCheckpoints:
        """Return the checkpoints of the ledger's chains."""
        return PostgresCheckpoints(self._root, self.place("ledger").looking)

    def connect(self, schema: str, *, is_reading: bool = False) -> PostgresConnection:
        """Open a connection whose tables are those of a schema."""
        if is_reading:
            return self._borrow(schema)
        raw = self._connect(schema, {})
        return PostgresConnection(raw, schema, self.shown)

    def ensure_migrated(self) -> None:
        """Make or change tables until they are those this program knows; once."""
        if self._migrated:
            return
        raw = self._connect("pointsman", {})
        try:
            migrate(raw, self.shown)
        finally:
            raw.close()
        self._migrated = True

    def _borrow(self, schema: str) -> PostgresConnection:
        def give_back(raw: Raw) -> None:
            with self._lock:
                idle = self._idle[schema]
                if len(idle) < MOST_IDLE:
                    idle.append(raw)
                    return
            raw.close()

        while True:
            with self._lock:
                idle = self._idle[schema]
                raw = idle.pop() if idle else None
            if raw is None:
                raw = self._connect(schema, {"default_transaction_read_only": "on"})
                return PostgresConnection(raw, schema, self.shown, give_back)
            connection = PostgresConnection(raw, schema, self.shown, give_back)
            if connection.is_alive:
                return connection
            raw.close()

    def _connect(self, schema: str, settings: dict[str, str]) -> Raw:
        asked = {**_SESSION, "search_path": schema, **settings}
        ours = " ".join(f"-c {name}={value}" for name, value in asked.items())
        options = f"{self._options} {ours}".strip()
        conninfo = make_conninfo(self._conninfo, options=options)
        try:
            raw = self._standstill.connect(conninfo)
        except psycopg.Error as error:
            raise LedgerUnavailable(
                f"PostgreSQL cannot be reached: {' '.join(str(error).split())}",
                where=self.shown,
                hint="start the server, or correct the store's URL",
            ) from error
        return raw


class PostgresPlace:
    """One store of a home: a schema called `pointsman_` and the store's name."""

    def __init__(self, store: PostgresStore, name: str) -> None:
        self.store = store
        self._name = name
        self.schema = f"pointsman_{name}"

    def __str__(self) -> str:
        return f"{self.store.shown} ({self.schema})"

    @property
    def name(self) -> str:
        """The schema."""
        return self.schema

    def exists(self) -> bool:
        """Tell whether the store's tables were ever made."""
        known = self.store.existing
        if self.schema not in known:
            found = self._ask("SELECT 1 FROM pg_namespace WHERE nspname = ?", self.schema)
            if found is not None:
                known.add(self.schema)
        return self.schema in known

    def size(self) -> int:
        """Count the bytes of the store's tables and indexes."""
        found = self._ask(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = to_regnamespace(?)",
            self.schema,
        )
        return int(str(found))

    def writing(
        self, schema: str, *, sync: str = "FULL", is_lean: bool = False
    ) -> PostgresConnection:
        """Open for writing; the tables are those that migrations make, whatever `schema` says.

        Every commit is synced: what a file keeps when its process is killed, a server that is
        killed would lose with anything less.
        """
        del schema, sync, is_lean
        self.store.ensure_migrated()
        return self.store.connect(self.schema)

    def lasting(
        self, schema: str, *, sync: str = "FULL", is_lean: bool = False
    ) -> RenewedConnection:
        """Open for writing for as long as the process runs, also when the server goes and comes."""
        return RenewedConnection(lambda: self.writing(schema, sync=sync, is_lean=is_lean))

    def reading(self) -> RenewedConnection:
        """Open for reading, also when the server goes and comes meanwhile."""
        return RenewedConnection(self.looking)

    def looking(self) -> PostgresConnection:
        """Open for a look; closing it keeps the connection for the next reader."""
        return self.store.connect(self.schema, is_reading=True)

    @contextmanager
    def told_errors(self) -> Iterator[None]:
        """Change nothing: the connections tell their errors themselves."""
        yield

    def _ask(self, sql: str, value: str) -> object:
        connection = self.reading()
        try:
            return connection.execute(sql, (value,)).get
        finally:
            connection.close()


def _check_url(url: str) -> str:
    try:
        return make_conninfo("", **{**_DEFAULTS, **conninfo_to_dict(url)})
    except psycopg.Error:
        # What the driver says repeats the URL, and with it the password.
        raise HomeError(
            "the store's URL cannot be read",
            hint="write postgresql://USER@HOST:PORT/DATABASE",
        ) from None


def _without_secrets(conninfo: str) -> str:
    parts = {name: str(value) for name, value in conninfo_to_dict(conninfo).items()}
    user = f"{parts['user']}@" if "user" in parts else ""
    port = f":{parts['port']}" if "port" in parts else ""
    return f"postgresql://{user}{parts.get('host', '')}{port}/{parts.get('dbname', '')}"


def _close_all(idle: dict[str, list[Raw]]) -> None:
    for raws in idle.values():
        for raw in raws:
            with suppress(psycopg.Error):
                raw.close()
