"""Making and changing the tables in PostgreSQL: numbered files, each run once and remembered.

`NNNN_name.pre.sql` leaves the tables usable for the program before it, and is run when a store is
opened for writing. `NNNN_name.post.sql` needs that older programs are gone, and is run when asked.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final, Literal

import psycopg
from msgspec import Struct

from pointsman.errors import LedgerUnavailable
from pointsman.storage.postgres.connection import Raw, lock_key, translate_error

Step = Literal["pre", "post"]

FOLDER: Final = Path(__file__).with_name("migrations")

_REMEMBERED: Final = """
CREATE SCHEMA IF NOT EXISTS pointsman;
CREATE TABLE IF NOT EXISTS pointsman.schema_migrations (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    checksum BYTEA NOT NULL,
    at TIMESTAMPTZ NOT NULL DEFAULT now()
);
"""


class Migration(Struct, frozen=True):
    """One file of changes."""

    name: str
    step: Step
    sql: str

    @property
    def checksum(self) -> bytes:
        """What tells whether the file is the one that was run."""
        return hashlib.sha256(self.sql.encode()).digest()


def migrations(folder: Path = FOLDER) -> list[Migration]:
    """Return the changes this program knows, in order."""
    found = []
    for path in sorted(folder.glob("*.sql")):
        name, step, _ = path.name.rsplit(".", 2)
        kind: Step = "post" if step == "post" else "pre"
        found.append(Migration(f"{name}.{step}", kind, path.read_text(encoding="utf-8")))
    return found


def pending(raw: Raw, known: list[Migration], where: str) -> list[Migration]:
    """Return the changes that were not made yet; refuse a database this program does not know."""
    done = _applied_migrations(raw)
    names = {each.name for each in known}
    for name in sorted(done):
        # What only prepares for a newer program changes nothing for this one.
        if name not in names and name.endswith(".post"):
            raise LedgerUnavailable(
                f"the database was changed by a newer program: `{name}`",
                where=where,
                hint="use the version of pointsman that wrote it, or a newer one",
            )
    for each in known:
        if done.get(each.name, each.checksum) != each.checksum:
            raise LedgerUnavailable(
                f"the database was changed by another `{each.name}` than this program's",
                where=where,
                hint="use the version of pointsman that made the database",
            )
    return [each for each in known if each.name not in done]


def migrate(
    raw: Raw,
    where: str,
    *,
    steps: tuple[Step, ...] = ("pre",),
    known: list[Migration] | None = None,
) -> list[str]:
    """Make the changes that were not made yet, one process at a time; give their names."""
    known = migrations() if known is None else known
    try:
        if not [each for each in pending(raw, known, where) if each.step in steps]:
            return []
        raw.execute("SELECT pg_advisory_lock(%s)", (lock_key("migrations"),))
        try:
            raw.execute(_REMEMBERED)
            return [
                _apply_migration(raw, each)
                for each in pending(raw, known, where)
                if each.step in steps
            ]
        finally:
            if not raw.closed:
                raw.execute("SELECT pg_advisory_unlock(%s)", (lock_key("migrations"),))
    except psycopg.Error as error:
        raise translate_error(error, where) from error


def _applied_migrations(raw: Raw) -> dict[str, bytes]:
    table = raw.execute("SELECT to_regclass('pointsman.schema_migrations')").fetchone()
    if table is None or table[0] is None:
        return {}
    rows = raw.execute("SELECT name, checksum FROM pointsman.schema_migrations")
    return {str(name): bytes(checksum) for name, checksum in rows}


def _apply_migration(raw: Raw, migration: Migration) -> str:
    with raw.transaction():
        raw.execute(migration.sql)
        raw.execute(
            "INSERT INTO pointsman.schema_migrations (name, checksum) VALUES (%s, %s)",
            (migration.name, migration.checksum),
        )
    return migration.name
