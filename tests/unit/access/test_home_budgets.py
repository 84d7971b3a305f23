"""Budgets of one home over several processes: never passed, and no money that is free refused."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from pointsman.access.book import HomeBook
from pointsman.access.budgets import Refused, Reservation
from pointsman.access.caps import Cap, Owners
from pointsman.access.charges import quote_call
from pointsman.access.home_budgets import HomeBudgets
from pointsman.kernel.instant import DAY, SECOND, Instant, read_instant
from pointsman.kernel.number import MicroUsd
from pointsman.providers.messages import Usage
from pointsman.recording.machine import SystemClock, Ulids
from pointsman.storage.home import Home, open_home
from pointsman.turns.registry.prices import Price

NOW = read_instant("2026-03-30T12:00:00Z")
PRICE = Price(input=MicroUsd(1_000_000), output=MicroUsd(1_000_000))
OWNERS = Owners("key", "session", "/w", "acme")
CAPS = [
    Cap("day", MicroUsd(100), "day"),
    Cap("tenant", MicroUsd(80), "month", "tenant"),
]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.fixture
def two(home: Home) -> Iterator[list[HomeBudgets]]:
    with ExitStack() as stack:
        yield [
            HomeBudgets(stack.enter_context(closing(HomeBook(home, name))), Ulids(SystemClock()))
            for name in ("serve", "serve-2")
        ]


def ask(budgets: HomeBudgets, tokens: int, owners: Owners = OWNERS, at: Instant = NOW) -> object:
    return budgets.reserve(owners, quote_call("p:m", PRICE, "v1", tokens, 0), CAPS, at)


def left(budgets: HomeBudgets, at: Instant = NOW) -> list[int]:
    return [each.left_microusd for each in budgets.remaining(OWNERS, CAPS, at)]


def test_what_one_process_sets_aside_another_cannot(two: list[HomeBudgets]) -> None:
    held = ask(two[0], 60)
    assert isinstance(held, Reservation)
    refused = ask(two[1], 30)
    assert isinstance(refused, Refused)
    assert (refused.budget, refused.left_microusd, refused.needed_microusd) == ("tenant", 20, 30)
    two[0].settle(held, Usage(10, 0))
    assert left(two[1]) == [90, 70]
    assert isinstance(ask(two[1], 30), Reservation)
    assert left(two[0]) == [60, 40]


def test_a_call_that_cost_nothing_gives_back_and_is_charged_once(two: list[HomeBudgets]) -> None:
    held = ask(two[0], 60)
    assert isinstance(held, Reservation)
    assert two[0].release(held)
    assert not two[0].release(held)
    assert two[0].settle(held, Usage(60, 0)) is None
    assert left(two[1]) == [100, 80]
    again = ask(two[1], 10)
    assert isinstance(again, Reservation)
    assert two[1].settle(again, Usage(10, 0)) is not None
    assert two[1].settle(again, Usage(10, 0)) is None
    assert left(two[0]) == [90, 70]


def test_an_account_that_is_counted_later_begins_with_what_was_spent_and_is_held(
    two: list[HomeBudgets],
) -> None:
    quote = quote_call("p:m", PRICE, "v1", 20, 0)
    only = [Cap("day", MicroUsd(100), "day")]
    for budgets in two:
        held = budgets.reserve(OWNERS, quote, only, NOW)
        assert isinstance(held, Reservation)
        budgets.settle(held, Usage(7, 0))
        assert isinstance(budgets.reserve(OWNERS, quote, only, NOW), Reservation)
    late = [Cap("late", MicroUsd(100), "total", "session")]
    (found,) = two[0].remaining(OWNERS, late, NOW)
    assert found.left_microusd == 100 - 2 * 7 - 2 * 20


def test_calls_that_no_budget_bound_count_once_they_are_written(two: list[HomeBudgets]) -> None:
    assert left(two[1]) == [100, 80]
    free = two[0].reserve(OWNERS, quote_call("p:m", PRICE, "v1", 20, 0), [], NOW)
    assert isinstance(free, Reservation)
    two[0].settle(free, Usage(20, 0))
    two[0]._book.flush()
    assert left(two[1]) == [80, 60]


def test_todays_spending_is_that_of_all_processes(two: list[HomeBudgets]) -> None:
    for budgets in two:
        held = ask(budgets, 30)
        assert isinstance(held, Reservation)
        budgets.settle(held, Usage(30, 0))
    later = Instant(NOW + SECOND)
    assert [each.spent_today(later) for each in two] == [60, 60]
    assert [each.spent_today(Instant(NOW + DAY)) for each in two] == [0, 0]


KILLED = """
import os, sys
from pathlib import Path
from pointsman.access.book import HomeBook
from pointsman.access.home_budgets import HomeBudgets
from pointsman.recording.machine import SystemClock, Ulids
from pointsman.storage.home import open_home
from tests.unit.access.test_home_budgets import ask
from pointsman.providers.messages import Usage

budgets = HomeBudgets(HomeBook(open_home(Path(sys.argv[1])), "serve-9"), Ulids(SystemClock()))
spent, held = ask(budgets, 10), ask(budgets, 50)
budgets.settle(spent, Usage(10, 0))
os._exit(9)
"""


def test_a_killed_process_gives_back_what_it_held_and_not_what_it_spent(
    home: Home, two: list[HomeBudgets]
) -> None:
    assert left(two[0]) == [100, 80]
    done = subprocess.run([sys.executable, "-c", KILLED, str(home.path)], check=False, timeout=60)
    assert done.returncode == 9
    # It is free at once, long before a reservation lapses.
    assert isinstance(ask(two[1], 70), Reservation)
    assert left(two[0], Instant(NOW + 2 * SECOND)) == [20, 0]


def test_a_reservation_that_nothing_settles_lapses_after_an_hour(two: list[HomeBudgets]) -> None:
    held = ask(two[0], 60)
    assert isinstance(held, Reservation)
    later = Instant(NOW + 3601 * SECOND)
    assert left(two[1], later) == [100, 80]
    two[0].settle(held, Usage(60, 0))
    assert left(two[1], later) == [40, 20]


def test_a_clock_set_back_hides_no_spending_of_another_process(two: list[HomeBudgets]) -> None:
    assert two[0].spent_today(NOW) == 0
    held = ask(two[1], 10)
    assert isinstance(held, Reservation)
    two[1].settle(held, Usage(10, 0))
    assert two[0].spent_today(Instant(NOW - DAY)) == 10


def test_threads_of_several_processes_fill_a_budget_to_the_last_dollar(
    two: list[HomeBudgets],
) -> None:
    together, served = threading.Barrier(8), []

    def spend(budgets: HomeBudgets) -> None:
        together.wait(60)
        for _ in range(30):
            held = ask(budgets, 5)
            if isinstance(held, Reservation):
                served.append(budgets.settle(held, Usage(5, 0)))

    threads = [threading.Thread(target=spend, args=(two[each % 2],)) for each in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert len(served) == 80 // 5
    assert left(two[0]) == [20, 0]
