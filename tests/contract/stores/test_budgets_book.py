"""The book: sums that are the same wherever they are kept, and whole after a crash."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from pointsman.access.book import SPEND, HomeBook
from pointsman.access.caps import Account
from pointsman.access.spent import SPENT_FORM, Spent, spend_amounts, spend_key
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import DAY, Instant, read_instant
from pointsman.kernel.number import MicroUsd
from pointsman.kernel.record import Names, Outcome, outcome_draft
from pointsman.runs.recorder import Recorder
from pointsman.storage.home import Home
from pointsman.storage.place import Place, Store
from pointsman.storage.sqlite.spend import SpendAmounts, SpendStore
from pointsman.storage.sqlite.spend_reading import Asked, By, SpendReader

NOW = read_instant("2026-03-30T12:00:00Z")
TODAY = NOW // DAY
SPENT = Spent(
    "p:m", "key", "session", "/w", 10, 20, 3, 4, MicroUsd(25), "v1", is_estimated=False, at=NOW
)
ALL: Account = ("all", "", "", 0, TODAY + 10)


@pytest.fixture
def place(store: Store) -> Place:
    return store.place(SPEND)


@pytest.fixture
def spending(place: Place) -> Iterator[SpendStore]:
    with closing(SpendStore(place, "serve")) as found:
        yield found


def put(store: SpendStore, *many: Spent) -> None:
    for spent in many:
        store.add(spend_key(spent), spend_amounts(spent))
    store.flush()


def totals(place: Place, by: By, asked: Asked | None = None) -> list[tuple[str, int]]:
    with closing(SpendReader(place)) as reader:
        found = reader.totals(by, asked or Asked())
    return [(each.what, each.amounts.cost_microusd) for each in found]


def test_sums_add_up_by_every_part(place: Place, spending: SpendStore) -> None:
    put(spending, SPENT, SPENT)
    put(
        spending,
        SPENT,
        replace(SPENT, model="p:n", cost_microusd=MicroUsd(1)),
        replace(SPENT, key_id="other", session_id="S2", cost_microusd=MicroUsd(100)),
        replace(SPENT, at=Instant(9 * DAY), cost_microusd=None, is_estimated=True),
        replace(SPENT, at=Instant(10 * DAY), cost_microusd=MicroUsd(0)),
    )
    assert totals(place, "all") == [("", 176)]
    assert totals(place, "model") == [("p:m", 175), ("p:n", 1)]
    assert totals(place, "key") == [("key", 76), ("other", 100)]
    assert totals(place, "session") == [("S2", 100), ("session", 76)]
    assert totals(place, "workspace") == [("/w", 176)]
    assert totals(place, "day") == [("9", 0), ("10", 0), (str(TODAY), 176)], "days are numbers"
    assert totals(place, "model", Asked(session_id="S2")) == [("p:m", 100)]
    assert totals(place, "session", Asked(key_id="key")) == [("session", 76)]
    assert totals(place, "all", Asked(first_day=TODAY + 1)) == []
    assert totals(place, "all", Asked(end_day=10)) == [("", 0)]


def test_every_amount_is_a_whole_number(place: Place, spending: SpendStore) -> None:
    put(spending, SPENT, replace(SPENT, cost_microusd=None, is_estimated=True))
    with closing(SpendReader(place)) as reader:
        (total,) = reader.totals("all")
    assert total.amounts == SpendAmounts(2, 1, 1, 20, 40, 6, 8, 25)
    assert {type(each) for each in total.amounts} == {int}


@pytest.mark.parametrize(
    ("account", "cost"),
    [
        (("all", "", "", TODAY, TODAY + 1), 125),
        (("all", "", "", TODAY + 1, TODAY + 2), 0),
        (("key", "key", "", 0, TODAY + 1), 25),
        (("session", "other", "session", 0, TODAY + 1), 100),
        (("workspace", "", "/w", 0, TODAY + 1), 125),
        (("workspace", "", "/x", 0, TODAY + 1), 0),
    ],
)
def test_an_account_counts_what_is_its_own(home: Home, account: Any, cost: int) -> None:
    with closing(HomeBook(home, "serve")) as book:
        book.add(SPENT)
        book.add(replace(SPENT, key_id="other", cost_microusd=MicroUsd(100)))
        assert book.cost(account) == cost
        book.flush()
        assert book.cost(account) == cost


def test_no_call_of_many_writers_is_lost_or_counted_twice(home: Home) -> None:
    """Each sees its own calls at once and those of the others when they are written."""
    books = [HomeBook(home, f"serve-{number}") for number in range(4)]

    def work(book: HomeBook) -> None:
        for number in range(60):
            book.add(SPENT)
            if number % 20 == 0:
                book.flush()
        book.flush()

    threads = [threading.Thread(target=work, args=(book,)) for book in books]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {book.cost(ALL) for book in books} == {4 * 60 * 25}
    for book in books:
        book.close()
    assert totals(home.place(SPEND), "all") == [("", 4 * 60 * 25)]


def test_what_a_crash_took_is_made_again_from_the_ledger(home: Home) -> None:
    recorder = Recorder(home, "serve", _opening())
    crashed = SpendStore(home.place(SPEND), "serve")
    crashed.begin()
    for number in range(3):
        recorder.append(_outcome(f"o-{number}", SPENT)).result()
    put(crashed, SPENT)
    _abandon(crashed)
    with closing(HomeBook(home, "serve")) as book:
        assert book.cost(ALL) == 75
    recorder.close()


def test_a_book_that_was_closed_is_taken_as_it_is(home: Home) -> None:
    recorder = Recorder(home, "serve", _opening())
    recorder.append(_outcome("o-1", SPENT)).result()
    with closing(HomeBook(home, "serve")) as book:
        book.add(SPENT)
        book.add(SPENT)
    with closing(HomeBook(home, "serve")) as book:
        assert book.cost(ALL) == 50, "it was clean: the ledger was not asked"
    recorder.close()


def _opening() -> Draft:
    return Draft("opened", "opening", "", NOW, b"{}")


def _outcome(name: str, spent: Spent) -> Draft:
    detail = Raw(b'{"spent":' + SPENT_FORM.encode(spent) + b"}")
    return outcome_draft(Names(name, "decision", NOW), Outcome("done", detail))


def _abandon(store: SpendStore) -> None:
    """End a store as a kill would: nothing is said about how it closed."""
    store._has_begun = False
    store.close()
