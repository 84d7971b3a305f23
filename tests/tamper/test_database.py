"""A database edited behind the writer's back: what is found, and which entry is named."""

import io
import random
import shutil

import apsw
import pytest
from msgspec.structs import replace
from small_ledger import FORM, Weights, draft, opened_writer

from pointsman.audit.export import export_bundle
from pointsman.audit.verify import verify_ledger
from pointsman.errors import LedgerRolledBack
from pointsman.kernel.entry import Chain, Draft, Entry, Head, head_after, next_entry
from pointsman.kernel.instant import Instant
from pointsman.kernel.snapshot import snapshot_draft
from pointsman.kernel.verification import FaultCode
from pointsman.offline_verifier import audit
from pointsman.storage.home import Home

COLUMNS = {
    "at_us": "at_us + 1", "kind": "kind || 'x'", "id": "id || 'x'", "ref": "ref || 'x'",
    "payload": "CAST(payload || 'x' AS BLOB)", "attached": "zeroblob(32 + length(attached))",
    "prev": "zeroblob(32)", "hash": "zeroblob(32)", "seq": "seq + 1000000", "chain": "99",
}  # fmt: skip


def sql(home, text, *values):
    connection = apsw.Connection(str(home.database))
    try:
        return list(connection.execute(text, values))
    finally:
        connection.close()


def place(home):
    fault = verify_ledger(home).fault
    return (fault.chain, fault.seq) if fault else None


def undone(home, statement, *values):
    """Edit, verify, and put the database back as it was."""
    saved = home.database.read_bytes()
    sql(home, "PRAGMA journal_mode = delete")
    sql(home, statement, *values)
    found = verify_ledger(home).fault
    home.database.write_bytes(saved)
    return found


def chain_number(home, name="cli"):
    return sql(home, "SELECT id FROM chains WHERE name = ?", name)[0][0]


def test_the_untouched_ledger_is_intact(home):
    report = verify_ledger(home)
    assert report.is_intact
    assert [each.entries for each in report.chains] == [12, 600, 30]


@pytest.mark.parametrize("column", COLUMNS)
def test_an_edited_column_of_entries_names_the_entry(home, column):
    number = chain_number(home)
    # A row that only moved away leaves nothing behind at the very end of a chain but its absence.
    for seq in (0, 1, 2, 3, 255, 256, 599, *random.Random(column).sample(range(4, 599), 5)):
        fault = undone(
            home,
            f"UPDATE entries SET {column} = {COLUMNS[column]} WHERE chain = ? AND seq = ?",
            number,
            seq,
        )
        assert (fault.chain, fault.seq) == ("cli", seq)


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("UPDATE attachments SET body = CAST(body || 'x' AS BLOB)", FaultCode.VALUE_CHANGED),
        ("UPDATE attachments SET place = place + 10", FaultCode.VALUE_MISSING),
        ("UPDATE attachments SET seq = seq + 100", FaultCode.VALUE_MISSING),
        ("UPDATE attachments SET chain = 99", FaultCode.VALUE_MISSING),
        ("DELETE FROM attachments", FaultCode.VALUE_MISSING),
    ],
)
def test_an_edited_attachment_names_its_entry(home, statement, code):
    rows = sql(
        home,
        "SELECT c.name, a.chain, a.seq, a.place FROM attachments a JOIN chains c ON c.id = a.chain",
    )
    assert len(rows) == 8
    for name, *key in rows:
        fault = undone(home, f"{statement} WHERE chain = ? AND seq = ? AND place = ?", *key)
        assert (fault.chain, fault.seq, fault.code) == (name, key[1], code)


def test_a_further_attachment_is_found_with_its_entry(home):
    number = chain_number(home)
    insert = "INSERT INTO attachments (chain, seq, place, body) VALUES (?, ?, ?, x'00')"
    for seq, at in ((1, 1), (300, 0), (1, -1)):
        fault = undone(home, insert, number, seq, at)
        assert (fault.chain, fault.seq, fault.code) == ("cli", seq, FaultCode.VALUE_CHANGED)
    fault = undone(home, insert, number, 5000, 0)
    assert (fault.chain, fault.seq, fault.code) == ("cli", 5000, FaultCode.VALUE_CHANGED)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET key = 'other'",
        "UPDATE meta SET value = '" + "0" * 32 + "'",
        "DELETE FROM meta",
        "UPDATE chains SET id = id + 50",
        "UPDATE chains SET name = name || 'x'",
        "UPDATE chains SET name = 'CLI' WHERE name = 'cli'",
        "UPDATE chains SET name = CAST(x'ff' AS TEXT) WHERE name = 'cli'",
        "DELETE FROM chains",
        "DELETE FROM chains WHERE name = 'alpha'",
        "DELETE FROM entries",
        "DROP TABLE attachments",
        "DROP TABLE entries",
        "DROP TABLE meta",
        "DROP TABLE chains",
    ],
)
def test_an_edit_around_the_entries_is_found(home, statement):
    sql(home, statement)
    assert not verify_ledger(home).is_intact


def test_a_deleted_entry_is_named(home):
    number = chain_number(home)
    for seq in (0, 1, 100, 255, 256, 598, 599):
        fault = undone(home, "DELETE FROM entries WHERE chain = ? AND seq = ?", number, seq)
        assert (fault.chain, fault.seq) == ("cli", seq)


def swap(home, number, first, second):
    move = "UPDATE entries SET seq = ? WHERE chain = ? AND seq = ?"
    for to, seq in ((-1, first), (first, second), (second, -1)):
        sql(home, move, to, number, seq)


def test_swapped_entries_are_named_by_the_first(home):
    number = chain_number(home)
    for first, second in ((0, 1), (5, 500), (598, 599)):
        swap(home, number, first, second)
        assert place(home) == ("cli", first)
        swap(home, number, first, second)
    assert place(home) is None


UNGUARDED = "DROP TRIGGER entries_join"
"""Whoever writes past the ledger's writer has to be rid of it first."""

COPY = (
    "INSERT INTO entries SELECT {chain}, {seq}, at_us, kind, id, ref, payload, attached, {prev},"
    " hash FROM entries WHERE chain = ? AND seq = 7"
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"seq": "600", "prev": "x'00'"}, ("cli", 600)),
        ({"seq": "-1", "prev": "x'00'"}, ("cli", -1)),
        ({"seq": "999", "prev": "x'00'"}, ("cli", 600)),
        ({"chain": "77"}, ("#77", 7)),
    ],
)
def test_an_inserted_copy_of_an_entry_is_found(home, changes, expected):
    sql(home, UNGUARDED)
    columns = {"chain": "chain", "seq": "seq", "prev": "prev", **changes}
    sql(home, COPY.format(**columns), chain_number(home))
    assert place(home) == expected


def entries_of(home, name="cli"):
    query = (
        "SELECT seq, at_us, kind, id, ref, payload, attached, prev, hash FROM entries"
        " WHERE chain = ? ORDER BY seq"
    )
    return [Entry(*row) for row in sql(home, query, chain_number(home, name))]


def put(home, entries, name="cli"):
    """Overwrite entries as somebody does who knows the algorithm, but has no key."""
    number = chain_number(home, name)
    connection = apsw.Connection(str(home.database))
    connection.execute("DROP TRIGGER IF EXISTS entries_join")
    with connection:
        connection.executemany("DELETE FROM attachments WHERE chain = ? AND seq = ?",
                               [(number, each.seq) for each in entries])  # fmt: skip
        connection.executemany("DELETE FROM entries WHERE chain = ? AND seq = ?",
                               [(number, each.seq) for each in entries])  # fmt: skip
        connection.executemany(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(number, e.seq, e.at, e.kind, e.id, e.ref, e.payload, e.attached, e.prev, e.hash)
             for e in entries],
        )  # fmt: skip
    connection.close()


def forged_from(home, seq, stop=None):
    """Give the chain recomputed from an entry on."""
    entries = entries_of(home)
    head, forged = Head(seq, entries[seq].prev, Instant(0)), []
    for entry in entries[seq:stop]:
        change = Draft("k", "forged", "", entry.at, b"{}")
        forged.append(next_entry(Chain(home.identity.ledger, "cli"), head, change))
        head = head_after(forged[-1])
    return forged


@pytest.mark.parametrize("seq", [0, 1, 200, 450, 598])
def test_one_entry_rewritten_with_its_own_hash_is_named(home, seq):
    put(home, forged_from(home, seq, seq + 1))
    assert place(home) == ("cli", seq)


@pytest.mark.parametrize("seq", [0, 1, 100, 300, 450, 599])
def test_a_chain_recomputed_from_an_entry_on_is_named_by_that_entry(home, seq):
    put(home, forged_from(home, seq))
    fault = verify_ledger(home).fault
    assert (fault.chain, fault.seq, fault.code) == ("cli", seq, FaultCode.REWRITTEN)


@pytest.mark.parametrize("seq", [0, 100, 300, 599])
def test_recomputed_with_its_leaves_it_is_named_by_the_signed_range(home, seq):
    sizes = checkpoint_sizes(home)
    put(home, forged_from(home, seq))
    leaves = b"".join(entry.hash for entry in entries_of(home))
    (home.checkpoints / "cli" / "leaves").write_bytes(leaves)
    first = max(size for size in (0, *sizes) if size <= seq)
    fault = verify_ledger(home).fault
    assert (fault.chain, fault.seq, fault.code) == ("cli", first, FaultCode.REWRITTEN)


def notes_of(home, name="cli"):
    """Give the checkpoints of a chain, each with its closing empty line."""
    parts = (home.checkpoints / name / "notes").read_text().split("\n\n")
    return [f"{body}\n\n{line}\n\n" for body, line in zip(parts[:-1:2], parts[1::2], strict=False)]


def checkpoint_sizes(home):
    return [int(note.split("\n")[1]) for note in notes_of(home)]


def write_notes(home, notes, name="cli"):
    (home.checkpoints / name / "notes").write_text("".join(notes))


def test_truncation_at_every_entry_is_found_before_the_last_checkpoint(home):
    sql(home, "PRAGMA journal_mode = delete")
    number = chain_number(home, "serve-1")
    for size in range(29, -1, -1):
        sql(home, "DELETE FROM attachments WHERE chain = ? AND seq = ?", number, size)
        sql(home, "DELETE FROM entries WHERE chain = ? AND seq = ?", number, size)
        fault = verify_ledger(home).fault
        assert (fault.chain, fault.seq, fault.code) == ("serve-1", size, FaultCode.TRUNCATED)


def test_sampled_truncations_of_a_long_chain_are_found(home):
    number = chain_number(home)
    for size in (599, 577, 386, 385, 193, 192, 3, 0):
        sql(home, "DELETE FROM attachments WHERE chain = ? AND seq >= ?", number, size)
        sql(home, "DELETE FROM entries WHERE chain = ? AND seq >= ?", number, size)
        assert place(home) == ("cli", size)


def test_a_restored_older_database_is_refused_by_the_writer_and_named(home, tmp_path):
    sql(home, "PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(home.database, tmp_path / "older.db")
    writer = opened_writer(home, "cli")
    writer.append(draft(5)).result()
    writer.close()
    assert verify_ledger(home).is_intact
    shutil.copy(tmp_path / "older.db", home.database)
    for name in ("ledger.db-wal", "ledger.db-shm"):
        (home.path / name).unlink(missing_ok=True)
    fault = verify_ledger(home).fault
    assert (fault.chain, fault.seq, fault.code) == ("cli", 600, FaultCode.TRUNCATED)
    with pytest.raises(LedgerRolledBack, match="600 to 600 were signed and are gone"):
        opened_writer(home, "cli")


def test_a_deleted_database_is_found_chain_by_chain(home):
    home.database.unlink()
    report = verify_ledger(home)
    assert [(each.fault.chain, each.fault.seq, each.fault.code) for each in report.chains] == [
        (name, 0, FaultCode.TRUNCATED) for name in ("alpha", "cli", "serve-1")
    ]


def test_every_sampled_bit_of_the_notes_is_found(home):
    path = home.checkpoints / "cli" / "notes"
    data = path.read_bytes()
    ends = range((len(data) - 4) * 8, len(data) * 8)
    for bit in (*ends, *random.Random(5).sample(range(len(data) * 8), 60)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        fault = verify_ledger(home).fault
        assert fault is not None, bit
        assert (fault.chain, fault.code) == ("cli", FaultCode.CHECKPOINT_BROKEN), bit


def test_removed_reordered_and_doubled_notes_are_found(home):
    notes = notes_of(home)
    assert len(notes) >= 3
    damaged = [
        [], notes[:1], notes[1:], notes[2:], [*notes[:1], *notes[2:]], notes[::-1],
        [notes[1], notes[0], *notes[2:]], [notes[0], *notes], [*notes, notes[-1]],
    ]  # fmt: skip
    for each in damaged:
        write_notes(home, each)
        assert not verify_ledger(home).is_intact, each


def test_notes_of_another_chain_are_refused(home):
    ours, theirs = notes_of(home, "cli"), notes_of(home, "alpha")
    write_notes(home, theirs, "cli")
    write_notes(home, ours, "alpha")
    codes = {each.chain: each.fault.code for each in verify_ledger(home).chains if each.fault}
    assert codes == dict.fromkeys(("alpha", "cli"), FaultCode.CHECKPOINT_BROKEN)


def test_notes_of_another_ledger_are_refused(home, bundle_home):
    write_notes(home, notes_of(bundle_home, "cli"), "cli")
    fault = verify_ledger(home).fault
    assert (fault.chain, fault.seq, fault.code) == ("cli", 0, FaultCode.CHECKPOINT_BROKEN)


def test_edited_leaves_are_named_by_their_entry(home):
    path = home.checkpoints / "cli" / "leaves"
    data = path.read_bytes()
    for seq in (0, 1, 300, 599):
        changed = bytearray(data)
        changed[seq * 32] ^= 1
        path.write_bytes(changed)
        fault = verify_ledger(home).fault
        assert (fault.chain, fault.seq, fault.code) == ("cli", seq, FaultCode.LEAVES_CHANGED)
    path.unlink()
    assert verify_ledger(home).fault.code == FaultCode.LEAVES_CHANGED


def test_a_database_of_another_ledger_is_refused(home, bundle_home):
    shutil.copy(bundle_home.database, home.database)
    assert not verify_ledger(home).is_intact


def test_damaged_pages_are_a_fault_and_never_a_crash(home):
    sql(home, "PRAGMA journal_mode = delete")
    data = home.database.read_bytes()
    random_ = random.Random(6)
    for _ in range(40):
        at = random_.randrange(0, len(data) - 64)
        home.database.write_bytes(data[:at] + random_.randbytes(64) + data[at + 64 :])
        verify_ledger(home)
    for size in (1, 100, 4096, len(data) // 2, len(data) - 1):
        home.database.write_bytes(data[:size])
        assert not verify_ledger(home).is_intact, size


@pytest.mark.parametrize("at", [18, 19])
def test_a_header_that_sqlite_refuses_is_damage_and_not_a_file_out_of_reach(home, at):
    sql(home, "PRAGMA journal_mode = delete")
    data = home.database.read_bytes()
    home.database.write_bytes(data[:at] + b"\xff" + data[at + 1 :])
    codes = {each.code for each in verify_ledger(home).faults}
    assert codes <= {FaultCode.DATABASE_DAMAGED, FaultCode.TRUNCATED}
    assert (FaultCode.DATABASE_DAMAGED in codes) is (at == 19)


FORGED = {
    "no signature": {"signature": b""},
    "another key": None,
    "another kind": {"kind": "prices"},
    "another version": {"schema_version": 2},
    "another key's id": {"key_id": "ed25519:" + "0" * 32},
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_snapshot_that_was_recorded_is_named(home, bundle_home, name):
    signer = bundle_home if FORGED[name] is None else home
    made = FORM.make(Weights("forged", 9), home.identity.ledger, signer.signing_key())
    writer = opened_writer(home, "cli")
    writer.append(snapshot_draft(replace(made, **(FORGED[name] or {})), Instant(0))).result()
    writer.close()
    fault = verify_ledger(home).fault
    assert (fault.chain, fault.seq, fault.code) == ("cli", 600, FaultCode.SNAPSHOT_FORGED)


def test_a_snapshot_of_another_ledger_that_was_recorded_is_named(home):
    made = FORM.make(Weights("forged", 9), "f" * 32, home.signing_key())
    writer = opened_writer(home, "cli")
    writer.append(snapshot_draft(made, Instant(0))).result()
    writer.close()
    assert verify_ledger(home).fault.code is FaultCode.SNAPSHOT_FORGED


@pytest.mark.parametrize("seq", [0, 2, 300])
def test_the_bundle_of_an_edited_database_names_the_same_entry(home, tmp_path, seq):
    sql(home, "UPDATE entries SET ref = 'x' WHERE chain = ? AND seq = ?", chain_number(home), seq)
    data = export_bundle(Home(home.path), tmp_path / "b").path.read_bytes()
    fault = audit(io.BytesIO(data))["fault"]
    assert (fault["chain"], fault["seq"]) == ("cli", seq)
