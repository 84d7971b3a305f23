"""What an export writes, what it leaves alone, and what it refuses."""

import io
import stat

import apsw
import pytest
from small_ledger import draft, fill

from pointsman.audit import export
from pointsman.audit.export import export_bundle
from pointsman.audit.frozen_reader import FrozenReader
from pointsman.errors import InputError, LedgerBroken
from pointsman.offline_verifier import audit
from pointsman.storage.home import open_home


def verified(summary):
    return audit(io.BytesIO(summary.path.read_bytes()), summary.key_id)


def test_a_bundle_and_its_verifier_are_for_their_owner_only(home, tmp_path):
    summary = export_bundle(home, tmp_path / "b")
    for path in (summary.path, summary.verifier):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert summary.verifier.name == "pointsman_verify.py"
    assert summary.key_id == home.keys[-1].id
    assert (summary.chains, summary.entries) == (3, 642)
    assert verified(summary)["is_intact"]


def test_the_same_ledger_gives_the_same_bytes(home, tmp_path):
    first = export_bundle(home, tmp_path / "a")
    second = export_bundle(home, tmp_path / "b")
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.digest == second.digest


def test_an_empty_home_has_an_intact_bundle(tmp_path):
    summary = export_bundle(open_home(tmp_path / "home"), tmp_path / "b")
    assert verified(summary)["is_intact"]
    assert (summary.chains, summary.entries, summary.lines) == (0, 0, 2)


def test_what_a_writer_adds_meanwhile_stays_out_whole(home, tmp_path, monkeypatch):
    class Raced(FrozenReader):
        def __init__(self, home):
            super().__init__(home)
            fill(home, "cli", [draft(number) for number in range(70)])

    monkeypatch.setattr(export, "FrozenReader", Raced)
    summary = export_bundle(home, tmp_path / "b")
    assert verified(summary)["is_intact"]
    assert summary.entries == 642


def test_a_bundle_of_checkpoints_without_their_database_is_not_intact(home, tmp_path):
    home.database.unlink()
    fault = verified(export_bundle(home, tmp_path / "b"))["fault"]
    assert (fault["chain"], fault["seq"]) == ("alpha", 0)
    assert "were signed and are gone" in fault["message"]


def test_a_bundle_names_a_chain_that_the_database_lost(home, tmp_path):
    connection = apsw.Connection(str(home.database))
    connection.execute("DELETE FROM entries WHERE chain IN (SELECT id FROM chains LIMIT 1)")
    connection.execute("DELETE FROM chains WHERE name = 'alpha'")
    connection.close()
    fault = verified(export_bundle(home, tmp_path / "b"))["fault"]
    assert (fault["chain"], fault["seq"]) == ("alpha", 0)


def test_a_bundle_names_an_attachment_that_the_database_lost(home, tmp_path):
    connection = apsw.Connection(str(home.database))
    connection.execute("DELETE FROM attachments")
    connection.close()
    fault = verified(export_bundle(home, tmp_path / "b"))["fault"]
    assert (fault["chain"], fault["seq"]) == ("cli", 1)


def test_a_bundle_names_the_entries_that_lost_their_checkpoints(home, tmp_path):
    (home.checkpoints / "cli" / "notes").unlink()
    fault = verified(export_bundle(home, tmp_path / "b"))["fault"]
    assert (fault["chain"], fault["seq"]) == ("cli", 0)
    assert "lack the checkpoints" in fault["message"]


def test_a_database_that_cannot_be_read_leaves_the_older_bundle(home, tmp_path):
    older = export_bundle(home, tmp_path / "b").path.read_bytes()
    home.database.write_bytes(b"no database " * 1000)
    with pytest.raises(LedgerBroken, match="cannot be read"):
        export_bundle(home, tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == older
    assert not list(tmp_path.glob(".b.*"))


def test_a_folder_that_is_not_there_is_refused(home, tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        export_bundle(home, tmp_path / "missing" / "b")


def test_a_value_past_what_a_verifier_reads_is_refused(home, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "MAX_LINE", 300)
    with pytest.raises(InputError, match="past the 300 of a bundle"):
        export_bundle(home, tmp_path / "b")
