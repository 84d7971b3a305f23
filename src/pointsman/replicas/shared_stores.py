"""The stores that replicas share, on PostgreSQL and Redis, and how a process opens them."""

from __future__ import annotations

from msgspec import Struct

from pointsman.storage.home import Home
from pointsman.storage.policies.settings import Settings
from pointsman.storage.postgres.place import PostgresStore
from pointsman.storage.postgres.shared.pool import Pool
from pointsman.storage.postgres.shared.reserves import PostgresReserves
from pointsman.storage.postgres.shared.state import SharedState
from pointsman.storage.redis.connection import chosen_redis, opened_redis
from pointsman.storage.redis.reserves import RedisReserves
from pointsman.storage.redis.state import RedisState
from pointsman.storage.sharing import Claims, Events


class SharedStores(Struct, frozen=True):
    """The stores that replicas share."""

    process: str
    pool: Pool
    durable: PostgresReserves
    state: SharedState
    quick: RedisReserves | None = None
    redis: RedisState | None = None
    lease_s: float = 10.0
    """A replica without a heartbeat for so long is dead: its reservations are released."""

    @property
    def events(self) -> Events:
        """The stream of call ends."""
        return self.redis or self.state

    @property
    def claims(self) -> Claims:
        """The claims that one replica at a time may hold."""
        return self.redis or self.state


def open_shared_stores(
    home: Home, store: PostgresStore, settings: Settings, process: str
) -> SharedStores:
    """Open the shared stores for one process: in the database, and in Redis where there is one."""
    pool = Pool(store)
    durable, state = PostgresReserves(pool), SharedState(pool)
    lease_s, url = settings.replicas.lease_s, chosen_redis(settings)
    if not url:
        return SharedStores(process, pool, durable, state, lease_s=lease_s)
    redis, ledger = opened_redis(url), home.identity.ledger
    quick, events = RedisReserves(redis, ledger), RedisState(redis, ledger)
    return SharedStores(process, pool, durable, state, quick, events, lease_s)
