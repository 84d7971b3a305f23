"""What can be told of a PostgreSQL store without changing it."""

from __future__ import annotations

from contextlib import closing
from typing import Final, cast

from pointsman.errors import LedgerError
from pointsman.kernel.instant import Instant
from pointsman.runs.store_state import StoreState, ledger_of, sizes_of
from pointsman.storage.home import Home
from pointsman.storage.postgres.migrations import migrations, pending
from pointsman.storage.postgres.place import PostgresStore

_CONNECTIONS: Final = """
SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
    CAST(current_setting('max_connections') AS BIGINT)
"""
_COPY: Final = "SELECT began_us, finished_us FROM pointsman.copies WHERE ledger = ?"
_VECTORS: Final = "SELECT to_regclass('pointsman_patterns.looks')::text"


def server_state(home: Home) -> StoreState:
    """Look at a home's database."""
    store = cast(PostgresStore, home.store)
    try:
        return _answered(home, store)
    except LedgerError as error:
        return StoreState("postgres", store.shown, trouble=str(error))


def _answered(home: Home, store: PostgresStore) -> StoreState:
    with closing(store.connected("pointsman", is_reading=True)) as connection:
        known = migrations()
        lacking = [each.name for each in pending(connection.raw, known, store.shown)]
        done = [each.name for each in known if each.name not in lacking]
        used, most = connection.execute(_CONNECTIONS).fetchall()[0]
        began = finished = None
        if connection.execute("SELECT to_regclass('pointsman.copies')::text").get:
            row = connection.execute(_COPY, (home.identity.ledger,)).fetchone()
            began, finished = row or (None, None)
        has_vectors = connection.execute(_VECTORS).get is not None
    own = ledger_of(home) if any(each.startswith("0001") for each in done) else ""
    return StoreState(
        kind="postgres",
        where=store.shown,
        schema_version=done[-1].partition("_")[0] if done else "0000",
        pending=tuple(lacking),
        ledger=own,
        is_own=own in {"", home.identity.ledger},
        sizes=sizes_of(home),
        settings=tuple(store.examined()),
        connections=int(used),
        most_connections=int(most),
        has_vectors=has_vectors,
        copy_began_at=None if began is None else Instant(began),
        copy_finished_at=None if finished is None else Instant(finished),
    )
