"""Replicas, PostgreSQL and Redis killed under load: no answer lost, nothing paid twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from redis import Redis
from tests.gateway.house import eventually
from tests.replicas.conftest import Harbour
from tests.replicas.deaths import check, under_load
from tests.replicas.harbour import LEASE_S, faults

DEADLINE_S = 15.0
"""A statement's patience, one connection, and a machine that is busy with other tests."""


def test_a_replica_is_killed(harbour: Harbour) -> None:
    fleet = harbour.fleet
    for number in (0, 2):

        def harm(number: int = number) -> None:
            fleet.ships[number].kill()
            fleet.start(number)

        answers = under_load(fleet, f"killed {number}", harm)
        check(fleet, f"killed {number}", answers)


def test_postgresql_is_killed(harbour: Harbour) -> None:
    fleet = harbour.fleet

    def harm() -> None:
        harbour.postgres.kill()
        harbour.postgres.start()

    answers = under_load(fleet, "no database", harm)
    check(fleet, "no database", answers)
    assert faults(fleet.ships[0].home, fleet.store) == []


@pytest.mark.parametrize("what", ["postgresql", "a replica"])
def test_something_stands_still_for_longer_than_the_lease(harbour: Harbour, what: str) -> None:
    fleet = harbour.fleet
    stopped = harbour.postgres if what == "postgresql" else fleet.ships[1]

    def harm() -> None:
        with stopped.standstill():
            time.sleep(LEASE_S + 1)

    answers = under_load(fleet, f"still {what}", harm)
    check(fleet, f"still {what}", answers)


@pytest.mark.parametrize("way", ["killed", "emptied"])
def test_redis_loses_all_it_held(harbours: Callable[[str], Harbour], way: str) -> None:
    harbour = harbours("redis")
    fleet, redis = harbour.fleet, harbour.redis
    assert redis is not None

    def harm() -> None:
        if way == "killed":
            redis.kill()
            redis.start()
        else:
            redis.empty()

    answers = under_load(fleet, f"redis {way}", harm)
    refused = {each["code"] for each in answers if each["status"] == 503}
    assert refused <= {"budget_unavailable"}
    check(fleet, f"redis {way}", answers)


def test_without_redis_calls_under_a_cap_are_refused_and_others_go_on(
    harbours: Callable[[str], Harbour],
) -> None:
    harbour = harbours("redis")
    fleet, redis = harbour.fleet, harbour.redis
    assert redis is not None
    first = fleet.ships[0]
    redis.kill()
    try:
        told = first.chat("hello", "no redis")
        assert (told.status_code, told.json()["error"]["code"]) == (503, "budget_unavailable")
        report = eventually(lambda: _down(first))
        assert report["status"] == "ok"
        assert report["shared"]["budgets"] == "unavailable"
    finally:
        redis.start()
    eventually(lambda: first.chat("hello", "no redis").status_code == 200, seconds=60)


def _down(ship: Any) -> dict[str, Any] | None:
    found: dict[str, Any] = ship.get("/health/readiness").json()
    return found if found["shared"]["redis"] == "down" else None


def test_every_replica_tells_of_a_redis_that_forgets_until_it_no_longer_does(
    harbours: Callable[[str], Harbour],
) -> None:
    harbour = harbours("redis")
    assert harbour.redis is not None
    with closing(Redis.from_url(harbour.redis.url)) as redis:
        redis.config_set("maxmemory", 512 * 1024 * 1024)
        redis.config_set("maxmemory-policy", "allkeys-lru")
        try:
            for ship in harbour.fleet.ships:
                told = eventually(lambda ship=ship: _trouble(ship).get("eviction"), seconds=30)
                assert "set maxmemory-policy to noeviction" in told
                assert ship.get("/health/readiness").status_code == 200
                # What is forgotten is noticed: there is no need to refuse what is not.
                assert ship.chat("hello", "forgetful").status_code == 200
        finally:
            redis.config_set("maxmemory", 0)
            redis.config_set("maxmemory-policy", "noeviction")
    for ship in harbour.fleet.ships:
        eventually(lambda ship=ship: not _trouble(ship), seconds=30)


def _trouble(ship: Any) -> dict[str, str]:
    found: dict[str, str] = ship.get("/health/readiness").json()["shared"]["trouble"]
    return found


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_a_database_that_stands_still_is_a_503_within_the_deadline(
    harbours: Callable[[str], Harbour], kind: str
) -> None:
    harbour = harbours(kind)
    ship = harbour.fleet.ships[0]
    assert ship.chat("hello", "still").status_code == 200
    with harbour.postgres.standstill():
        started = time.monotonic()
        told = ship.chat("hello", "still")
        assert (told.status_code, told.json()["error"]["code"]) == (503, "ledger.unavailable")
        assert time.monotonic() - started < DEADLINE_S
        report = eventually(lambda: _unready(ship))
        assert report["ledger"]["writable"] is False
        started = time.monotonic()
        assert ship.get("/v1/models").status_code in {200, 503}
        assert time.monotonic() - started < DEADLINE_S
        words = told.text + json.dumps(report) + ship.get("/api/turns").text
        assert "postgresql:" not in words
        assert "/tmp" not in words
    eventually(lambda: ship.chat("hello", "still").status_code == 200, seconds=60)
    eventually(lambda: ship.get("/health/readiness").status_code == 200, seconds=60)


def _unready(ship: Any) -> dict[str, Any] | None:
    told = ship.get("/health/readiness")
    found: dict[str, Any] = told.json()
    return found if told.status_code == 503 else None
