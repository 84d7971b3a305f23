"""Verifying a home: empty, healthy, beside a live writer, and after a crash."""

from contextlib import closing

import apsw
import msgspec
import pytest

from pointsman.audit import verify
from pointsman.audit.chain_notes import ChainNotes, chain_notes, claimed_size
from pointsman.audit.verify import verify_ledger
from pointsman.kernel.entry import Chain, Draft
from pointsman.kernel.instant import Instant
from pointsman.kernel.signing import SigningKey, stamp
from pointsman.kernel.verification import FaultCode
from pointsman.storage.home import Home, Identity, open_home
from pointsman.storage.sqlite.ledger import WritePlace
from pointsman.storage.writer.checkpoints import CheckpointFolder
from pointsman.storage.writer.ledger import LedgerWriter


@pytest.fixture
def home(tmp_path):
    return open_home(tmp_path / "home")


def opened(home, name="cli"):
    opening = Draft("ledger.opened", "open", "", Instant(0), b"{}")
    place = WritePlace(home.database, home.checkpoints, sync="OFF")
    return LedgerWriter(place, Chain(home.identity.ledger, name), home.signing_key(), opening)


def fill(home, count, name="cli"):
    writer = opened(home, name)
    append(writer, count)
    writer.close()


def append(writer, count):
    for number in range(count):
        writer.append(Draft("k", f"e-{number}", "", Instant(number), b"{}", (b"a",))).result()


def notes_path(home, name="cli"):
    return home.checkpoints / name / "notes"


def test_a_new_home_is_intact_and_empty(home):
    report = verify_ledger(home)
    assert report.is_intact
    assert (report.ledger, report.chains, report.entries) == (home.identity.ledger, (), 0)
    assert report.fault is None


def test_a_database_file_that_was_never_written_is_like_none(home):
    home.database.touch()
    assert verify_ledger(home).is_intact


def test_a_database_with_tables_and_no_chain_is_intact(home):
    writer = opened(home)
    writer.close()
    connection = apsw.Connection(str(home.database))
    for table in ("meta", "chains", "entries", "attachments"):
        connection.execute(f"DELETE FROM {table}")
    connection.close()
    notes_path(home).unlink()
    assert verify_ledger(home).is_intact


def test_the_report_counts_entries_signed_and_unsigned(home):
    fill(home, 4, "alpha")
    writer = opened(home)
    append(writer, 2)
    report = verify_ledger(home)
    writer.close()
    assert report.is_intact
    assert report.entries == 8
    alpha, cli = report.chains
    assert (alpha.chain, alpha.entries, alpha.signed, alpha.entries - alpha.signed) == (
        "alpha",
        5,
        5,
        0,
    )
    assert (cli.chain, cli.entries, cli.signed, cli.entries - cli.signed) == ("cli", 3, 0, 3)


def test_progress_tells_how_many_entries_were_read(home, monkeypatch):
    monkeypatch.setattr(verify, "PROGRESS_ENTRIES", 4)
    fill(home, 9, "alpha")
    fill(home, 2)
    told = []
    assert verify_ledger(home, told.append).is_intact
    assert told == [4, 8, 10, 12, 13]


def test_a_file_that_is_no_database_is_a_fault(home):
    home.database.write_bytes(b"this is not a database, but it is long enough" * 100)
    fault = verify_ledger(home).fault
    assert fault.code is FaultCode.DATABASE_DAMAGED


def test_a_folder_in_place_of_the_database_is_a_fault(home):
    home.database.mkdir()
    assert verify_ledger(home).fault.code is FaultCode.DATABASE_DAMAGED


def test_what_a_live_writer_adds_between_the_looks_is_no_fault(home, monkeypatch):
    fill(home, 3)
    first = verify.FrozenReader

    class Raced(first):
        def __init__(self, home):
            super().__init__(home)
            fill(home, 300)

    monkeypatch.setattr(verify, "FrozenReader", Raced)
    report = verify_ledger(home)
    assert report.is_intact
    assert report.entries == 4


def test_what_a_live_writer_adds_before_the_database_is_looked_at_is_no_fault(home, monkeypatch):
    fill(home, 3)
    first = verify.FrozenReader

    class Raced(first):
        def __init__(self, home):
            fill(home, 300)
            super().__init__(home)

    monkeypatch.setattr(verify, "FrozenReader", Raced)
    report = verify_ledger(home)
    assert report.is_intact
    assert (report.entries, report.chains[0].signed) == (304, 304)


def test_leaves_that_a_starting_writer_replaces_are_read_again(home, monkeypatch):
    fill(home, 3)
    whole = CheckpointFolder.leaves
    reads = []

    def torn(self):
        reads.append(1)
        return whole(self)[: -32 if len(reads) == 1 else None]

    monkeypatch.setattr(CheckpointFolder, "leaves", torn)
    assert verify_ledger(home).is_intact
    assert len(reads) == 2


def test_a_checkpoint_torn_by_a_crash_at_any_byte_is_no_fault(home):
    fill(home, 3)
    whole = notes_path(home).read_bytes()
    fill(home, 2)
    both = notes_path(home).read_bytes()
    # The stamp says how far checkpoints reach only once the checkpoint is on disk.
    chain, last = Chain(home.identity.ledger, "cli"), verify_ledger(home).chains[0]
    before = stamp(chain, last.entries, last.head, home.signing_key(), 4)
    with closing(apsw.Connection(str(home.database))) as connection:
        connection.execute("UPDATE chains SET stamp = ?", (before,))
    dash = both.rindex(b"\xe2")
    for end in range(len(whole), len(both) + 1):
        if end in (dash + 1, dash + 2):
            continue  # half a character: the file as a whole is not text then
        notes_path(home).write_bytes(both[:end])
        report = verify_ledger(home)
        assert report.is_intact, both[:end]
        assert report.chains[0].signed == (6 if end >= len(both) - 2 else 4)


def test_a_whole_checkpoint_that_lost_only_its_end_still_has_to_verify(home):
    fill(home, 3)
    text = notes_path(home).read_text().rstrip("\n")
    notes_path(home).write_text(text[:-4] + ("AAA=" if text[-4:] != "AAA=" else "BBB="))
    fault = verify_ledger(home).fault
    assert fault.code is FaultCode.CHECKPOINT_BROKEN
    assert "checkpoint 1" in fault.message


@pytest.mark.parametrize("rest", ["garbage", "\n", "pointsman/", "\x00"])
def test_what_is_no_beginning_of_a_checkpoint_is_a_fault(home, rest):
    fill(home, 3)
    with notes_path(home).open("a") as file:
        file.write(rest)
    fault = verify_ledger(home).fault
    assert (fault is None) == (rest == "pointsman/")


def test_notes_that_are_no_text_are_a_fault(home):
    fill(home, 3)
    notes_path(home).write_bytes(b"\xff\xff")
    fault = verify_ledger(home).fault
    assert fault.code is FaultCode.CHECKPOINT_BROKEN


def test_the_broken_checkpoint_is_named_by_its_number(home):
    for _ in range(3):
        fill(home, 3)
    text = notes_path(home).read_text()
    second = text.index("\n7\n")
    notes_path(home).write_text(text[:second] + "\n8\n" + text[second + 3 :])
    fault = verify_ledger(home).fault
    assert (fault.chain, fault.seq, fault.code) == ("cli", 4, FaultCode.CHECKPOINT_BROKEN)
    assert "checkpoint 2" in fault.message


def test_notes_rewritten_while_they_are_read_are_taken_as_first_seen(home):
    fill(home, 3)
    notes = chain_notes(home, "cli")
    before = notes.with_later(4)
    notes_path(home).write_text("something else\n\nmore\n\n")
    assert notes.with_later(4) == before


def test_a_later_checkpoint_counts_when_the_database_holds_what_it_covers(home):
    folder = CheckpointFolder(home.checkpoints, Chain(home.identity.ledger, "cli"))
    notes = ChainNotes(folder)
    fill(home, 3)
    assert len(notes.with_later(4)[0]) == 1
    assert notes.with_later(3) == ([], "")


def test_a_checkpoint_folder_that_no_writer_can_have_made_is_a_fault(home):
    (home.checkpoints / "NO CHAIN").mkdir(parents=True)
    fault = verify_ledger(home).fault
    assert fault.chain == "NO CHAIN"


def test_an_empty_checkpoint_folder_says_nothing(home):
    fill(home, 1, "alpha")
    (home.checkpoints / "cli").mkdir()
    assert verify_ledger(home).is_intact
    assert [each.chain for each in verify_ledger(home).chains] == ["alpha"]


def test_a_signed_chain_that_the_database_does_not_know_is_truncated_at_0(home):
    fill(home, 3)
    connection = apsw.Connection(str(home.database))
    for table in ("attachments", "entries", "chains"):
        connection.execute(f"DELETE FROM {table}")
    connection.close()
    fault = verify_ledger(home).fault
    assert (fault.chain, fault.seq, fault.code) == ("cli", 0, FaultCode.TRUNCATED)


def test_a_text_that_is_not_utf_8_is_a_fault_of_its_entry(home):
    fill(home, 5)
    connection = apsw.Connection(str(home.database))
    connection.execute("UPDATE entries SET kind = CAST(x'ff' AS TEXT) WHERE seq = 3")
    connection.close()
    fault = verify_ledger(home).fault
    assert (fault.chain, fault.seq) == ("cli", 3)


def test_a_name_too_long_to_have_been_recorded_is_a_fault_of_its_entry(home):
    fill(home, 5)
    connection = apsw.Connection(str(home.database))
    connection.execute("UPDATE entries SET kind = printf('%.*c', 70000, 'x') WHERE seq = 3")
    connection.close()
    fault = verify_ledger(home).fault
    assert (fault.chain, fault.seq, fault.code) == ("cli", 3, FaultCode.ENTRY_CHANGED)


def test_a_checkpoint_further_ahead_than_a_writer_signs_is_a_fault(home):
    fill(home, 600)
    texts = CheckpointFolder(home.checkpoints, Chain(home.identity.ledger, "cli")).texts()[0]
    assert [claimed_size(text) for text in texts] == sorted(map(claimed_size, texts))
    notes_path(home).write_text(texts[-1] + "\n")
    fault = verify_ledger(home).fault
    assert (fault.seq, fault.code) == (0, FaultCode.CHECKPOINT_BROKEN)


def test_what_no_key_of_the_home_signed_does_not(home):
    fill(home, 2)
    identity = Identity(home.identity.ledger, (SigningKey(bytes(32)).public.hex(),))
    (home.path / "identity.json").write_bytes(msgspec.json.encode(identity))
    assert verify_ledger(Home(home.path)).fault.code is FaultCode.CHECKPOINT_BROKEN


@pytest.mark.parametrize("text", ["", "x", "a\nb\n", "a\n-1\n", "a\n" + "9" * 30 + "\n", "a\n٣\n"])
def test_a_text_without_a_size_claims_none(text):
    assert claimed_size(text) == -1
