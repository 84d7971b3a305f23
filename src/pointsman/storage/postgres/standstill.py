"""A server that stands still: it takes connections and bytes, and answers nothing.

No deadline of TCP tells it from a slow statement: the kernel of a stopped server still
acknowledges. So a caller that waits too long for an answer asks for a second connection, which a
server that works gives at once.
"""

from __future__ import annotations

import threading
import time
from typing import Final

import psycopg
from psycopg import errors
from psycopg.abc import RV, PQGen
from psycopg.conninfo import make_conninfo

from pointsman.storage.connection import Row

PATIENCE_S: Final = 3.0
"""How long a statement may take before the server is asked whether it still answers."""

MOST_PATIENCE_S: Final = 60.0
"""The longest pause between two such questions to a server that answers them."""

CONNECT_S: Final = 2
"""How long a new connection may take while the server may stand still; the driver's least."""

MESSAGE: Final = "the server stands still: it takes connections and answers nothing"

QUIET_S: Final = 1.0
"""How long every new connection is refused at once after one that got no answer."""


class WatchedConnection(psycopg.Connection[Row]):
    """A connection whose statements end with an error when the server stands still."""

    standstill: Standstill | None = None

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait for an answer, however long the server works on it."""
        if timeout is not None or self.standstill is None:
            return super().wait(gen, interval, timeout)
        patience = PATIENCE_S
        while True:
            try:
                return super().wait(gen, interval, patience)
            except errors._WaitTimeout:  # noqa: SLF001 - how the driver ends a wait
                if not self.standstill.does_answer():
                    # Nothing is said on it any more: a rollback would wait as well.
                    self.pgconn.finish()
                    raise psycopg.OperationalError(MESSAGE) from None
                patience = min(2 * patience, MOST_PATIENCE_S)


class Standstill:
    """Whether one server answers, for all connections to it in this process."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._asking = threading.Lock()
        self._silent_at: float | None = None

    def connect(self, conninfo: str) -> psycopg.Connection[Row]:
        """Open a connection; while the server stands still, one caller at a time asks it."""
        if self._silent_at is None:
            return self._connect(conninfo)
        if time.monotonic() < self._silent_at + QUIET_S or not self._asking.acquire(blocking=False):
            raise psycopg.OperationalError(MESSAGE)
        try:
            return self._connect(make_conninfo(conninfo, connect_timeout=CONNECT_S))
        finally:
            self._asking.release()

    def does_answer(self) -> bool:
        """Ask the server for a connection; whatever it says is an answer."""
        if self._silent_at is not None and time.monotonic() < self._silent_at + QUIET_S:
            return False
        try:
            self._connect(make_conninfo(self._conninfo, connect_timeout=CONNECT_S)).close()
        except psycopg.OperationalError as error:
            # One that refuses for want of places works; one that is gone ends its connections.
            return error.sqlstate is not None
        return True

    def _connect(self, conninfo: str) -> psycopg.Connection[Row]:
        try:
            made = WatchedConnection.connect(conninfo, autocommit=True)
        except errors.ConnectionTimeout:
            self._silent_at = time.monotonic()
            raise
        self._silent_at = None
        made.standstill = self
        return made
