"""What the guide grants to a user that only works in a store is enough, and not more than said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from tests.servers import PostgresServer

from pointsman.cli.main import main
from pointsman.storage.postgres.place import PostgresStore

ROLE = "clerk"


@pytest.fixture
def clerk_url(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[str]:
    """The address of a store for a user with the privileges of `docs/guide/postgresql.md`."""
    url = postgres_server.fresh()
    PostgresStore(url, tmp_path / "nowhere").ensure_migrated()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {ROLE} LOGIN")
        rows = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'pointsman%'"
        ).fetchall()
        for (name,) in rows:
            every = f"IN SCHEMA {name} TO {ROLE}"
            connection.execute(f"GRANT USAGE ON SCHEMA {name} TO {ROLE}")
            connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES {every}")
            connection.execute(f"GRANT USAGE ON ALL SEQUENCES {every}")
            connection.execute(f"GRANT EXECUTE ON ALL FUNCTIONS {every}")
    yield url.replace("postgres@", f"{ROLE}@", 1)
    postgres_server.drop(url)
    postgres_server.run(f"DROP ROLE {ROLE}")


def test_a_user_without_the_right_to_make_tables_works_there(
    clerk_url: str, tmp_path: Path
) -> None:
    lines = (
        ("route", "hello"),
        ("keys", "create", "ann"),
        ("verify",),
        ("replay", "--all"),
        ("store", "check"),
    )
    for words in lines:
        given = ["--home", str(tmp_path / "home"), "--store", clerk_url, *words]
        done = CliRunner().invoke(main, given)
        assert done.exit_code == 0, done.output
    refused = pytest.raises(psycopg.errors.InsufficientPrivilege)
    with psycopg.connect(clerk_url) as connection, refused:
        connection.execute("CREATE TABLE pointsman_ledger.mine (n INTEGER)")
