"""A long ledger is proved from where it was proved last, by a proof that its key signed."""

import json
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner

from pointsman import Pointsman
from pointsman.audit import proof_of_progress
from pointsman.audit.proof_of_progress import Proved, keep_progress, read_progress
from pointsman.cli.main import main
from pointsman.kernel.signing import SigningKey, signed_bytes
from pointsman.kernel.verification import FaultCode
from pointsman.testing import a_home, a_turn
from pointsman.version import VERSION


@pytest.fixture
def pointsman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pointsman]:
    monkeypatch.setattr(proof_of_progress, "FEWEST", 4)
    with a_home(tmp_path / "home") as pointsman:
        some_turns(pointsman)
        yield pointsman


def some_turns(pointsman: Pointsman, count: int = 5) -> None:
    """Record turns, in a process that ends: it signs them."""
    with a_home(pointsman.home.path) as other:
        other.ids.new_id()
        for number in range(count):
            a_turn(other, f"hello {number}")


def change(pointsman: Pointsman, seq: int) -> None:
    connection = apsw.Connection(str(pointsman.home.database))
    connection.execute("UPDATE entries SET at_us = at_us + 1 WHERE seq = ?", (seq,))
    connection.close()


def proof(pointsman: Pointsman, what: str = "verified") -> Path:
    return pointsman.home.path / f"{what}.json"


def test_the_second_verification_reads_only_new_entries(pointsman: Pointsman) -> None:
    first = pointsman.verify()
    assert (first.is_intact, first.before) == (True, 0)
    some_turns(pointsman)
    read: list[int] = []
    second = pointsman.verify(read.append)
    assert (second.is_intact, second.before) == (True, first.entries)
    assert read[-1] == second.entries - first.entries
    assert pointsman.verify().before == second.entries
    assert pointsman.verify().whole_at == first.whole_at


def test_a_change_behind_the_proof_is_found(pointsman: Pointsman) -> None:
    proved = pointsman.verify().entries
    some_turns(pointsman)
    change(pointsman, proved + 1)
    fault = pointsman.verify().fault
    assert fault is not None
    assert (fault.seq, fault.code) == (proved + 1, FaultCode.ENTRY_CHANGED)
    assert pointsman.verify().before == 0  # a report with a fault tells of no earlier proof


def test_a_change_before_the_proof_shows_from_scratch(pointsman: Pointsman) -> None:
    pointsman.verify()
    change(pointsman, 1)
    assert pointsman.verify().is_intact
    fault = pointsman.verify(from_scratch=True).fault
    assert fault is not None
    assert fault.seq == 1


def test_a_proof_that_another_key_signed_counts_for_nothing(pointsman: Pointsman) -> None:
    pointsman.verify()
    found = json.loads(proof(pointsman).read_text())
    other = SigningKey(bytes(32))
    text = json.dumps(found["progress"], separators=(",", ":")).encode()
    for key in (found["key"], other.id):
        signature = other.sign(signed_bytes("progress", text)).hex()
        signed = {"progress": found["progress"], "key": key, "signature": signature}
        proof(pointsman).write_text(json.dumps(signed))
        assert read_progress(pointsman.home, "verified", VERSION) == Proved()
    change(pointsman, 1)
    assert not pointsman.verify().is_intact


@pytest.mark.parametrize(
    "change_to", [b"", b"{}", b"\xff", b'{"progress":1,"key":"","signature":"z"}']
)
def test_what_is_no_proof_is_read_as_none(pointsman: Pointsman, change_to: bytes) -> None:
    pointsman.verify()
    proof(pointsman).write_bytes(change_to)
    assert pointsman.verify().before == 0
    assert pointsman.verify().before > 0


def test_a_proof_of_more_than_the_ledger_has_counts_for_nothing(pointsman: Pointsman) -> None:
    """As after an older copy of the database and its checkpoints was put back."""
    home = pointsman.home
    entries = pointsman.verify().entries
    keep_progress(home, "verified", VERSION, "2026-01-01T00:00:00Z", {"cli": entries + 1})
    assert read_progress(home, "verified", VERSION).sizes == {"cli": entries}


def test_another_version_reads_all_again(pointsman: Pointsman) -> None:
    pointsman.verify()
    assert read_progress(pointsman.home, "verified", VERSION).sizes
    assert read_progress(pointsman.home, "verified", "0.0.0") == Proved()
    assert read_progress(pointsman.home, "replayed", VERSION) == Proved()


def test_a_short_ledger_is_read_as_a_whole(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as pointsman:
        some_turns(pointsman)
        assert pointsman.verify().is_intact
        assert pointsman.replay_all().is_clean
        assert not proof(pointsman).exists()
        assert not proof(pointsman, "replayed").exists()


def test_replay_goes_on_behind_decisions_that_came_out_the_same(pointsman: Pointsman) -> None:
    first = pointsman.replay_all()
    assert (first.is_clean, first.before) == (True, 0)
    some_turns(pointsman, 2)
    second = pointsman.replay_all(workers=2)
    assert second.is_clean
    assert second.before > first.total
    assert second.total == 2 * first.total // 5
    whole = pointsman.replay_all(from_scratch=True)
    assert (whole.total, whole.before) == (first.total + second.total, 0)


def test_a_decision_that_came_out_otherwise_is_no_progress(pointsman: Pointsman) -> None:
    change(pointsman, 3)
    assert not pointsman.replay_all().is_clean
    assert not proof(pointsman, "replayed").exists()


def test_the_report_of_departures_goes_on_from_the_proof(pointsman: Pointsman) -> None:
    entries = pointsman.verify().entries
    change(pointsman, 1)
    report = pointsman.egress()
    assert report.is_proved
    assert report.ledger.entries == entries
    proof(pointsman).unlink()
    assert not pointsman.egress().is_proved


def test_the_command_line_tells_what_an_earlier_proof_vouches_for(pointsman: Pointsman) -> None:
    home = str(pointsman.home.path)
    pointsman.close()
    runner = CliRunner()
    for name in (["verify"], ["replay", "--all"]):
        command = [*name, "--home", home]
        assert "before" not in runner.invoke(main, command).output
        again = runner.invoke(main, command)
        assert again.exit_code == 0
        assert "`--from-scratch` reads them again" in again.output
        told = json.loads(runner.invoke(main, [*command, "--json"]).output)["proved_before"]
        assert told["entries"] > 0
        whole = runner.invoke(main, [*command, "--from-scratch", "--json"])
        assert "proved_before" not in json.loads(whole.output)
    lone = runner.invoke(main, ["replay", "some-id", "--from-scratch", "--home", home])
    assert lone.exit_code != 0
