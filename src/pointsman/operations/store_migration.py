"""Changing the tables of a PostgreSQL store, as far as is asked for."""

from __future__ import annotations

from contextlib import closing

from msgspec import Struct

from pointsman.storage.postgres.migrations import Step, migrate, migrations, pending
from pointsman.storage.postgres.place import PostgresStore


class Migrated(Struct, frozen=True):
    """What was done, what is left to do, and whether the server compares vectors."""

    made: tuple[str, ...]
    pending: tuple[str, ...]
    has_vectors: bool


def migrated(store: PostgresStore, steps: tuple[Step, ...]) -> Migrated:
    """Make the changes of these steps; vectors also where the extension came later."""
    with closing(store.connected("pointsman")) as connection:
        made = migrate(connection.raw, store.shown, steps=steps)
        left = [each.name for each in pending(connection.raw, migrations(), store.shown)]
        has_vectors = False
        if connection.execute("SELECT to_regclass('pointsman_patterns.structures')::text").get:
            has_vectors = bool(connection.execute("SELECT pointsman_patterns.add_vectors()").get)
    return Migrated(tuple(made), tuple(left), has_vectors)
