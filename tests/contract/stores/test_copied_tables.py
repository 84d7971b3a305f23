"""What a copy of a home takes along, table by table, and what it leaves out for a reason."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tests.contract.stores.populated import NOW, a_spent, an_outcome, populate

from pointsman.access.book import SPEND, HomeBook, opened_book
from pointsman.app import Pointsman
from pointsman.bulk.jobs import BulkJobs
from pointsman.kernel.instant import EPOCH
from pointsman.operations.store.copy import StoreCopy
from pointsman.operations.store.proof import LEDGER, prove
from pointsman.storage import sqlite
from pointsman.storage.copied_tables import CONTENTS, LEFT_OUT, TABLES
from pointsman.storage.home import Home, open_home
from pointsman.storage.postgres.place import PostgresStore
from pointsman.storage.postgres.shared.pool import Pool
from pointsman.storage.postgres.shared.state import SharedState
from pointsman.storage.sharing import LookAhead, WaitingTurn
from pointsman.storage.stores.spend import SpendReader

SCHEMAS = Path(sqlite.__file__).parent
GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "postgresql.md"
TURNS = 2


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home of files with something in every store."""
    return populate(tmp_path / "home", TURNS)


def copied(home: Home, url: str) -> Home:
    """Copy a home, prove it, and give the home on the server."""
    copy = StoreCopy(home, PostgresStore(url, home.checkpoints))
    with copy.alone():
        copy.run(NOW)
        assert prove(copy).is_whole
        copy.finish(NOW)
    return open_home(home.path, store=url)


def test_what_is_spent_after_the_copy_is_added_to_what_was_spent_before(
    home: Home, postgres_url: str
) -> None:
    """The sums are those of the ledger, whatever the book of the files held beside it."""
    with closing(HomeBook(home, "stray")) as book:
        book.add(a_spent("s0"))
    there = copied(home, postgres_url)
    assert _spent(there) == 2 * TURNS * 25
    with Pointsman(home.path, store=postgres_url, writer="serve") as pointsman:
        pointsman.decision_recorder.recorder().record(an_outcome("later", a_spent("s0")))
    with closing(opened_book(there, "serve")) as book:
        assert book.cost(("all", "", "", 0, 2**40)) == (2 * TURNS + 1) * 25
    assert _spent(there) == (2 * TURNS + 1) * 25


def test_bulk_work_that_was_cut_short_goes_on_where_it_was_copied_to(
    home: Home, postgres_url: str
) -> None:
    copied(home, postgres_url)
    with (
        Pointsman(home.path, store=postgres_url) as there,
        closing(BulkJobs(there.home, there.clock, there.ids)) as jobs,
    ):
        found = {each.state: each for each in jobs.store.jobs()}
        assert found["done"].told == f"{2 * TURNS} of {2 * TURNS} decisions identical"
        cut_short = found["running"]
        assert (cut_short.ranges_done, cut_short.troubled) == (1, 1)
        ended = jobs.run(cut_short.id)
        assert (ended.told, ended.is_clean) == (found["done"].told, True)


def test_a_turn_that_waits_for_a_tool_keeps_its_model_on_the_server(
    home: Home, postgres_url: str
) -> None:
    copied(home, postgres_url)
    with closing(Pool(PostgresStore(postgres_url, Path()))) as pool:
        waiting = WaitingTurn("t", "d", "p:n", 1, is_escalated=False)
        assert SharedState(pool).ahead_of(["s2", "s1", "s0"], "event.", EPOCH)[0] == {
            "s1": LookAhead("p:m", None),
            "s2": LookAhead("", waiting),
            "s0": LookAhead("", None),
        }


def test_of_every_table_it_is_said_whether_it_is_copied(postgres_url: str) -> None:
    """A table that is added later must be copied, or left out for a reason."""
    PostgresStore(postgres_url, Path()).ensure_migrated()
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname LIKE 'pointsman%'"
        ).fetchall()
    there = {_title(schema, name) for schema, name in rows}
    copied_ones = {each.title for each in (*LEDGER, CONTENTS, *TABLES)}
    copied_ones |= {"ledger.meta", "ledger.checkpoints", "shared.turns"}
    whole_stores = {"queue", "turns", "decision-cache"}
    assert there | _of_files() == copied_ones | LEFT_OUT.keys() - whole_stores
    assert not copied_ones & LEFT_OUT.keys()


def test_the_guide_says_what_is_not_copied_and_why() -> None:
    said = GUIDE.read_text().partition("### What is not copied")[2].partition("\n## ")[0]
    assert not [name for name in LEFT_OUT if f"`{name}`" not in said]


def _of_files() -> set[str]:
    """Name the tables of a home of files that are not made again on each machine."""
    found = set()
    for path in SCHEMAS.glob("*.sql"):
        place = "ledger" if path.stem == "schema" else path.stem
        if not path.stem.endswith("_queries") and place not in {"turn_index", "decision_cache"}:
            made = re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", path.read_text())
            found |= {f"{place}.{name}" for name in made}
    return found


def _title(schema: str, name: str) -> str:
    place = schema.removeprefix("pointsman").removeprefix("_")
    return f"{place}.{name}" if place else name


def _spent(home: Home) -> int:
    with closing(SpendReader(home.place(SPEND))) as reader:
        return reader.totals("all")[0].amounts.cost_microusd
