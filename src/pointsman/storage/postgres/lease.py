"""Sole rights in a database: advisory locks of a session, which the server drops when it ends.

A session may end without its holder knowing. So a right to write has a number, another each time it
is taken: whatever is written under it shows it, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from psycopg import errors

from pointsman.errors import ChainHeld, LeaseLost, LedgerError, LedgerUnavailable
from pointsman.storage.postgres.connection import PostgresConnection, lock_key
from pointsman.storage.writer.chain_rows import Fence
from pointsman.storage.writer.lease import MOST_WRITERS

GONE_MS: Final = 1000
TURN_MS: Final = 60_000
"""How long a process waits for a lease that will be released."""

_TAKE: Final = """
INSERT INTO leases (name, token) VALUES (?, nextval('lease_tokens'))
ON CONFLICT (name) DO UPDATE SET token = excluded.token RETURNING token
"""
_OWN: Final = "SELECT 1 FROM leases WHERE name = ? AND token = ?"
_LEAVE: Final = "DELETE FROM leases WHERE name = ? AND token = ?"


class PostgresLease:
    """Sole right to something in a home, held by a connection of its own."""

    def __init__(
        self, opened: Callable[[], PostgresConnection], name: str, *, waits: bool = False
    ) -> None:
        self._opened = opened
        self._name = name
        self._connection = opened()
        try:
            self._lock(TURN_MS if waits else 0)
            # Waits for a write under the lease that is under way.
            self._token = int(self._connection.execute(_TAKE, (name,)).get)
        except BaseException:
            self._connection.close()
            raise

    def fence(self) -> Fence:
        """Return what a write must find that rests on the right, or raise `LeaseLost`."""
        if not self._connection.is_alive:
            self._take_again()
        return Fence(self._name, self._token)

    def release(self) -> None:
        """Release the lease."""
        with suppress(LedgerError):
            self._connection.execute(_LEAVE, (self._name, self._token))
            # The server may notice only in a moment that a connection is closed.
            self._connection.execute("SELECT pg_advisory_unlock(?)", (_key(self._name),))
        self._connection.close()

    def _lock(self, wait_ms: int) -> None:
        if not wait_ms:
            if not is_leased(self._connection, self._name):
                raise ChainHeld(f"another process holds `{self._name}`")
            return
        lock_within(self._connection, self._name, wait_ms)

    def _take_again(self) -> None:
        """Go on with a right that was lost with its connection, unless another has or had it."""
        self._connection.close()
        self._connection = self._opened()
        try:
            self._check_own()
        except BaseException:
            self._connection.close()
            raise

    def _check_own(self) -> None:
        lost = LeaseLost(f"another process took over `{self._name}`")
        try:
            self._lock(GONE_MS)
        except ChainHeld:
            raise lost from None
        if self._connection.execute(_OWN, (self._name, self._token)).get is None:
            raise lost


def _key(name: str) -> int:
    return lock_key(f"lease/{name}")


def is_leased(connection: PostgresConnection, name: str) -> bool:
    """Take a right for a connection; False when another one has it."""
    found = connection.execute("SELECT pg_try_advisory_lock(?)", (_key(name),)).get
    return bool(found)


def lock_within(connection: PostgresConnection, name: str, wait_ms: int) -> None:
    """Take a right for a connection as soon as it is free, or raise `ChainHeld`."""
    connection.execute(f"SET lock_timeout = {wait_ms}")
    try:
        connection.execute("SELECT pg_advisory_lock(?)", (_key(name),))
    except LedgerUnavailable as error:
        if isinstance(error.__cause__, errors.LockNotAvailable):
            raise ChainHeld(f"another process holds `{name}`") from error
        raise
    connection.execute("SET lock_timeout = 0")


def lease_again(connection: PostgresConnection, chain: str) -> None:
    """Take a chain that was lost with a connection, or raise `ChainHeld`.

    The server may notice only in a moment that the connection before is gone: it is waited for.
    What that one had begun to commit is then either there or will never be.
    """
    try:
        lock_within(connection, f"chain/{chain}", GONE_MS)
    except ChainHeld as error:
        raise ChainHeld(f"another process writes the chain `{chain}`") from error


def first_free(connection: PostgresConnection, writer: str) -> str:
    """Lease `writer`, or `writer-2`, `writer-3`, … when others hold those before it."""
    for number in range(1, MOST_WRITERS + 1):
        name = writer if number == 1 else f"{writer}-{number}"
        if is_leased(connection, f"chain/{name}"):
            return name
    raise ChainHeld(f"{MOST_WRITERS} processes write as `{writer}` already")
