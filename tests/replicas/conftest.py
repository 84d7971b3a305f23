"""Fleets that the tests share, each on a database of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from tests.gateway.house import Upstream, eventually, upstream
from tests.replicas.fleet import Fleet
from tests.replicas.harbour import answered, files_for, is_well
from tests.servers import PostgresServer, RedisServer, started

pytest.register_assert_rewrite("tests.replicas.deaths")

KINDS = ("postgres", "redis")


class Harbour(NamedTuple):
    """A fleet, and the servers it lives by: a test may kill them."""

    fleet: Fleet
    postgres: PostgresServer
    redis: RedisServer | None
    upstream: Upstream


@pytest.fixture(scope="session")
def harbours() -> Iterator[Callable[[str], Harbour]]:
    found: dict[str, Harbour] = {}
    with ExitStack() as stack:
        memory = Path("/dev/shm")
        folder = stack.enter_context(TemporaryDirectory(dir=memory if memory.is_dir() else None))
        provider = stack.enter_context(upstream(otherwise=answered))
        servers: list[PostgresServer] = []

        def harbour(kind: str) -> Harbour:
            if kind in found:
                # A test before this one may have killed what both fleets live by.
                eventually(lambda: is_well(found[kind].fleet), seconds=60)
                return found[kind]
            if not servers:
                servers.append(started(PostgresServer))
                stack.callback(servers[0].close)
            redis = started(RedisServer) if kind == "redis" else None
            if redis is not None:
                stack.callback(redis.close)
            url = "" if redis is None else redis.url
            fleet = stack.enter_context(Fleet(servers[0].fresh(), url))
            home = Path(folder) / kind
            home.mkdir()
            fleet.launch(home, files_for(provider.url), 3)
            found[kind] = Harbour(fleet, servers[0], redis, provider)
            return found[kind]

        yield harbour


@pytest.fixture(params=KINDS)
def harbour(request: pytest.FixtureRequest, harbours: Callable[[str], Harbour]) -> Harbour:
    return harbours(str(request.param))


@pytest.fixture
def fleet(harbour: Harbour) -> Fleet:
    return harbour.fleet
