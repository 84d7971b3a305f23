"""Counts that replicas share: the same promises whether Redis keeps them or PostgreSQL."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from tests.replicas.counts import EVERYBODY, LEDGER, NOW, OWNERS, Counts, counting, held, quote
from tests.servers import PostgresServer, RedisServer

from pointsman.access.accounts import account_row
from pointsman.access.budgets import RESERVED_FOR, Refused, Reservation
from pointsman.access.caps import Cap
from pointsman.errors import BudgetUnavailable
from pointsman.kernel.instant import DAY, Instant
from pointsman.kernel.number import MicroUsd
from pointsman.providers.messages import Usage
from pointsman.storage.postgres.place import PostgresStore
from pointsman.storage.redis.connection import opened_redis
from pointsman.storage.redis.state import RedisState
from pointsman.storage.sharing import Claims, Events

KINDS = ("postgres", "redis")
SHARED = ("marks", "accounts", "holds", "replicas", "turns", "events", "claims")
TABLES = (*(f"pointsman_shared.{name}" for name in SHARED), "pointsman_spend.spent")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def database(postgres_server: PostgresServer) -> Iterator[str]:
    url = postgres_server.fresh()
    PostgresStore(url, Path()).ensure_migrated()
    yield url
    postgres_server.drop(url)


@pytest.fixture
def postgres_url(database: str) -> str:
    """A database with empty tables: making them takes longer than a test."""
    with psycopg.connect(database) as connection:
        connection.execute("TRUNCATE " + ", ".join(TABLES))
    return database


@pytest.fixture
def urls(kind: str, postgres_url: str, request: pytest.FixtureRequest) -> tuple[str, str]:
    return postgres_url, request.getfixturevalue("redis_url") if kind == "redis" else ""


@pytest.fixture
def one(urls: tuple[str, str]) -> Iterator[Counts]:
    with counting(*urls, "one") as found:
        yield found


@pytest.fixture
def two(urls: tuple[str, str], one: Counts) -> Iterator[Counts]:
    with counting(*urls, "two") as found:
        yield found


def test_what_one_process_sets_aside_is_gone_for_the_other(one: Counts, two: Counts) -> None:
    held(one, 600)
    refused = two.budgets.reserve(OWNERS, quote(500), (EVERYBODY,), NOW)
    assert isinstance(refused, Refused)
    assert (refused.budget, refused.left_microusd) == ("everybody", 400)
    held(two, 400)
    assert one.left() == two.left() == 0


def test_money_is_set_aside_in_every_budget_or_in_none(one: Counts) -> None:
    tight = Cap("tight", MicroUsd(100), "month", "key")
    refused = one.budgets.reserve(OWNERS, quote(200), (EVERYBODY, tight), NOW)
    assert isinstance(refused, Refused)
    assert refused.budget == "tight"
    assert one.left() == 1000


def test_a_budget_that_begins_to_be_checked_knows_what_is_set_aside_already(one: Counts) -> None:
    held(one, 300)
    assert one.left(Cap("later", MicroUsd(1000), "month", "workspace")) == 700


def test_a_call_that_ends_is_counted_once_however_often_it_is_told(one: Counts) -> None:
    reservation = held(one, 600)
    one.end(5, reservation.id, 250)
    assert one.left() == 750
    one.end(5, reservation.id, 250, first=0)
    assert one.left() == 750


def test_a_call_that_costs_nothing_gives_all_back(one: Counts) -> None:
    reservation = held(one, 600)
    assert one.budgets.release(reservation)
    assert not one.budgets.release(reservation)
    one.end(5, reservation.id, None)
    assert one.left() == 1000


def test_a_reservation_is_settled_once(one: Counts) -> None:
    reservation = held(one, 600)
    assert one.budgets.settle(reservation, Usage(1, 1)) is not None
    assert one.budgets.settle(reservation, Usage(1, 1)) is None


def test_what_was_spent_before_anybody_asked_is_counted(one: Counts, two: Counts) -> None:
    one.end(0, "a", 400)
    assert two.left() == 600


def test_what_a_dead_process_held_is_free_when_it_lapses(one: Counts, two: Counts) -> None:
    held(one, 600)
    counts = two.quick or two.durable
    assert counts.lapse("one") == 1
    assert two.left() == 1000


def test_a_call_without_a_price_is_refused_by_a_budget_and_by_nothing_else(one: Counts) -> None:
    assert isinstance(one.budgets.reserve(OWNERS, quote(None), (EVERYBODY,), NOW), Refused)
    assert isinstance(one.budgets.reserve(OWNERS, quote(None), (), NOW), Reservation)


def test_a_clock_set_back_does_not_bring_back_yesterdays_budget(one: Counts) -> None:
    held(one, 1000)
    yesterday = Instant(NOW - DAY)
    assert isinstance(one.budgets.reserve(OWNERS, quote(1), (EVERYBODY,), yesterday), Refused)


def test_what_nobody_settles_lapses(one: Counts) -> None:
    reservation = held(one, 600)
    one.budgets.tidy(Instant(NOW + RESERVED_FOR + 1))
    assert one.left() == 1000
    # Should the call end after all, it is charged all the same.
    one.end(7, reservation.id, 250)
    assert one.left() == 750


def test_a_hold_that_its_process_does_not_know_is_found_and_freed(one: Counts) -> None:
    reservation = held(one, 600)
    one.budgets.counted((reservation.id,))  # forgotten, as after an answer that never came
    assert one.budgets.audit() == 1
    assert one.left() == 1000


def test_sums_go_on_from_where_a_dead_process_stopped(one: Counts, two: Counts) -> None:
    first = held(one, 300)
    one.end(3, first.id, 100)
    mark = two.durable.marks()["serve"]
    assert mark == 4
    assert two.durable.spent(account_row(("all", "", "", NOW // DAY, NOW // DAY + 1))) == 100


@pytest.mark.parametrize("seed", range(3))
def test_counts_equal_the_ledger_under_any_order_of_events(
    one: Counts, two: Counts, seed: int
) -> None:
    """Random calls of two processes on random budgets, seeded at random moments."""
    chance = random.Random(seed)
    caps = [
        Cap(f"{each} {per}", MicroUsd(50_000), per, each)
        for each in ("all", "key", "session", "workspace")
        for per in ("day", "month", "total")
    ]
    chains = {"one": "serve", "two": "serve-2"}
    seqs = dict.fromkeys(chains.values(), 0)
    open_: list[tuple[Counts, Reservation]] = []
    total = reserved = 0
    for _ in range(120):
        counts = chance.choice((one, two))
        if open_ and chance.random() < 0.5:
            counts, reservation = open_.pop(chance.randrange(len(open_)))
            chain, cost = chains[counts.process], chance.randint(0, 100)
            seqs[chain] += chance.randint(1, 3)
            counts.end(seqs[chain], reservation.id, cost, chain)
            total, reserved = total + cost, reserved - 100
        else:
            some = chance.sample(caps, chance.randint(1, 3))
            open_.append((counts, held(counts, 100, *some)))
            reserved += 100
    for cap in caps:
        assert one.left(cap) == two.left(cap) == 50_000 - total - reserved, cap.name


def test_many_at_once_never_pass_the_limit_and_fill_it(urls: tuple[str, str]) -> None:
    """A race for 100 places by 8 processes: exactly 100 get one."""
    cap = Cap("everybody", MicroUsd(1000), "day")
    with ExitStack() as stack:
        views = [stack.enter_context(counting(*urls, f"p{number}")) for number in range(8)]
        got: list[int] = []

        def ask(counts: Counts) -> None:
            for _ in range(25):
                found = counts.budgets.reserve(OWNERS, quote(10), (cap,), NOW)
                got.append(isinstance(found, Reservation))

        threads = [threading.Thread(target=ask, args=(views[n],)) for n in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert sum(got) == 100
        assert len(got) == 200
        assert {each.left(cap) for each in views} == {0}


def test_an_emptied_redis_is_noticed_and_made_again_before_anything_is_admitted(
    postgres_url: str, redis_url: str
) -> None:
    with (
        counting(postgres_url, redis_url, "one") as one,
        counting(postgres_url, redis_url, "two") as two,
    ):
        kept, ended = held(one, 300), held(two, 200)
        two.end(0, ended.id, 150)
        opened_redis(redis_url).flushall()
        with pytest.raises(BudgetUnavailable):
            one.budgets.reserve(OWNERS, quote(1), (EVERYBODY,), NOW)
        one.tend()
        # The other lives and has not brought what it holds.
        with pytest.raises(BudgetUnavailable):
            one.budgets.reserve(OWNERS, quote(1), (EVERYBODY,), NOW)
        two.tend()
        one.tend()
        # What was asked for and refused in between is given back as soon as that can be told.
        one.budgets.tidy(NOW)
        assert one.left() == two.left() == 1000 - 300 - 150
        one.end(9, kept.id, 20)
        assert two.left() == 1000 - 150 - 20


def test_what_ends_while_redis_is_built_anew_is_neither_held_nor_counted_twice(
    postgres_url: str, redis_url: str
) -> None:
    with (
        counting(postgres_url, redis_url, "one") as one,
        counting(postgres_url, redis_url, "two") as two,
    ):
        reservation = held(one, 300)
        opened_redis(redis_url).flushall()
        one.tend()
        with pytest.raises(BudgetUnavailable):
            one.end(0, reservation.id, 100)
        one.budgets.counted((reservation.id,))
        two.tend()
        one.tend()
        assert one.left() == two.left() == 900


def test_a_dead_redis_refuses_what_is_under_a_cap_and_nothing_else(postgres_url: str) -> None:
    server = RedisServer()
    try:
        with counting(postgres_url, server.url, "one") as one:
            held(one, 300)
            server.kill()
            with pytest.raises(BudgetUnavailable):
                one.budgets.reserve(OWNERS, quote(1), (EVERYBODY,), NOW)
            assert isinstance(one.budgets.reserve(OWNERS, quote(1), (), NOW), Reservation)
            server.start()
            with pytest.raises(BudgetUnavailable):
                one.budgets.reserve(OWNERS, quote(1), (EVERYBODY,), NOW)
            one.tend()
            one.budgets.tidy(NOW)
            assert one.left() == 700
    finally:
        server.close()


def test_a_claim_is_one_replicas_until_it_is_given_up(
    one: Counts, kind: str, request: pytest.FixtureRequest
) -> None:
    claims: Claims = one.state
    if kind == "redis":
        claims = RedisState(opened_redis(request.getfixturevalue("redis_url")), LEDGER)
    assert claims.claim("probe:p:m", "one", 60)
    assert not claims.claim("probe:p:m", "two", 60)
    claims.give_up("probe:p:m", "two")
    assert not claims.claim("probe:p:m", "two", 60)
    claims.give_up("probe:p:m", "one")
    assert claims.claim("probe:p:m", "two", 60)


def test_events_are_read_by_all_in_the_one_order_they_were_told_in(
    one: Counts, two: Counts, kind: str, request: pytest.FixtureRequest
) -> None:
    def stream(counts: Counts) -> Events:
        if kind == "postgres":
            return counts.state
        return RedisState(opened_redis(request.getfixturevalue("redis_url")), LEDGER)

    first, second = stream(one), stream(two)
    told = [
        threading.Thread(target=_tell, args=(each, word))
        for each, word in ((first, b"a"), (second, b"b"))
    ]
    for each in told:
        each.start()
    for each in told:
        each.join()
    seen = [each.body for each in first.after("")]
    assert seen == [each.body for each in second.after("")]
    assert sorted(seen) == sorted([b"a"] * 10 + [b"b"] * 10)
    (last,) = first.after("")[-1:]
    assert first.after(last.place) == []


def _tell(events: Events, word: bytes) -> None:
    for _ in range(10):
        events.tell(word)
