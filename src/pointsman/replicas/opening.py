"""Opening the shared state of a home on PostgreSQL."""

from __future__ import annotations

from pointsman.replicas.replica import Shared
from pointsman.storage.home import Home
from pointsman.storage.policies.settings import Settings
from pointsman.storage.postgres.place import PostgresStore
from pointsman.storage.postgres.shared.pool import Pool
from pointsman.storage.postgres.shared.reserves import PostgresReserves
from pointsman.storage.postgres.shared.state import SharedState
from pointsman.storage.redis.connection import chosen_redis, opened_redis
from pointsman.storage.redis.reserves import RedisReserves
from pointsman.storage.redis.state import RedisState


def open_shared(home: Home, store: PostgresStore, settings: Settings, process: str) -> Shared:
    """Open it for one process: in the database, and in Redis where there is one."""
    pool = Pool(store)
    durable, state = PostgresReserves(pool), SharedState(pool)
    lease_s, url = settings.replicas.lease_s, chosen_redis(settings)
    if not url:
        return Shared(process, pool, durable, state, lease_s=lease_s)
    redis, ledger = opened_redis(url), home.identity.ledger
    quick, events = RedisReserves(redis, ledger), RedisState(redis, ledger)
    return Shared(process, pool, durable, state, quick, events, lease_s)
