"""A Redis that forgets a part of the counts is noticed: no cap is overspent by it."""

from __future__ import annotations

from contextlib import closing, suppress

import pytest
from tests.replicas.counts import EVERYBODY, NOW, OWNERS, counting, held, quote
from tests.servers import RedisServer

from pointsman.access.budgets import Reservation
from pointsman.errors import BudgetUnavailable
from pointsman.storage.redis.connection import opened_redis


@pytest.mark.parametrize("forgotten", ["epoch", "holds", "marks"])
def test_a_redis_that_forgets_a_part_is_noticed_like_one_that_was_emptied(
    postgres_url: str, redis_url: str, forgotten: str
) -> None:
    with (
        counting(postgres_url, redis_url, "one") as one,
        counting(postgres_url, redis_url, "two") as two,
        closing(opened_redis(redis_url)) as redis,
    ):
        held(one, 300)
        two.end(0, held(two, 200).id, 150)
        assert redis.delete(*redis.scan_iter(f"*:{forgotten}"))
        with pytest.raises(BudgetUnavailable):
            two.budgets.reserve(OWNERS, quote(701), (EVERYBODY,), NOW)
        for each in (one, two, one, two):
            each.tend()
        two.budgets.tidy(NOW)
        assert one.left() == two.left() == 1000 - 300 - 150


def test_a_part_that_redis_forgets_is_noticed_before_anybody_asks(
    postgres_url: str, redis_url: str
) -> None:
    with (
        counting(postgres_url, redis_url, "one") as one,
        closing(opened_redis(redis_url)) as redis,
    ):
        held(one, 300)
        redis.delete(*redis.scan_iter("*:holds"), *redis.scan_iter("*:account:*"))
        one.tend()
        assert one.left() == 700


def test_an_epoch_whose_holds_are_forgotten_while_it_is_built_is_built_anew(
    postgres_url: str, redis_url: str
) -> None:
    with (
        counting(postgres_url, redis_url, "one") as one,
        counting(postgres_url, redis_url, "two") as two,
        closing(opened_redis(redis_url)) as redis,
    ):
        held(one, 300)
        redis.flushall()
        one.tend()
        redis.delete(*redis.scan_iter("*:holds"))
        for each in (two, one, two, one):
            each.tend()
        assert one.left() == two.left() == 700


def test_a_redis_that_is_ahead_of_a_restored_ledger_is_counted_anew(
    postgres_url: str, redis_url: str
) -> None:
    """An older dump restored beside a running Redis: every seed would be stale for good."""
    with (
        counting(postgres_url, redis_url, "one") as one,
        counting(postgres_url, redis_url, "two") as two,
        closing(opened_redis(redis_url)) as redis,
    ):
        two.end(0, held(two, 200).id, 150)
        held(one, 300)
        (marks,) = redis.scan_iter("*:marks")
        chain = next(name for name in redis.hgetall(marks) if name)
        redis.hset(marks, chain, 1_000_000)
        redis.delete(*redis.scan_iter("*:account:*"))
        with pytest.raises(BudgetUnavailable):
            one.left()
        for each in (one, two, one, two):
            each.tend()
        assert one.left() == two.left() == 1000 - 300 - 150
        epoch = redis.get(next(redis.scan_iter("*}:epoch")))
        one.tend()
        assert redis.get(next(redis.scan_iter("*}:epoch"))) == epoch, "only once"


def test_an_account_that_redis_forgets_is_counted_anew(postgres_url: str, redis_url: str) -> None:
    """What `volatile-lru` and its kind may take: nothing is refused, and nothing is lost."""
    with (
        counting(postgres_url, redis_url, "one") as one,
        closing(opened_redis(redis_url)) as redis,
    ):
        one.end(0, held(one, 200).id, 150)
        held(one, 300)
        names = [*redis.scan_iter("*:account:*")]
        assert all(redis.ttl(name) > 0 for name in names)
        redis.delete(*names)
        assert one.left() == 1000 - 300 - 150


def test_a_redis_that_evicts_at_random_never_lets_a_cap_be_overspent(postgres_url: str) -> None:
    """Calls are refused now and then; what was set aside counts all the same."""
    server, lost = RedisServer(), 0
    try:
        with (
            closing(opened_redis(server.url)) as redis,
            counting(postgres_url, server.url, "one") as one,
        ):
            room = int(redis.info("memory")["used_memory"]) + 1_500_000
            redis.config_set("maxmemory", room)
            redis.config_set("maxmemory-policy", "allkeys-random")
            kept = 0
            for number in range(400):
                redis.set(f"other {number % 20}", b"x" * 200_000)
                try:
                    found = one.budgets.reserve(OWNERS, quote(10), (EVERYBODY,), NOW)
                except BudgetUnavailable:
                    lost += 1
                    # It may forget once more meanwhile; then the next round tries again.
                    with suppress(BudgetUnavailable):
                        one.tend()
                        one.budgets.tidy(NOW)
                else:
                    kept += isinstance(found, Reservation)
                assert kept <= 100
            assert int(redis.info("stats")["evicted_keys"]) > 0
            assert kept == 100
    finally:
        server.close()
    assert lost
