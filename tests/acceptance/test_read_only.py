"""An auditor's copy: everything that only reads works where nothing can be written."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from tests.acceptance.read_only import run_denied, run_read_only
from tests.acceptance.test_keys_command import SPENT

from pointsman.access.book import HomeBook
from pointsman.storage.home import open_home
from pointsman.testing import a_home, a_turn


def make_home(path: Path) -> Path:
    with a_home(path) as pointsman:
        for _ in range(3):
            a_turn(pointsman)
    with closing(HomeBook(open_home(path), "serve")) as book:
        book.add(SPENT)
    return path


def check_readable(home: Path) -> None:
    said = run_read_only(
        home, "verify", "doctor", "why last", "replay --all --workers 1", "cost", "audit egress"
    )
    assert [code for code, *_ in said] == [0] * 6, said
    verified, examined, why, replayed, cost, egress = (text for _, text, _ in said)
    assert "intact" in verified
    assert "\nfault" not in examined
    assert "it takes no writes" in examined
    assert "Chain:" in why
    assert "3 of 3 decisions identical" in replayed
    assert "total  $0.0025" in cost
    assert "intact ledger entries" in egress


def test_a_closed_home_is_verified_and_read_on_a_medium_that_takes_no_writes(
    tmp_path: Path,
) -> None:
    check_readable(make_home(tmp_path / "home"))


def test_a_copy_made_beside_a_writer_is_read_with_what_stands_in_the_log_alone(
    tmp_path: Path,
) -> None:
    with a_home(tmp_path / "live") as pointsman:
        for _ in range(3):
            a_turn(pointsman)
        with closing(HomeBook(pointsman.home, "serve")) as book:
            book.add(SPENT)
        shutil.copytree(
            tmp_path / "live", tmp_path / "copy", ignore=shutil.ignore_patterns("*-shm")
        )
    assert (tmp_path / "copy" / "ledger.db-wal").stat().st_size
    assert (tmp_path / "copy" / "ledger.db").stat().st_size < 10_000, "the log holds the entries"
    check_readable(tmp_path / "copy")


def test_commands_that_write_say_what_stops_them(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    for code, text, _ in run_read_only(home, "route hello", "init"):
        assert code == 2
        assert "home.unusable: it cannot be used: Read-only file system" in text


@pytest.mark.parametrize("out_of_reach", ["ledger.db", "checkpoints/cli/notes", "checkpoints/cli"])
def test_what_cannot_be_read_is_not_called_tampering(tmp_path: Path, out_of_reach: str) -> None:
    home = make_home(tmp_path / "home")
    code, text, _ = run_denied(home, home / out_of_reach, "verify")
    assert code == 2
    assert "ledger.unreadable: it cannot be used here" in text
    assert "signed and are gone" not in text
    assert "damaged" not in text


def test_the_doctor_does_not_send_away_a_store_that_it_cannot_read(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    code, text, _ = run_denied(home, home / "content.db", "doctor")
    assert "move content.db away" not in text
    assert "ledger.unreadable: it cannot be used here" in text
    assert code == 1
