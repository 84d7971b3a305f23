"""A Redis that forgets keys when it is full is told, wherever an operator looks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from redis import Redis
from tests.servers import RedisServer

from pointsman.access.keyring import ACCESS, Keyring
from pointsman.app import Pointsman
from pointsman.cli.main import main
from pointsman.errors import RedisUnavailable
from pointsman.gateway.serving.feed import Feed
from pointsman.gateway.serving.sharing import opened_sharing
from pointsman.gateway.telemetry.logs import Log
from pointsman.storage.policies.settings import Settings
from pointsman.storage.postgres.place import PostgresStore
from pointsman.storage.redis.connection import opened_redis
from pointsman.storage.redis.eviction import Eviction, eviction_of

LIMIT = 512 * 1024 * 1024


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    """A Redis whose settings a test may change."""
    with closing(Redis.from_url(redis_url)) as found:
        yield found
        found.config_set("maxmemory", 0)
        found.config_set("maxmemory-policy", "noeviction")
        found.execute_command("ACL", "DELUSER", "tenant")


def evicting(redis: Redis, policy: str, limit: int = LIMIT) -> None:
    redis.config_set("maxmemory", limit)
    redis.config_set("maxmemory-policy", policy)


@pytest.mark.parametrize(
    ("policy", "limit", "is_harmful", "has_hint"),
    [
        ("noeviction", LIMIT, False, False),
        ("volatile-lru", LIMIT, False, False),
        ("allkeys-lru", 0, False, True),
        ("allkeys-lru", LIMIT, True, True),
        ("allkeys-random", LIMIT, True, True),
    ],
)
def test_only_a_policy_that_takes_any_key_at_a_limit_does_harm(
    redis: Redis, policy: str, limit: int, is_harmful: bool, has_hint: bool
) -> None:
    evicting(redis, policy, limit)
    found = eviction_of(redis)
    assert found == Eviction(policy, limit)
    assert (found.is_harmful, bool(found.hint)) == (is_harmful, has_hint)
    assert policy in found.summary


@pytest.mark.parametrize(("allowed", "is_known"), [("+info", True), ("+config", True), ("", False)])
def test_a_server_that_forbids_one_question_is_asked_the_other(
    redis: Redis, redis_url: str, allowed: str, is_known: bool
) -> None:
    evicting(redis, "allkeys-lfu")
    redis.execute_command("ACL", "SETUSER", "tenant", "on", "nopass", "+ping", *allowed.split())
    as_tenant = redis_url.replace("://", "://tenant:any@")
    with closing(opened_redis(as_tenant)) as tenant:
        found = eviction_of(tenant)
    assert found == (Eviction("allkeys-lfu", LIMIT) if is_known else Eviction())
    assert found.hint


def test_a_server_that_does_not_answer_is_unavailable_not_unknown() -> None:
    with closing(opened_redis("redis://127.0.0.1:9/0")) as nobody, pytest.raises(RedisUnavailable):
        eviction_of(nobody)


def test_a_replica_that_cannot_know_says_so_once_in_the_log(
    tmp_path: Path, postgres_url: str, redis: Redis, redis_url: str
) -> None:
    # All but the two questions.
    rules = ("on", "nopass", "~*", "&*", "+@all", "-info", "-config")
    redis.execute_command("ACL", "SETUSER", "tenant", *rules)
    written: list[bytes] = []
    with ExitStack() as stack:
        pointsman = stack.enter_context(Pointsman(tmp_path, store=postgres_url, writer="serve"))
        settings = replace(Settings(), redis=redis_url.replace("://", "://tenant:any@"))
        keyring = Keyring(pointsman.home.place(ACCESS), b"")
        stack.callback(keyring.close)
        store = pointsman.home.store
        assert isinstance(store, PostgresStore)
        sharing = opened_sharing(pointsman, store, settings, keyring)
        stack.callback(sharing.end)
        log = Log(pointsman.clock, is_on=True, write=written.append)
        sharing.begin(Feed(lambda _: None), log)
        for _ in range(3):
            sharing.replica._look_at_eviction()  # as its thread does, every two seconds
        assert sharing.report().trouble == {}
        evicting(redis, "allkeys-lru")
        redis.execute_command("ACL", "SETUSER", "tenant", "+info")
        sharing.replica._try("eviction", sharing.replica._look_at_eviction)
        assert "noeviction" in sharing.report().trouble["eviction"]
    told = [json.loads(line) for line in written]
    assert [(each["event"], each["level"]) for each in told] == [("shared", "warning")] * 2
    assert "does not tell" in told[0]["message"]
    assert "allkeys-lru" in told[1]["message"]


def test_store_check_and_doctor_say_what_to_set(
    tmp_path: Path, postgres_url: str, redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POINTSMAN_REDIS", redis_url)
    with Pointsman(tmp_path, store=postgres_url) as pointsman:
        pointsman.decision_recorder.recorder()

    def ran(*words: str) -> str:
        given = ["--home", str(tmp_path), "--store", postgres_url, *words]
        return CliRunner().invoke(main, given, catch_exceptions=False).output

    assert "redis keeps what must stay" in ran("store", "check")
    evicting(redis, "allkeys-lru")
    for words in (("store", "check"), ("doctor",)):
        assert "set maxmemory-policy to noeviction" in ran(*words)


def test_store_check_tells_of_a_redis_that_does_not_answer(
    tmp_path: Path, postgres_url: str
) -> None:
    server = RedisServer()
    server.close()
    with Pointsman(tmp_path, store=postgres_url) as pointsman:
        pointsman.decision_recorder.recorder()
    (tmp_path / "pointsman.yaml").write_text(f"redis: {server.url}\n")
    given = ["--home", str(tmp_path), "--store", postgres_url, "store", "check"]
    done = CliRunner().invoke(main, given, catch_exceptions=False)
    assert "redis does not answer" in done.output
    assert done.exit_code == 0
