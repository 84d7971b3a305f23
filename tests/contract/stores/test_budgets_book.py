"""The book: sums that are the same wherever they are kept, and whole after a crash.

Files keep what a book is told; a shared database adds up what its ledger says. To whoever asks, it
is the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from msgspec.structs import replace
from tests.contract.stores.populated import an_outcome

from pointsman.access.book import SPEND, HomeBook, OpenBook, Spent, opened_book
from pointsman.access.caps import Account
from pointsman.access.folded_book import FoldedBook
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import DAY, Instant, read_instant
from pointsman.kernel.number import MicroUsd
from pointsman.recording.recorder import Recorder
from pointsman.storage.home import Home
from pointsman.storage.stores.spend import By, SpendAmounts, SpendQuery, SpendReader

NOW = read_instant("2026-03-30T12:00:00Z")
TODAY = NOW // DAY
SPENT = Spent(
    "p:m", "key", "session", "/w", 10, 20, 3, 4, MicroUsd(25), "v1", is_estimated=False, at=NOW
)
ALL: Account = ("all", "", "", 0, TODAY + 10)


class Till:
    """A process that makes calls: it records how each ended, and tells its book."""

    def __init__(self, home: Home, writer: str = "serve") -> None:
        self.recorder = Recorder(home, writer, Draft("opened", f"{writer}-opening", "", NOW, b"{}"))
        self.book = opened_book(home, writer)
        self._writer = writer
        self._count = 0

    def spend(self, *many: Spent) -> None:
        for spent in many:
            self._count += 1
            name = f"{self._writer}-{self._count}"
            self.recorder.record(an_outcome(name, spent))
            self.book.add(spent)

    def close(self) -> None:
        self.book.close()
        self.recorder.close()


@pytest.fixture
def till(home: Home) -> Iterator[Till]:
    with closing(Till(home)) as found:
        yield found


def totals(home: Home, by: By, asked: SpendQuery | None = None) -> list[tuple[str, int]]:
    with closing(SpendReader(home.place(SPEND))) as reader:
        found = reader.totals(by, asked or SpendQuery())
    return [(each.what, each.amounts.cost_microusd) for each in found]


def test_sums_add_up_by_every_part(home: Home, till: Till) -> None:
    till.spend(SPENT, SPENT)
    till.book.flush()
    till.spend(
        SPENT,
        replace(SPENT, model="p:n", cost_microusd=MicroUsd(1)),
        replace(SPENT, key_id="other", session_id="S2", cost_microusd=MicroUsd(100)),
        replace(SPENT, at=Instant(9 * DAY), cost_microusd=None, is_estimated=True),
        replace(SPENT, at=Instant(10 * DAY), cost_microusd=MicroUsd(0)),
    )
    till.book.flush()
    assert totals(home, "all") == [("", 176)]
    assert totals(home, "model") == [("p:m", 175), ("p:n", 1)]
    assert totals(home, "key") == [("key", 76), ("other", 100)]
    assert totals(home, "session") == [("S2", 100), ("session", 76)]
    assert totals(home, "workspace") == [("/w", 176)]
    assert totals(home, "day") == [("9", 0), ("10", 0), (str(TODAY), 176)], "days are numbers"
    assert totals(home, "model", SpendQuery(session_id="S2")) == [("p:m", 100)]
    assert totals(home, "session", SpendQuery(key_id="key")) == [("session", 76)]
    assert totals(home, "all", SpendQuery(first_day=TODAY + 1)) == []
    assert totals(home, "all", SpendQuery(end_day=10)) == [("", 0)]


def test_every_amount_is_a_whole_number(home: Home, till: Till) -> None:
    till.spend(SPENT, replace(SPENT, cost_microusd=None, is_estimated=True))
    till.book.flush()
    with closing(SpendReader(home.place(SPEND))) as reader:
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
def test_an_account_counts_what_is_its_own(till: Till, account: Any, cost: int) -> None:
    till.spend(SPENT, replace(SPENT, key_id="other", cost_microusd=MicroUsd(100)))
    assert till.book.cost(account) == cost
    till.book.flush()
    assert till.book.cost(account) == cost


def test_no_call_of_many_writers_is_lost_or_counted_twice(home: Home) -> None:
    """Each sees its own calls at once and those of the others when they are written."""
    with ExitStack() as stack:
        tills = [stack.enter_context(closing(Till(home, f"serve-{n}"))) for n in range(4)]

        def work(till: Till) -> None:
            for _ in range(3):
                till.spend(*[SPENT] * 8)
                till.book.flush()

        threads = [threading.Thread(target=work, args=(each,)) for each in tills]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert {till.book.cost(ALL) for till in tills} == {4 * 24 * 25}
    assert totals(home, "all") == [("", 4 * 24 * 25)]


def test_what_a_crash_took_is_made_again_from_the_ledger(home: Home) -> None:
    till = Till(home)
    till.spend(SPENT)
    till.book.flush()
    for number in range(2):
        till.recorder.record(an_outcome(f"untold-{number}", SPENT))
    _abandon(till.book)
    with closing(opened_book(home, "serve")) as book:
        assert book.cost(ALL) == 75
    till.recorder.close()


def test_a_book_of_files_that_was_closed_is_taken_as_it_is(home: Home) -> None:
    """One of a shared database counts nothing that the ledger does not say."""
    recorder = Recorder(home, "serve", Draft("opened", "opening", "", NOW, b"{}"))
    recorder.record(an_outcome("o-1", SPENT))
    with closing(opened_book(home, "serve")) as book:
        book.add(SPENT)
        book.add(SPENT)
        is_of_files = isinstance(book, HomeBook)
    with closing(opened_book(home, "serve")) as book:
        assert book.cost(ALL) == (50 if is_of_files else 25)
    recorder.close()


def _abandon(book: OpenBook) -> None:
    """End a book as a kill would: nothing more is added up, and nothing is said of how."""
    if isinstance(book, FoldedBook):
        book._pool.close()
    elif isinstance(book, HomeBook):
        book._store._has_begun = False
        book.close()
