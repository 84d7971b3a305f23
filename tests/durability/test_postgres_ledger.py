"""The ledger's writer on PostgreSQL: durable, alone in its chain, and honest about lost answers."""

import shutil
from concurrent.futures import Future, wait
from pathlib import Path

import psycopg
import pytest
from psycopg.adapt import Transformer
from psycopg.pq import Format
from tests.durability.postgres_wire import LossyWire
from tests.gateway.house import eventually
from tests.servers import PostgresServer

from pointsman.audit.verify import verify_ledger
from pointsman.errors import LedgerBroken, LedgerRolledBack, LedgerUnavailable
from pointsman.kernel.entry import Chain, Draft
from pointsman.kernel.instant import Instant
from pointsman.storage.home import Home, open_home
from pointsman.storage.postgres.connection import (
    BYTEA_ARRAY,
    INT8,
    INT8_ARRAY,
    TEXT_ARRAY,
    bytea_array,
    int8_array,
    int8_value,
    text_array,
)
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.chain_rows import KeptText
from pointsman.storage.writer.ledger import LedgerWriter

OPENING = Draft("ledger.opened", "opening", "", Instant(1), b"{}")


class Writing:
    """A leased chain and its writer, as a recorder opens them."""

    def __init__(self, home: Home, writer: str = "cli") -> None:
        self.home = home
        self.leased = home.ledger(writer)
        chain = Chain(home.identity.ledger, self.leased.chain)
        self.writer = LedgerWriter(self.leased.place, chain, home.signing_key(), OPENING)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.writer.close()
        self.leased.release()

    def put(self, name, *attachments):
        draft = Draft("decision.turn", name, "", Instant(2), name.encode(), attachments)
        return self.writer.append(draft).result().entry


@pytest.fixture
def home(tmp_path, postgres_url):
    return open_home(tmp_path / "home", store=postgres_url)


def ids(home, chain="cli"):
    reader = LedgerReader(home.database)
    try:
        return [entry.id for entry in reader.chain_entries(reader.chains()[chain])]
    finally:
        reader.close()


def cut_off(url):
    """End every session of a database but this one."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_what_is_acknowledged_is_there_for_everybody(home):
    with Writing(home) as writing:
        writing.put("a", b"one", b"two")
        assert ids(home) == ["opening", "a"]
    report = verify_ledger(home)
    assert report.is_intact
    assert (report.entries, report.chains[0].entries - report.chains[0].signed) == (2, 0)


def test_a_chain_goes_on_where_the_writer_before_left_it(home):
    for name in ("a", "b", "c"):
        with Writing(home) as writing:
            writing.put(name)
    assert ids(home) == ["opening", "a", "b", "c"]
    assert verify_ledger(home).is_intact


def test_a_group_is_one_statement_and_keeps_its_order(home):
    with Writing(home) as writing:
        drafts = [Draft("k", f"e{n}", "r", Instant(n), b"%?:x", (b"", b"x")) for n in range(500)]
        wait([writing.writer.append(draft) for draft in drafts])
    assert ids(home) == ["opening", *(f"e{n}" for n in range(500))]
    assert verify_ledger(home).is_intact


def kept_texts(url):
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT digest, text FROM pointsman_content.contents ORDER BY 1")
        return [(digest, bytes(text)) for digest, text in rows]


def test_a_text_is_durable_with_its_entry_in_one_transaction(home, postgres_url):
    with Writing(home) as writing:
        assert writing.writer.keeps_texts
        told = [Future() for _ in range(3)]
        for number, each in enumerate(told):
            draft = Draft("k", f"e{number}", "", Instant(2), b"{}")
            text = KeptText(f"d{number % 2}", "full", b"\0\xff")
            writing.writer.hand_in(draft, each, text)
        assert [each.result(60).entry.id for each in told] == ["e0", "e1", "e2"]
    assert kept_texts(postgres_url) == [("d0", b"\0\xff"), ("d1", b"\0\xff")]
    with psycopg.connect(postgres_url) as connection:
        (pairs,) = connection.execute(
            "SELECT count(*) FROM pointsman_content.contents AS c"
            " JOIN pointsman_ledger.entries AS e ON e.xmin = c.xmin WHERE e.id IN ('e0', 'e1')"
        ).fetchone()
    assert pairs >= 2
    assert verify_ledger(home).is_intact


def test_a_text_that_cannot_be_kept_takes_its_entry_along(home, postgres_url):
    with Writing(home) as writing:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("ALTER TABLE pointsman_content.contents RENAME TO away")
            told = Future()
            draft = Draft("k", "lost", "", Instant(2), b"{}")
            writing.writer.hand_in(draft, told, KeptText("d", "full", b"x"))
            with pytest.raises((LedgerUnavailable, LedgerBroken)):
                told.result(60)
            connection.execute("ALTER TABLE pointsman_content.away RENAME TO contents")
        eventually(lambda: writing.writer.health.is_writable)
        writing.put("a")
    assert ids(home) == ["opening", "a"]
    assert kept_texts(postgres_url) == []


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_arrays_arrive_as_they_were_sent(postgres_url, count):
    numbers = [(-1) ** each * each << 40 for each in range(count)]
    texts = [f'ä{each}"{{}},\\' for each in range(count)]
    blobs = [bytes([each % 256]) * (each % 5) for each in range(count)]
    values = [int8_array(numbers), text_array(texts), bytea_array(blobs), int8_value(-count)]
    with psycopg.connect(postgres_url) as connection:
        oids = (INT8_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, INT8)
        found = connection.pgconn.exec_params(
            b"SELECT $1, $2, $3, $4", values, oids, [1] * 4, result_format=1
        )
        read = [Transformer(connection).get_loader(oid, Format.BINARY).load for oid in oids]
        told = [load(found.get_value(0, at)) for at, load in enumerate(read)]
    assert told == [numbers, texts, blobs, -count]


def test_commits_wait_for_the_disk_whatever_the_database_says(home, postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    connection = home.database.writing("schema.sql")
    assert connection.execute("SELECT current_setting('synchronous_commit')").get == "on"
    connection.close()


def test_a_second_writer_takes_a_chain_of_its_own(home):
    with Writing(home) as first, Writing(home) as second:
        assert (first.leased.chain, second.leased.chain) == ("cli", "cli-2")
        first.put("a")
        second.put("b")
    with Writing(home) as third:
        assert third.leased.chain == "cli"
    assert verify_ledger(home).is_intact


def test_a_writer_that_was_cut_off_takes_its_lease_anew_before_it_sends_anything(
    home, postgres_url
):
    with Writing(home) as writing:
        writing.put("a")
        cut_off(postgres_url)
        writing.put("b")
        assert writing.writer.health.is_writable
    assert ids(home) == ["opening", "a", "b"]
    assert verify_ledger(home).is_intact


def test_a_writer_whose_chain_was_taken_meanwhile_goes_on_in_another(home, postgres_url):
    with Writing(home) as first:
        first.put("a")
        cut_off(postgres_url)
        with Writing(home) as second:
            assert second.leased.chain == "cli"
            second.put("b")
            first.put("c")
            assert first.writer.chain.name == "cli-2"
            second.put("d")
    assert ids(home) == ["opening", "a", "b", "d"]
    assert ids(home, "cli-2") == ["opening", "c"]
    assert verify_ledger(home).is_intact


def test_a_commit_whose_answer_was_lost_is_found_and_acknowledged(
    tmp_path, postgres_server, postgres_url
):
    folder = Path(postgres_server.url().rpartition("=")[2])
    with LossyWire(folder) as wire:
        home = open_home(tmp_path / "home", store=wire.url(postgres_url))
        with Writing(home) as writing:
            writing.put("a")
            wire.lose_next_answer()
            entry = writing.put("b")
            assert wire.lost.is_set()
            assert entry.id == "b"
            writing.put("c")
        direct = open_home(tmp_path / "home", store=postgres_url)
        assert ids(direct) == ["opening", "a", "b", "c"]
        assert verify_ledger(direct).is_intact


def test_a_server_that_dies_is_unavailable_until_it_is_back(tmp_path):
    server = PostgresServer()
    try:
        home = open_home(tmp_path / "home", store=server.fresh())
        with Writing(home) as writing:
            writing.put("a")
            server.kill()
            with pytest.raises(LedgerUnavailable) as raised:
                writing.put("b")
            assert "nothing was acknowledged" in raised.value.message
            server.start()
            assert taken(writing, "c").seq == ids(home).index("c")
        assert verify_ledger(home).is_intact
        assert "a" in ids(home)
    finally:
        server.close()


def taken(writing, name):
    """Ask until the writer takes an entry again."""
    while True:
        try:
            return writing.put(name)
        except LedgerUnavailable:
            continue


def test_a_database_of_another_ledger_is_refused(home, tmp_path, postgres_url):
    with Writing(home):
        pass
    other = open_home(tmp_path / "other", store=postgres_url)
    with pytest.raises(LedgerBroken, match="belongs to ledger"):
        Writing(other)


def test_a_database_emptied_under_its_checkpoints_is_refused(
    home, tmp_path, postgres_server, postgres_url
):
    with Writing(home):
        pass
    emptied = postgres_server.fresh()
    with pytest.raises(LedgerRolledBack, match="checkpoints of cli"):
        Writing(open_home(tmp_path / "home", store=emptied))
    postgres_server.drop(emptied)


def test_a_database_older_than_the_homes_checkpoints_is_refused(
    home, tmp_path, postgres_server, postgres_url
):
    """A backup that was put back, or a replica that had not seen everything."""
    with Writing(home) as writing:
        writing.put("a")
    backup = postgres_server.fresh()
    name, copy = (url.partition("?")[0].rpartition("/")[2] for url in (postgres_url, backup))
    postgres_server.drop(backup)
    cut_off(postgres_url)
    postgres_server.run(f"CREATE DATABASE {copy} TEMPLATE {name}")
    with Writing(home) as writing:
        writing.put("b")
    restored = open_home(tmp_path / "home", store=backup)
    with pytest.raises(LedgerRolledBack):
        Writing(restored)
    assert not verify_ledger(restored).is_intact
    postgres_server.drop(backup)


def test_a_replica_without_the_homes_checkpoints_reads_those_of_the_database(
    home, tmp_path, postgres_url
):
    with Writing(home) as writing:
        writing.put("a")
    replica = tmp_path / "replica"
    replica.mkdir(mode=0o700)
    shutil.copy(tmp_path / "home" / "identity.json", replica)
    shutil.copytree(tmp_path / "home" / "keys", replica / "keys")
    there = open_home(replica, store=postgres_url)
    assert verify_ledger(there).is_intact
    with Writing(there) as writing:
        writing.put("b")
    assert ids(home) == ["opening", "a", "b"]
    assert verify_ledger(home).is_intact
    assert verify_ledger(there).is_intact


def test_a_home_that_cannot_be_written_keeps_its_checkpoints_in_the_database(home, tmp_path):
    with Writing(home) as writing:
        # Nobody, not even root, makes folders there.
        (tmp_path / "home" / "checkpoints").symlink_to("/sys/kernel")
        writing.put("a")
    (tmp_path / "home" / "checkpoints").unlink()
    report = verify_ledger(home)
    assert report.is_intact
    assert report.chains[0].entries - report.chains[0].signed == 0


def test_a_reader_survives_that_the_server_was_started_again(tmp_path):
    server = PostgresServer()
    try:
        home = open_home(tmp_path / "home", store=server.fresh())
        with Writing(home):
            pass
        assert ids(home) == ["opening"]
        server.kill()
        server.start()
        assert ids(home) == ["opening"]
    finally:
        server.close()


def test_verifying_sees_one_moment_whatever_a_writer_adds(home, monkeypatch):
    with Writing(home) as writing:
        writing.put("a")
        reader = LedgerReader(home.database)
        reader._connection.freeze()
        assert len([*reader.chain_entries(1)]) == 2
        writing.put("b")
        assert len([*reader.chain_entries(1)]) == 2
        reader.close()
        assert len(ids(home)) == 3
