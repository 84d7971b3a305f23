"""Sole rights in a database: advisory locks of a session, which the server drops when it ends."""

from __future__ import annotations

from typing import Final

from psycopg import errors

from pointsman.errors import ChainHeld, LedgerUnavailable
from pointsman.storage.lease import MOST_WRITERS
from pointsman.storage.postgres.connection import PostgresConnection, lock_key

GONE_MS: Final = 1000


class PostgresLease:
    """Sole right to something in a home, held by a connection of its own."""

    def __init__(self, connection: PostgresConnection, name: str) -> None:
        self._connection = connection
        if not is_leased(connection, name):
            connection.close()
            raise ChainHeld(f"another process holds `{name}`")

    def release(self) -> None:
        """Give the right up."""
        self._connection.close()


def is_leased(connection: PostgresConnection, name: str) -> bool:
    """Take a right for a connection; False when another one has it."""
    found = connection.execute("SELECT pg_try_advisory_lock(?)", (lock_key(f"lease/{name}"),)).get
    return bool(found)


def lease_again(connection: PostgresConnection, chain: str) -> None:
    """Take a chain that was lost with a connection, or raise `ChainHeld`.

    The server may notice only in a moment that the connection before is gone: it is waited for.
    What that one had begun to commit is then either there or will never be.
    """
    key = lock_key(f"lease/chain/{chain}")
    connection.execute(f"SET lock_timeout = {GONE_MS}")
    try:
        connection.execute("SELECT pg_advisory_lock(?)", (key,))
    except LedgerUnavailable as error:
        if isinstance(error.__cause__, errors.LockNotAvailable):
            raise ChainHeld(f"another process writes the chain `{chain}`") from error
        raise
    connection.execute("SET lock_timeout = 0")


def first_free(connection: PostgresConnection, writer: str) -> str:
    """Lease `writer`, or `writer-2`, `writer-3`, … when others hold those before it."""
    for number in range(1, MOST_WRITERS + 1):
        name = writer if number == 1 else f"{writer}-{number}"
        if is_leased(connection, f"chain/{name}"):
            return name
    raise ChainHeld(f"{MOST_WRITERS} processes write as `{writer}` already")
