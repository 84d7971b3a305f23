"""The end of a chain, where no checkpoint reaches yet: nobody without the key can touch it."""

import shutil

import apsw
import pytest
from small_ledger import draft, opened_writer

from pointsman.audit.verify import verify_ledger
from pointsman.errors import LedgerBroken
from pointsman.kernel.entry import Chain, Entry, Head, head_after, next_entry
from pointsman.kernel.signing import SigningKey, stamp
from pointsman.kernel.verification import FaultCode
from pointsman.storage.home import open_home


@pytest.fixture
def tail(tmp_path):
    """A home whose writer died with entries that no checkpoint covers."""
    home = open_home(tmp_path / "home")
    writer = opened_writer(home, "cli")
    writer.append(draft(1)).result()
    writer.close()
    writer = opened_writer(home, "cli")
    for number in range(2, 6):
        writer.append(draft(number)).result()
    writer._group.close()
    writer._rows.close()
    assert verify_ledger(home).is_intact
    return home


def sql(home, text, *values):
    connection = apsw.Connection(str(home.database))
    connection.execute(text, values)
    connection.close()


def entries(home, number=1):
    connection = apsw.Connection(str(home.database))
    rows = connection.execute(
        "SELECT seq, at_us, kind, id, ref, payload, attached, prev, hash FROM entries"
        " WHERE chain = ? ORDER BY seq",
        (number,),
    )
    found = [Entry(*row) for row in rows]
    connection.close()
    return found


def insert(home, number, entry):
    values = (number, *(getattr(entry, name) for name in entry.__struct_fields__))
    sql(home, f"INSERT INTO entries VALUES ({','.join('?' * 10)})", *values)


def fault(home):
    found = verify_ledger(home).fault
    return found.chain, found.seq, found.code


def refuses_to_start(home, why="does not end where its writer left it", name="cli"):
    with pytest.raises(LedgerBroken, match=why):
        opened_writer(home, name)


def test_a_well_formed_entry_added_without_the_key_is_found(tail):
    chain = Chain(tail.identity.ledger, "cli")
    insert(tail, 1, next_entry(chain, head_after(entries(tail)[-1]), draft(9)))
    assert fault(tail) == ("cli", 2, FaultCode.END_CHANGED)
    refuses_to_start(tail)


def test_a_whole_chain_made_without_the_key_is_found(tail):
    chain = Chain(tail.identity.ledger, "evil")
    sql(tail, "INSERT INTO chains (id, name) VALUES (7, 'evil')")
    insert(tail, 7, next_entry(chain, Head(0, chain.genesis, 0), draft(9)))
    assert fault(tail) == ("evil", 0, FaultCode.END_CHANGED)
    refuses_to_start(tail, name="evil")


def test_entries_removed_before_any_checkpoint_covers_them_are_found(tail):
    sql(tail, "DELETE FROM entries WHERE seq = 5")
    assert fault(tail) == ("cli", 2, FaultCode.END_CHANGED)
    refuses_to_start(tail)


def test_the_end_rewritten_by_someone_who_knows_the_algorithm_is_found(tail):
    chain = Chain(tail.identity.ledger, "cli")
    *before, last = entries(tail)
    sql(tail, "DELETE FROM entries WHERE seq = ?", last.seq)
    forged = next_entry(chain, head_after(before[-1]), draft(9))
    insert(tail, 1, forged)
    sql(tail, "UPDATE chains SET stamp = ?", stamp(chain, 6, forged.hash, SigningKey(b"x" * 32)))
    assert fault(tail) == ("cli", 2, FaultCode.END_CHANGED)
    refuses_to_start(tail)


def test_a_missing_stamp_is_found(tail):
    sql(tail, "UPDATE chains SET stamp = x''")
    assert fault(tail) == ("cli", 2, FaultCode.END_CHANGED)
    refuses_to_start(tail)


def test_a_writer_signs_what_an_honest_crash_left(tail):
    opened_writer(tail, "cli").close()
    (report,) = verify_ledger(tail).chains
    assert (report.entries, report.signed, report.fault) == (6, 6, None)


@pytest.fixture
def closed(tmp_path):
    """A small home, closed as it should be."""
    home = open_home(tmp_path / "home")
    writer = opened_writer(home, "cli")
    for number in range(7):
        writer.append(draft(number)).result()
    writer.close()
    assert verify_ledger(home).is_intact
    return home


def test_a_missing_folder_of_checkpoints_is_found_in_a_home_of_any_size(closed):
    shutil.rmtree(closed.checkpoints)
    assert fault(closed) == ("cli", 0, FaultCode.CHECKPOINT_MISSING)
    refuses_to_start(closed, "checkpoints that were signed are gone")


def test_a_shortened_file_of_checkpoints_is_found(closed):
    writer = opened_writer(closed, "cli")
    writer.append(draft(8)).result()
    writer.close()
    notes = closed.checkpoints / "cli" / "notes"
    first = notes.read_bytes().index(b"\n\n", notes.read_bytes().index(b"\n\n") + 2) + 2
    notes.write_bytes(notes.read_bytes()[:first])
    assert fault(closed) == ("cli", 8, FaultCode.CHECKPOINT_MISSING)
    refuses_to_start(closed, "checkpoints that were signed are gone")


def test_how_far_checkpoints_reach_cannot_be_changed_without_the_key(closed):
    shutil.rmtree(closed.checkpoints)
    sql(closed, "UPDATE chains SET stamp = CAST(zeroblob(8) || substr(stamp, 9) AS BLOB)")
    assert fault(closed) == ("cli", 0, FaultCode.END_CHANGED)


def test_a_signing_key_of_another_home_is_found(closed, tmp_path):
    other = open_home(tmp_path / "other")
    shutil.copy(other.path / "keys" / "signing", closed.path / "keys" / "signing")
    (found,) = verify_ledger(closed).faults
    assert found.code is FaultCode.KEY_FOREIGN
    (closed.path / "keys" / "signing").unlink()
    assert verify_ledger(closed).is_intact, "an auditor's copy has no secret key"
