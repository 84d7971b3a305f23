"""Spending on disk: sums that no crash can take for good, because the ledger has their parts."""

import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from msgspec import Raw
from msgspec.structs import replace

from pointsman.access.book import (
    SPENT_FORM,
    HomeBook,
    Spent,
    rebuild,
    spend_amounts,
    spend_key,
    spent_of,
)
from pointsman.access.budgets import Budgets, Reservation
from pointsman.access.caps import Cap, Owners
from pointsman.access.charges import quote_call
from pointsman.errors import IntegrityFailure, LedgerUnavailable
from pointsman.kernel.entry import Chain, Draft, Entry, empty_head, head_after, next_entry
from pointsman.kernel.instant import DAY, SECOND, Instant, read_instant
from pointsman.kernel.number import MicroUsd
from pointsman.kernel.record import Names, OutcomeRecord, outcome_draft
from pointsman.providers.messages import Usage
from pointsman.storage.home import Home, open_home
from pointsman.storage.sqlite.ledger import WritePlace
from pointsman.storage.sqlite.place import LEAN_CACHE_KIB
from pointsman.storage.stores import spend as module
from pointsman.storage.stores.spend import (
    By,
    SpendAmounts,
    SpendKey,
    SpendQuery,
    SpendReader,
    SpendStore,
)
from pointsman.storage.writer.ledger import LedgerWriter
from pointsman.turns.registry.prices import Price

NOW = read_instant("2026-03-30T12:00:00Z")
TODAY = NOW // DAY
SPENT = Spent(
    "p:m", "key", "session", "/w", 10, 20, 3, 4, MicroUsd(25), "v1", is_estimated=False, at=NOW
)
OWNERS = Owners("key", "session", "/w")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SpendStore]:
    store = SpendStore(tmp_path / "spend.db", "serve")
    yield store
    store.close()


def put(store: SpendStore, *many: Spent) -> None:
    for spent in many:
        store.add(spend_key(spent), spend_amounts(spent))
    store.flush()


def draft(spent: Spent | None, name: str = "o-1", at: int = NOW) -> Draft:
    part = b"null" if spent is None else SPENT_FORM.encode(spent)
    detail = Raw(b'{"more":[1],"spent":' + part + b"}")
    return outcome_draft(Names(name, "decision", Instant(at)), OutcomeRecord("done", detail))


def chained(*drafts: Draft) -> list[Entry]:
    chain = Chain("0123456789abcdef" * 2, "serve-1")
    head, entries = empty_head(chain), []
    for each in drafts:
        entries.append(next_entry(chain, head, each))
        head = head_after(entries[-1])
    return entries


def totals(path: Path, by: By, asked: SpendQuery | None = None) -> list[tuple[str, int]]:
    with closing(SpendReader(path)) as reader:
        found = reader.totals(by, asked or SpendQuery())
    return [(each.what, each.amounts.cost_microusd) for each in found]


def test_only_the_owner_may_read_what_was_spent(store: SpendStore, tmp_path: Path) -> None:
    put(store, SPENT)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_sums_add_up_by_key_session_workspace_day_and_model(
    store: SpendStore, tmp_path: Path
) -> None:
    put(store, SPENT, SPENT)
    put(
        store,
        SPENT,
        replace(SPENT, model="p:n", cost_microusd=MicroUsd(1)),
        replace(SPENT, key_id="other", session_id="s2", cost_microusd=MicroUsd(100)),
        replace(SPENT, at=Instant(NOW + DAY), cost_microusd=None, is_estimated=True),
    )
    path = tmp_path / "spend.db"
    assert totals(path, "all") == [("", 176)]
    assert totals(path, "model") == [("p:m", 175), ("p:n", 1)]
    assert totals(path, "key") == [("key", 76), ("other", 100)]
    assert totals(path, "session") == [("s2", 100), ("session", 76)]
    assert totals(path, "workspace") == [("/w", 176)]
    assert totals(path, "day") == [(str(TODAY), 176), (str(TODAY + 1), 0)]
    assert totals(path, "model", SpendQuery(session_id="s2")) == [("p:m", 100)]
    assert totals(path, "session", SpendQuery(key_id="key")) == [("session", 76)]
    assert totals(path, "all", SpendQuery(first_day=TODAY + 1)) == [("", 0)]
    assert totals(path, "all", SpendQuery(end_day=TODAY)) == []


def test_every_part_of_a_sum_is_kept(store: SpendStore, tmp_path: Path) -> None:
    put(store, SPENT, replace(SPENT, cost_microusd=None, is_estimated=True))
    with closing(SpendReader(tmp_path / "spend.db")) as reader:
        (total,) = reader.totals("all")
    assert total.amounts == SpendAmounts(2, 1, 1, 20, 40, 6, 8, 25)


def test_sums_add_up_over_more_calls_than_one_statement_takes(
    store: SpendStore, tmp_path: Path
) -> None:
    sessions = [f"s{number % 7}" if number % 2 else f"t{number}" for number in range(1_001)]
    put(store, *[replace(SPENT, session_id=each) for each in sessions])
    path = tmp_path / "spend.db"
    assert totals(path, "all") == [("", 25 * 1_001)]
    found = dict(totals(path, "session"))
    assert found == {each: 25 * sessions.count(each) for each in sessions}


def test_the_log_of_sums_stays_short_and_takes_little_memory(
    store: SpendStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOG_PAGES", 20)
    for number in range(60):
        put(store, *[replace(SPENT, session_id=f"{number}-{each}") for each in range(50)])
    # Far more was logged than this: it was written back in between.
    assert (tmp_path / "spend.db-wal").stat().st_size < 150 * 4_200
    assert (tmp_path / "spend.db").stat().st_size > 300_000
    assert totals(tmp_path / "spend.db", "all") == [("", 60 * 50 * 25)]
    assert store._connection.execute("PRAGMA cache_size").get == -LEAN_CACHE_KIB


def test_a_home_whose_sums_are_in_another_order_goes_on(tmp_path: Path) -> None:
    # As homes were begun before sessions came first.
    path = tmp_path / "spend.db"
    with closing(SpendStore(path, "serve")) as store:
        put(store, SPENT)
    with closing(apsw.Connection(str(path))) as database:
        (made,) = database.execute("SELECT sql FROM sqlite_schema WHERE name = 'spent'").fetchone()
        made = made.replace("(session_id, key_id, day,", "(day, key_id, session_id,")
        database.execute("ALTER TABLE spent RENAME TO newer")
        database.execute(made.replace("STRICT", "STRICT, WITHOUT ROWID"))
        database.execute("INSERT INTO spent SELECT * FROM newer")
        database.execute("DROP TABLE newer")
    with closing(SpendStore(path, "serve")) as store:
        put(store, SPENT, replace(SPENT, session_id="s2"))
    assert totals(path, "session") == [("s2", 25), ("session", 50)]


@pytest.mark.parametrize(
    ("account", "cost"),
    [
        (("all", "", "", TODAY, TODAY + 1), 125),
        (("all", "", "", TODAY + 1, TODAY + 2), 0),
        (("key", "key", "", 0, TODAY + 1), 25),
        (("session", "key", "session", 0, TODAY + 1), 25),
        (("session", "other", "session", 0, TODAY + 1), 100),
        (("workspace", "", "/w", 0, TODAY + 1), 125),
        (("workspace", "", "/x", 0, TODAY + 1), 0),
    ],
)
@pytest.mark.parametrize("is_written", [True, False])
def test_an_account_counts_what_is_on_disk_and_what_is_not(
    home: Home, monkeypatch: pytest.MonkeyPatch, account, cost: int, is_written: bool
) -> None:
    monkeypatch.setattr(module, "LINGER_S", 60)
    with closing(HomeBook(home, "serve")) as book:
        book.add(SPENT)
        book.add(replace(SPENT, key_id="other", cost_microusd=MicroUsd(100)))
        if is_written:
            book.flush()
        assert book.cost(account) == cost
        book.add(replace(SPENT, key_id="nobody", workspace="", session_id=""))
        assert book.cost(account) == cost + (25 if account[0] == "all" and cost else 0)


def test_nothing_is_counted_twice_while_it_is_being_written(home: Home) -> None:
    wrong: list[int] = []
    with closing(HomeBook(home, "serve")) as book:

        def flush() -> None:
            for _ in range(100):
                book.flush()

        thread = threading.Thread(target=flush)
        thread.start()
        for number in range(1, 300):
            book.add(SPENT)
            seen = book.cost(("all", "", "", TODAY, TODAY + 1))
            wrong += [] if seen == 25 * number else [seen]
        thread.join()
    assert wrong == []


def test_a_store_that_was_closed_goes_on_where_it_was(home: Home) -> None:
    for number in range(1, 4):
        with closing(HomeBook(home, "serve")) as book:
            book.add(SPENT)
            assert book.cost(("all", "", "", TODAY, TODAY + 1)) == 25 * number


def test_nothing_is_taken_after_closing(home: Home) -> None:
    book = HomeBook(home, "serve")
    book.close()
    book.close()
    with pytest.raises(LedgerUnavailable, match="closed"):
        book.add(SPENT)


def test_a_disk_that_takes_nothing_loses_nothing(
    store: SpendStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FLUSH_S", 0.2)
    monkeypatch.setattr(module, "LINGER_S", 0.01)
    monkeypatch.setattr(store, "_add_spent", _full)
    store.add(spend_key(SPENT), spend_amounts(SPENT))
    with pytest.raises(LedgerUnavailable, match="full"):
        store.flush()
    monkeypatch.undo()
    put(store, SPENT)
    assert totals(tmp_path / "spend.db", "all") == [("", 50)]


def _full(_sums: object) -> None:
    raise apsw.FullError("full")


def test_what_can_never_be_written_does_not_hold_up_the_rest(home: Home) -> None:
    book = HomeBook(home, "serve")
    book.add(replace(SPENT, session_id="\ud800"))
    book.flush()
    book.add(SPENT)
    book.close()
    store = SpendStore(home.path / "spend.db", "other")
    assert store.writers() == ["serve"]
    assert totals(home.path / "spend.db", "all") == [("", 25)]
    store.close()


def test_too_much_that_waits_is_left_to_the_ledger(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LINGER_S", 60)
    monkeypatch.setattr(module, "MOST_UNWRITTEN", 2)
    book = HomeBook(home, "serve")
    for number in range(3):
        book.add(replace(SPENT, session_id=f"s{number}"))
    book.close()
    store = SpendStore(home.path / "spend.db", "other")
    assert (store.writers(), len(totals(home.path / "spend.db", "session"))) == (["serve"], 2)
    store.close()


def test_spending_is_read_from_outcome_entries() -> None:
    one, none, other = chained(
        draft(SPENT), draft(None, "o-2"), Draft("attempt", "a", "", NOW, b"{}")
    )
    assert spent_of(one) == SPENT
    assert spent_of(none) is None
    assert spent_of(other) is None
    for detail in (b"7", b"{}", b"[]", b"null"):
        plain = outcome_draft(Names("o", "", NOW), OutcomeRecord("done", Raw(detail)))
        assert spent_of(chained(plain)[0]) is None
    broken = outcome_draft(
        Names("o", "", NOW), OutcomeRecord("done", Raw(b'{"spent":{"model":1}}'))
    )
    with pytest.raises(IntegrityFailure, match="stored spent"):
        spent_of(chained(broken)[0])


def test_sums_are_made_again_from_entries_each_counted_once() -> None:
    yesterday = replace(SPENT, at=Instant(NOW - DAY))
    entries = chained(
        draft(SPENT), draft(SPENT, "o-2"), draft(None, "o-3"), draft(yesterday, "o-4")
    )
    key = SpendKey(TODAY, "key", "session", "/w", "p:m", "v1")
    twice = SpendAmounts(2, 0, 0, 20, 40, 6, 8, 50)
    assert rebuild([*entries, *entries], TODAY) == {key: twice}
    assert len(rebuild(entries)) == 2


CRASH = """
import os, sys
from pathlib import Path
from pointsman.access.book import HomeBook
from pointsman.access.book import SPENT_FORM
from pointsman.storage.home import open_home
book = HomeBook(open_home(Path(sys.argv[1])), "serve")
first, *lost = [SPENT_FORM.decode(each.encode()) for each in sys.argv[2:]]
book.add(first)
book.flush()
for each in lost:
    book.add(each)
os._exit(9)
"""


def crashed(home: Home, *spent: Spent) -> None:
    """Let a process write the first, keep the others in memory, and die; the ledger has all."""
    words = [SPENT_FORM.encode(each).decode() for each in spent]
    done = subprocess.run([sys.executable, "-c", CRASH, str(home.path), *words], check=False)
    assert done.returncode == 9
    key, chain = home.signing_key(), Chain(home.identity.ledger, "serve-1")
    opening = Draft("chain.opened", "opening", "", Instant(1), b"{}")
    with closing(
        LedgerWriter(WritePlace(home.database, home.checkpoints), chain, key, opening)
    ) as ledger:
        for number, each in enumerate(spent):
            ledger.append(draft(each, f"o-{number}", each.at + SECOND)).result()


def test_what_a_crash_took_is_made_again_from_the_ledger(home: Home) -> None:
    other = replace(SPENT, session_id="s2", cost_microusd=MicroUsd(7))
    late = replace(SPENT, at=Instant(NOW - DAY), cost_microusd=MicroUsd(300))
    crashed(home, SPENT, SPENT, other, late)
    assert totals(home.path / "spend.db", "all") == [("", 25)]
    with closing(HomeBook(home, "serve")):
        assert totals(home.path / "spend.db", "session") == [("s2", 7), ("session", 350)]
    with closing(HomeBook(home, "serve")) as book:
        assert book.cost(("all", "", "", 0, TODAY + 1)) == 357


def test_a_second_process_adds_and_makes_nothing_again(home: Home) -> None:
    with closing(HomeBook(home, "serve")) as first, closing(HomeBook(home, "serve-2")) as second:
        first.add(SPENT)
        second.add(SPENT)
        first.flush()
        second.flush()
        assert first.cost(("all", "", "", TODAY, TODAY + 1)) == 50


def test_budgets_hold_across_a_restart(home: Home) -> None:
    price = Price(input=MicroUsd(1_000_000), output=MicroUsd(1_000_000))
    caps = [Cap("day", MicroUsd(100), "day"), Cap("each", MicroUsd(60), "total", "session")]
    for left in ((100, 60), (70, 30)):
        with closing(HomeBook(home, "serve")) as book:
            budgets = Budgets(book)
            found = [each.left_microusd for each in budgets.remaining(OWNERS, caps, NOW)]
            assert tuple(found) == left
            held = budgets.reserve(OWNERS, quote_call("p:m", price, "v1", 30, 0), caps, NOW)
            assert isinstance(held, Reservation)
            budgets.settle(held, Usage(30, 0))
