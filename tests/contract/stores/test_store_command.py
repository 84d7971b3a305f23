"""`pointsman store`: a home moves to a server with everything it holds, and that is proved."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from tests.contract.stores.populated import populate

from pointsman.app import Pointsman
from pointsman.cli.main import main
from pointsman.errors import LedgerUnavailable
from pointsman.operations.store import copy as store_copy
from pointsman.operations.store import server
from pointsman.storage.home import Home, open_home
from pointsman.storage.postgres import migrations as module
from pointsman.storage.postgres.migrations import Migration, migrate
from pointsman.storage.postgres.place import PostgresStore
from pointsman.storage.writer.lease import Lease
from pointsman.testing import a_turn

Run = Callable[..., tuple[int, Any]]
TURNS = 4
"""How many each of the two chains of a filled home has."""


@pytest.fixture(scope="session")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "home"
    populate(path, TURNS)
    return path


@pytest.fixture
def home(filled_once: Path, tmp_path: Path) -> Home:
    """A home of files with something in every store."""
    copytree(filled_once, tmp_path, dirs_exist_ok=True)
    return Home(tmp_path)


@pytest.fixture
def other(tmp_path: Path) -> Home:
    """A home with another ledger."""
    return populate(tmp_path / "other", turns=1)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run `pointsman store …` and give its code and what it printed as JSON."""

    def ran(*arguments: str, code: int | None = 0, store: str = "") -> tuple[int, Any]:
        before = ["--home", str(tmp_path), "--json", *(["--store", store] if store else [])]
        done = CliRunner().invoke(main, [*before, *arguments], catch_exceptions=False)
        if code is not None:
            assert done.exit_code == code, done.output
        return done.exit_code, json.loads(done.stdout)

    return ran


def table(value: Any, name: str) -> Any:
    return next(each for each in value["tables"] if each["table"] == name)


def test_a_home_is_copied_whole_and_goes_on_there(
    home: Home, tmp_path: Path, postgres_url: str, run: Run
) -> None:
    """Every table is equal, the ledger verifies from the server, and new turns join its chains."""
    _, value = run("store", "copy", "--to", postgres_url)
    assert (value["whole"], value["written"], value["faults"]) == (True, True, [])
    filled = {each["table"] for each in value["tables"] if each["rows"]}
    assert len(filled) == len(value["tables"]), "each table has something to compare"
    assert all(each["equal"] for each in value["tables"])
    _, state = run("store", "check", store=postgres_url)
    assert (state["usable"], state["ledger"]) == (True, home.identity.ledger)
    assert state["copy"]["finished_at"] is not None
    with Pointsman(tmp_path, store=postgres_url) as there:
        before = there.verify().entries
        a_turn(there, "on the server")
        assert (there.verify().is_intact, there.verify().entries) == (True, before + 1)
    _, replayed = run("replay", "--all", store=postgres_url)
    assert (replayed["identical"], replayed["total"]) == (2 * TURNS + 1, 2 * TURNS + 1)


def test_a_second_copy_writes_nothing(
    home: Home, tmp_path: Path, postgres_url: str, run: Run
) -> None:
    run("store", "copy", "--to", postgres_url)
    before = _everything(postgres_url)
    _, value = run("store", "copy", "--to", postgres_url)
    assert (value["whole"], value["written"]) == (True, False)
    assert _everything(postgres_url) == before


def test_a_target_that_went_on_is_left_as_it_is(
    home: Home, tmp_path: Path, postgres_url: str, run: Run
) -> None:
    run("store", "copy", "--to", postgres_url)
    with Pointsman(tmp_path, store=postgres_url) as there:
        a_turn(there, "on the server")
    before = _everything(postgres_url)
    _, value = run("store", "copy", "--to", postgres_url)
    assert (value["whole"], value["ahead"], value["written"]) == (True, True, False)
    assert _everything(postgres_url) == before


def test_what_the_home_recorded_since_is_copied_too(
    home: Home, tmp_path: Path, postgres_url: str, run: Run
) -> None:
    _, first = run("store", "copy", "--to", postgres_url)
    with Pointsman(tmp_path, store="sqlite:") as pointsman:
        a_turn(pointsman, "later")
    _, second = run("store", "copy", "--to", postgres_url)
    assert (second["whole"], second["entries"]) == (True, first["entries"] + 1)


@pytest.mark.parametrize("cut", ["_copy_place", "finish"])
def test_a_copy_that_was_cut_short_goes_on(
    home: Home,
    tmp_path: Path,
    postgres_url: str,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    cut: str,
) -> None:
    """It is told as unfinished, no writer takes it for whole, and the next run completes it."""

    def fails(*_: object) -> None:
        raise LedgerUnavailable("cut short")

    with monkeypatch.context() as patched:
        patched.setattr(store_copy.StoreCopy, cut, fails)
        run("store", "copy", "--to", postgres_url, code=1)
    _, state = run("store", "check", store=postgres_url)
    assert state["copy"]["began_at"] is not None
    assert state["copy"]["finished_at"] is None
    _, value = run("store", "copy", "--to", postgres_url)
    assert (value["whole"], value["written"]) == (True, True)


def test_a_chain_that_was_cut_short_is_continued(
    home: Home, tmp_path: Path, postgres_url: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_copy, "ENTRIES", 3)
    real, calls = store_copy.load, []

    def failing(connection: Any, name: str, *rest: Any) -> int:
        calls.append(name)
        if calls.count("entries") == 3:
            raise LedgerUnavailable("cut short")
        return real(connection, name, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(store_copy, "load", failing)
        run("store", "copy", "--to", postgres_url, code=1)
    with psycopg.connect(postgres_url) as connection:
        count = connection.execute("SELECT count(*) FROM pointsman_ledger.entries").fetchone()
    assert count == (6,)
    _, value = run("store", "copy", "--to", postgres_url)
    assert value["whole"]


def test_a_target_of_another_ledger_is_refused(
    home: Home, other: Home, postgres_url: str, run: Run
) -> None:
    run("store", "copy", "--to", postgres_url, "--home", str(other.path))
    before = _everything(postgres_url)
    _, error = run("store", "copy", "--to", postgres_url, code=2)
    assert error["error_code"] == "store.refused"
    assert other.identity.ledger in error["message"]
    assert _everything(postgres_url) == before


def test_a_target_that_is_in_use_without_a_ledger_is_refused(
    home: Home, tmp_path: Path, postgres_url: str, run: Run
) -> None:
    run("keys", "create", "ann", store=postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DELETE FROM pointsman_ledger.attachments")
        connection.execute("DELETE FROM pointsman_ledger.entries")
        connection.execute("DELETE FROM pointsman_ledger.checkpoints")
        connection.execute("DELETE FROM pointsman_ledger.chains")
        connection.execute("DELETE FROM pointsman_ledger.meta")
    _, error = run("store", "copy", "--to", postgres_url, code=2)
    assert "access.keys" in error["message"]


def test_a_chain_that_was_begun_on_both_sides_is_refused(
    home: Home, tmp_path: Path, postgres_url: str, run: Run
) -> None:
    (tmp_path / "checkpoints").rename(tmp_path / "aside")
    with Pointsman(tmp_path, store=postgres_url) as there:
        a_turn(there, "begun there")
    rmtree(tmp_path / "checkpoints")
    (tmp_path / "aside").rename(tmp_path / "checkpoints")
    _, error = run("store", "copy", "--to", postgres_url, code=2)
    assert "not the one of this home" in error["message"]


def test_nothing_is_copied_while_somebody_writes(
    home: Home, tmp_path: Path, postgres_url: str, run: Run
) -> None:
    lease = Lease(home.leases, "serve")
    _, error = run("store", "copy", "--to", postgres_url, code=2)
    lease.release()
    assert error["error_code"] == "ledger.chain_held"


def test_a_ledger_that_is_not_intact_is_not_copied(
    home: Home, tmp_path: Path, postgres_url: str, run: Run
) -> None:
    connection = home.database.writing("schema.sql")
    connection.execute("UPDATE entries SET payload = x'7b7d' WHERE seq = 1")
    connection.close()
    _, error = run("store", "copy", "--to", postgres_url, code=1)
    assert error["error_code"] == "ledger.broken"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("UPDATE pointsman_access.keys SET revoked_at = NULL", "access.keys"),
        ("DELETE FROM pointsman_content.contents", "content.contents"),
        ("UPDATE pointsman_spend.spent SET cost_microusd = cost_microusd + 1", "spend.spent"),
        ("UPDATE pointsman_bulk.bulk_ranges SET tries = tries + 1", "bulk.bulk_ranges"),
        ("UPDATE pointsman_shared.turns SET model = 'p:other'", "shared.turns"),
    ],
)
def test_a_copy_that_differs_is_not_called_whole(
    home: Home,
    postgres_url: str,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    what: str,
) -> None:
    """The proof reads the target: what somebody changed there before it is told."""
    assert home.database.exists()
    real = store_copy.StoreCopy._fold_spending

    def tampering(copy: store_copy.StoreCopy) -> None:
        real(copy)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(change)  # type: ignore[call-overload]

    monkeypatch.setattr(store_copy.StoreCopy, "_fold_spending", tampering)
    _, value = run("store", "copy", "--to", postgres_url, code=1)
    assert not value["whole"]
    assert [each["table"] for each in value["tables"] if not each["equal"]] == [what]
    _, state = run("store", "check", store=postgres_url)
    assert state["copy"]["finished_at"] is None


def test_migrating_tells_what_it_did(postgres_url: str, run: Run) -> None:
    _, first = run("store", "migrate", store=postgres_url)
    assert first["made"][0] == "0001_ledger.pre"
    assert (first["pending"], first["has_vectors"]) == ([], True)
    _, again = run("store", "migrate", "--step", "all", store=postgres_url)
    assert again["made"] == []
    _, state = run("store", "check", store=postgres_url)
    assert (state["usable"], state["pending"], state["ledger"]) == (True, [], "")


def test_a_home_of_files_is_checked_and_not_migrated(home: Home, tmp_path: Path, run: Run) -> None:
    _, state = run("store", "check")
    assert (state["kind"], state["usable"]) == ("sqlite", True)
    _, error = run("store", "migrate", code=2)
    assert "SQLite" in error["message"]


def test_a_server_that_does_not_answer_is_told(tmp_path: Path, run: Run) -> None:
    open_home(tmp_path)
    nowhere = f"postgresql://nobody:secret@/none?host={tmp_path}"
    _, state = run("store", "check", store=nowhere, code=1)
    assert not state["usable"]
    assert "cannot be reached" in state["trouble"]
    assert "secret" not in json.dumps(state)


def test_a_database_that_is_behind_says_what_it_lacks(
    tmp_path: Path, postgres_url: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_home(tmp_path)
    every = module.migrations()
    store = PostgresStore(postgres_url, tmp_path / "checkpoints")
    with closing(store.connect("pointsman")) as connection:
        migrate(connection.raw, "here", known=every[:3])
    _, state = run("store", "check", store=postgres_url, code=1)
    assert state["pending"] == [each.name for each in every[3:]]
    assert state["schema_version"] == "0003"


def test_a_later_step_waits_until_it_is_asked_for(
    tmp_path: Path, postgres_url: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Migration("9999_later.post", "post", "CREATE TABLE pointsman.later (n INTEGER)")
    every = [*module.migrations(), late]
    for each in (module, server):
        monkeypatch.setattr(each, "migrations", lambda: every)
    _, first = run("store", "migrate", store=postgres_url)
    assert (first["pending"], "9999_later.post" in first["made"]) == (["9999_later.post"], False)
    _, state = run("store", "check", store=postgres_url)
    assert (state["usable"], state["pending"]) == (True, ["9999_later.post"])
    _, second = run("store", "migrate", "--step", "post", store=postgres_url)
    assert (second["made"], second["pending"]) == (["9999_later.post"], [])


def _everything(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Give every row of every table that is ours."""
    with psycopg.connect(url) as connection:
        names = connection.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname LIKE 'pointsman%'"
        ).fetchall()
        return {
            f"{schema}.{name}": connection.execute(  # type: ignore[call-overload]
                f"SELECT * FROM {schema}.{name} ORDER BY 1, 2"
            ).fetchall()
            for schema, name in names
        }
