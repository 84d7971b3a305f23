"""The state of a PostgreSQL store and of the Redis beside it, and the migration of its tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final, cast

from msgspec import Struct

from pointsman.errors import DocumentError, LedgerError, RedisNotInstalled, RedisUnavailable
from pointsman.kernel.instant import Instant
from pointsman.operations.store.state import StoreState, ledger_of, sizes_of
from pointsman.storage.home import Home
from pointsman.storage.policies.settings import Settings, read_settings
from pointsman.storage.postgres.migrations import Step, migrate, migrations, pending
from pointsman.storage.postgres.place import PostgresStore
from pointsman.storage.redis.connection import chosen_redis, opened_redis, url_without_password
from pointsman.storage.redis.eviction import eviction_of
from pointsman.storage.store_url import SETTINGS

_CONNECTIONS: Final = """
SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
    CAST(current_setting('max_connections') AS BIGINT)
"""
_COPY: Final = "SELECT began_us, finished_us FROM pointsman.copies WHERE ledger = ?"
_VECTORS: Final = "SELECT to_regclass('pointsman_patterns.looks')::text"


def server_state(home: Home) -> StoreState:
    """Look at a home's database."""
    store = cast("PostgresStore", home.store)
    try:
        return _read_state(home, store)
    except LedgerError as error:
        return StoreState("postgres", store.shown, trouble=str(error))


class MigrationResult(Struct, frozen=True):
    """The migrations made, those left, and whether the server compares vectors."""

    made: tuple[str, ...]
    pending: tuple[str, ...]
    has_vectors: bool


def migrate_store(store: PostgresStore, steps: tuple[Step, ...]) -> MigrationResult:
    """Make the changes of these steps; vectors also where the extension came later."""
    with closing(store.connect("pointsman")) as connection:
        made = migrate(connection.raw, store.shown, steps=steps)
        left = [each.name for each in pending(connection.raw, migrations(), store.shown)]
        has_vectors = False
        if connection.execute("SELECT to_regclass('pointsman_patterns.structures')::text").get:
            has_vectors = bool(connection.execute("SELECT pointsman_patterns.add_vectors()").get)
    return MigrationResult(tuple(made), tuple(left), has_vectors)


def check_redis(home: Home) -> Iterator[tuple[str, str]]:
    """Check whether the Redis that replicas share answers, and whether it evicts keys."""
    url = chosen_redis(_settings(home))
    if not url:
        return
    try:
        with closing(opened_redis(url)) as redis:
            found = eviction_of(redis)
    except (RedisUnavailable, RedisNotInstalled) as error:
        hint = error.hint or "start it, or correct the URL: calls under a cap are refused meanwhile"
        yield f"{error.message} ({url_without_password(url)})", hint
    else:
        yield f"{found.summary} ({url_without_password(url)})", found.hint


def _settings(home: Home) -> Settings:
    path = home.path / SETTINGS
    try:
        return read_settings(path.read_bytes() if path.exists() else b"", SETTINGS)
    except DocumentError:
        return Settings()  # the process that works by them reports their problems


def _read_state(home: Home, store: PostgresStore) -> StoreState:
    with closing(store.connect("pointsman", is_reading=True)) as connection:
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
        settings=(*store.examine(), *check_redis(home)),
        connections=int(used),
        most_connections=int(most),
        has_vectors=has_vectors,
        copy_began_at=None if began is None else Instant(began),
        copy_finished_at=None if finished is None else Instant(finished),
    )
