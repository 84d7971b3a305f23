"""Whoever may write the PostgreSQL database, but has no key, cannot change the ledger unseen."""

import base64
import hashlib

import psycopg
import pytest
from tests.durability.test_postgres_ledger import Writing

from pointsman.audit.verify import verify_ledger
from pointsman.kernel.entry import Chain, Draft, Entry, entry_bytes
from pointsman.kernel.instant import Instant
from pointsman.kernel.merkle import leaf_hash
from pointsman.kernel.verification import FaultCode
from pointsman.storage.home import open_home

ENTRIES = 6


@pytest.fixture
def home(tmp_path, postgres_url):
    home = open_home(tmp_path / "home", store=postgres_url)
    with Writing(home) as writing:
        for number in range(ENTRIES):
            writing.put(f"e{number}", b"attached %d" % number)
    assert verify_ledger(home).is_intact
    return home


@pytest.fixture
def sql(postgres_url):
    """Run statements as whoever owns the database."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("SET search_path = pointsman_ledger")
        yield lambda statement, *values: connection.execute(statement, values)


def fault(home):
    report = verify_ledger(home)
    assert not report.is_intact
    return report.fault.code, report.fault.seq


@pytest.mark.parametrize(
    ("column", "value"),
    [("payload", "'x'"), ("kind", "'k'"), ("ref", "'r'"), ("at_us", "9"), ("id", "'other'")],
)
def test_a_changed_entry_is_named(home, sql, column, value):
    sql(f"UPDATE entries SET {column} = {value} WHERE seq = 3")
    assert fault(home) == (FaultCode.ENTRY_CHANGED, 3)


def test_an_entry_rewritten_with_its_hash_is_named(home, sql):
    """The attacker makes everything fit that needs no key: hashes, links, the kept leaves."""
    chain = Chain(home.identity.ledger, "cli")
    rows = sql(
        "SELECT seq, at_us, kind, id, ref, payload, attached, prev, hash FROM entries ORDER BY seq"
    ).fetchall()
    before = None
    for row in rows:
        entry = Entry(*row)
        if entry.seq == 3:
            entry = Entry(3, *row[1:5], b"rewritten", *row[6:])
        if before is not None:
            entry = Entry(*[*rows_of(entry)[:7], before, b""])
        digest = leaf_hash(entry_bytes(chain.prefix, entry))
        sql(
            "UPDATE entries SET payload = %s, prev = %s, hash = %s WHERE seq = %s",
            entry.payload,
            entry.prev,
            digest,
            entry.seq,
        )
        before = digest
    assert fault(home) == (FaultCode.REWRITTEN, 3)
    sql("UPDATE checkpoints SET leaves = (SELECT string_agg(hash, '' ORDER BY seq) FROM entries)")
    code, _ = fault(home)
    assert code is FaultCode.REWRITTEN


def rows_of(entry):
    names = ("seq", "at", "kind", "id", "ref", "payload", "attached", "prev", "hash")
    return [getattr(entry, name) for name in names]


def test_a_truncated_chain_is_found_also_without_the_databases_checkpoints(home, sql):
    sql("DELETE FROM entries WHERE seq > 3")
    sql("DELETE FROM attachments WHERE seq > 3")
    assert fault(home) == (FaultCode.TRUNCATED, 4)
    sql("DELETE FROM checkpoints")
    assert fault(home) == (FaultCode.TRUNCATED, 4)


def test_a_chain_cut_past_its_last_checkpoint_is_found(home, sql):
    with Writing(home) as writing:
        writing.put("later")
        sql("DELETE FROM entries WHERE id = 'later'")
        assert fault(home)[0] is FaultCode.END_CHANGED
        sql("UPDATE chains SET stamp = ''")
        assert fault(home)[0] is FaultCode.END_CHANGED
        # A writer does not sign what it did not write.
        with pytest.raises(Exception, match="what is stored is not what was written"):
            writing.writer.close()
        writing.writer = Closed()


class Closed:
    def close(self):
        """Nothing is left to close."""


def test_a_removed_entry_is_named(home, sql):
    sql("DELETE FROM entries WHERE seq = 2")
    code, seq = fault(home)
    assert (code, seq) in {(FaultCode.ENTRY_UNLINKED, 2), (FaultCode.ENTRY_MISSING, 2)}


def test_an_entry_of_no_chain_is_found(home, sql):
    sql("INSERT INTO entries SELECT 99, 0, 1, 'decision.turn', 'foreign', '', '', '', '', '' ")
    code, _ = fault(home)
    assert code is FaultCode.ENTRY_UNLINKED


def test_an_attachment_of_no_entry_is_found(home, sql):
    sql("INSERT INTO attachments VALUES (1, 99, 0, 'x')")
    assert fault(home)[0] is FaultCode.VALUE_CHANGED


def test_an_appended_entry_that_no_writer_signed_is_found(home, sql):
    chain = Chain(home.identity.ledger, "cli")
    (last,) = sql("SELECT hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    seq = ENTRIES + 1
    draft = Draft("decision.turn", "forged", "", Instant(9), b"{}")
    entry = Entry(seq, draft.at, draft.kind, draft.id, "", draft.payload, b"", last, b"")
    digest = leaf_hash(entry_bytes(chain.prefix, entry))
    sql(
        "INSERT INTO entries VALUES (1, %s, 9, 'decision.turn', 'forged', '', %s, '', %s, %s)",
        seq,
        draft.payload,
        last,
        digest,
    )
    assert fault(home)[0] in {FaultCode.END_CHANGED, FaultCode.UNSIGNED}


def test_a_changed_attachment_is_named(home, sql):
    sql("UPDATE attachments SET body = 'x' WHERE seq = 4")
    assert fault(home) == (FaultCode.VALUE_CHANGED, 4)
    sql("DELETE FROM attachments WHERE seq = 4")
    assert fault(home) == (FaultCode.VALUE_MISSING, 4)


def test_a_forged_checkpoint_is_found(home, sql):
    (note,) = sql("SELECT note FROM checkpoints ORDER BY size DESC LIMIT 1").fetchone()
    digest = hashlib.sha256(b"another head").digest()
    lines = note.split("\n")
    lines[2] = base64.b64encode(digest).decode()
    sql("UPDATE checkpoints SET note = %s", "\n".join(lines))
    assert fault(home)[0] is FaultCode.CHECKPOINT_BROKEN


def test_a_database_that_claims_another_ledger_is_found(home, sql):
    sql("UPDATE meta SET value = %s", "0" * 32)
    assert fault(home)[0] is FaultCode.DATABASE_DAMAGED


def test_tables_that_are_gone_are_a_fault(home, sql):
    sql("DROP TABLE attachments")
    report = verify_ledger(home)
    assert FaultCode.DATABASE_DAMAGED in {each.code for each in report.faults}


def test_a_fork_cannot_be_stored(home, sql):
    """Two entries after the same one, or in the same place, whoever tries."""
    copied = "at_us, kind, id, ref, payload, attached"
    for place in ("seq, {} , prev, 'h'::bytea", "seq + 1, {} , prev, 'h'::bytea"):
        with pytest.raises(psycopg.errors.UniqueViolation):
            sql(
                f"INSERT INTO entries SELECT chain, {place.format(copied)} FROM entries"
                f" WHERE seq = {ENTRIES}"
            )
