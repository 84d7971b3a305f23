"""Connections for shared state: a few, kept open, each used by one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg

from pointsman.storage.postgres.connection import PostgresConnection, Raw, translate_error
from pointsman.storage.postgres.place import PostgresStore

MOST_IDLE: Final = 8
SCHEMA: Final = "pointsman_shared"


class Pool:
    """Lends connections; may be shared by threads."""

    def __init__(self, store: PostgresStore) -> None:
        store.ensure_migrated()
        self._store = store
        self._lock = threading.Lock()
        self._idle: list[PostgresConnection] = []

    @property
    def address(self) -> str:
        """Where the database is, without a password."""
        return self._store.shown

    @contextmanager
    def lent(self) -> Iterator[Raw]:
        """Lend a connection; one that failed is not lent again."""
        connection = self._take()
        try:
            yield connection.raw
        except psycopg.Error as error:
            with suppress(psycopg.Error):
                connection.raw.close()
            raise translate_error(error, self.address) from error
        except BaseException:
            with suppress(psycopg.Error):
                connection.raw.close()
            raise
        self._put_back(connection)

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()

    def _take(self) -> PostgresConnection:
        while True:
            with self._lock:
                found = self._idle.pop() if self._idle else None
            if found is None:
                return self._store.connect(SCHEMA)
            if found.is_alive:
                return found
            found.close()

    def _put_back(self, connection: PostgresConnection) -> None:
        with self._lock:
            if len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()
