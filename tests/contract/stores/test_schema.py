"""The tables of PostgreSQL: the same whether made at once or changed step by step."""

from __future__ import annotations

import gc
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tests.servers import PostgresServer

from pointsman.errors import LedgerUnavailable
from pointsman.storage.copied_tables import CONTENTS, TABLES
from pointsman.storage.postgres.migrations import Migration, migrate, migrations
from pointsman.storage.postgres.place import PostgresStore
from pointsman.storage.sqlite.folder import SqliteFolder

CATALOGUE = """
SELECT 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
    concat_ws(' ', a.attnotnull, a.attidentity, a.attstorage, l.collname,
        pg_get_expr(d.adbin, d.adrelid))
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
WHERE n.nspname LIKE 'pointsman%' AND c.relkind IN ('r', 'v', 'S', 'm')
UNION ALL
SELECT 'index', schemaname, tablename, indexname, indexdef FROM pg_indexes
WHERE schemaname LIKE 'pointsman%'
UNION ALL
SELECT 'constraint', n.nspname, conrelid::regclass::text, conname, pg_get_constraintdef(k.oid)
FROM pg_constraint AS k JOIN pg_namespace AS n ON n.oid = k.connamespace
WHERE n.nspname LIKE 'pointsman%'
UNION ALL
SELECT 'function', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid), p.prosrc
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE n.nspname LIKE 'pointsman%'
UNION ALL
SELECT 'trigger', n.nspname, c.relname, t.tgname, pg_get_triggerdef(t.oid)
FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname LIKE 'pointsman%' AND NOT t.tgisinternal
ORDER BY 1, 2, 3, 4, 5
"""


def opened(url: str) -> PostgresStore:
    return PostgresStore(url, Path("nowhere"))


def migrate_to(url: str, known: list[Migration]) -> list[str]:
    with closing(opened(url).connect("pointsman")) as connection:
        return migrate(connection.raw, "here", steps=("pre", "post"), known=known)


def catalogue(url: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(CATALOGUE).fetchall()


def test_a_migrated_schema_is_that_of_a_fresh_one(postgres_server: PostgresServer) -> None:
    """However often it was brought up to date, and by however many programs."""
    step_by_step, at_once = postgres_server.fresh(), postgres_server.fresh()
    every = migrations()
    for count in range(1, len(every) + 1):
        assert len(migrate_to(step_by_step, every[:count])) == 1
    opened(at_once).ensure_migrated()
    assert catalogue(step_by_step) == catalogue(at_once)
    assert len(catalogue(at_once)) > 150
    assert migrate_to(at_once, every) == []
    postgres_server.drop(step_by_step)
    postgres_server.drop(at_once)


def test_vectors_come_with_the_extension(postgres_url: str) -> None:
    """A server that gets pgvector later gets the same tables, with what was recorded before."""
    opened(postgres_url).ensure_migrated()
    whole = catalogue(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("SET search_path = pointsman_patterns")
        connection.execute("DROP TRIGGER look_added ON fingerprints")
        connection.execute("DROP FUNCTION look_added, add_look")
        connection.execute("DROP TABLE looks")
        connection.execute("DROP EXTENSION vector")
        connection.execute(
            "INSERT INTO fingerprints VALUES ('a', '{}', %s, 1, 1), ('b', '{}', '', 1, 1)",
            (bytes([127, 129, *bytes(1022)]),),
        )
        assert connection.execute("SELECT add_vectors()").fetchone() == (True,)
        rows = connection.execute(
            "SELECT fingerprint, square, left(look::text, 9) FROM looks ORDER BY 1"
        ).fetchall()
    assert rows == [("a", 2 * 127 * 127, "[127,-127"), ("b", 0, None)]
    assert catalogue(postgres_url) == whole


def test_a_file_that_was_changed_after_it_was_run_is_refused(postgres_url: str) -> None:
    every = migrations()
    migrate_to(postgres_url, every[:2])
    changed = [Migration(every[0].name, "pre", f"{every[0].sql}\n"), *every[1:]]
    with pytest.raises(LedgerUnavailable, match="another `0001_ledger"):
        migrate_to(postgres_url, changed)


def test_a_step_that_fails_leaves_nothing(postgres_url: str) -> None:
    every = migrations()[:1]
    broken = Migration("0002_broken.pre", "pre", "CREATE TABLE pointsman.half (n INT); SELECT 1/0")
    with pytest.raises(LedgerUnavailable, match="division"):
        migrate_to(postgres_url, [*every, broken])
    assert "half" not in {row[1] for row in catalogue(postgres_url)}
    assert migrate_to(postgres_url, every) == []


def test_every_table_of_a_home_is_copied(tmp_path: Path, postgres_url: str) -> None:
    """A column that one side has and the list of a copy lacks would be lost without a word."""
    opened(postgres_url).ensure_migrated()
    listed = {(each.place, each.name): set(each.columns) for each in (CONTENTS, *TABLES)}
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute(
            "SELECT table_schema, table_name, column_name FROM information_schema.columns"
            " WHERE table_schema LIKE 'pointsman_%'"
        ).fetchall()
    for (place, name), columns in listed.items():
        there = {c for s, t, c in rows if (s, t) == (f"pointsman_{place}", name)}
        here = _columns(tmp_path, place, name)
        assert columns == here
        assert there - columns <= {"number"}
        assert columns <= there


def _columns(folder: Path, place: str, name: str) -> set[str]:
    schema = {"patterns": "patterns.sql"}.get(place, f"{place}.sql")
    with closing(SqliteFolder(folder).place(place).writing(schema)) as connection:
        if place == "patterns":
            from pointsman.storage.stores.patterns.look import SQL

            connection.execute(SQL["prepare"])
        return {str(row[1]) for row in connection.execute(f"PRAGMA table_info({name})")}


def test_a_store_that_is_dropped_keeps_no_connection(postgres_server: PostgresServer) -> None:
    """At once: whoever opens many in a row would use up the server's connections otherwise."""
    url = postgres_server.fresh()
    opened(url).ensure_migrated()
    gc.disable()
    try:
        for _ in range(5):
            store = opened(url)
            place = store.place("ledger")
            assert place.exists()
            place.looking().close()
            del store, place
            assert connections(url) == 0
    finally:
        gc.enable()


def connections(url: str) -> int:
    """Count who is connected, beside whoever asks; a server takes a moment to see one off."""
    mine = "datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(200):
            row = connection.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {mine}")
            found = int(row.fetchone()[0])  # type: ignore[index] # a count is always one row
            if not found:
                break
            time.sleep(0.01)
    return found
