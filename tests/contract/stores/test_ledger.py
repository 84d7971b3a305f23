"""The ledger: what was acknowledged is there, in one chain a writer, and verifies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from pointsman.audit.verify import verify_ledger
from pointsman.errors import MissingSnapshot
from pointsman.kernel.entry import Draft, Entry
from pointsman.kernel.instant import Instant
from pointsman.kernel.verification import FaultCode
from pointsman.recording.recorder import Recorder
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.ledger import Receipt

OPENING = Draft("ledger.opened", "opening", "", Instant(1), b"{}")


@pytest.fixture
def recorder(home: Home) -> Iterator[Recorder]:
    with closing(Recorder(home, "cli", OPENING)) as found:
        yield found


@pytest.fixture
def ledger(home: Home, recorder: Recorder) -> Iterator[LedgerReader]:
    assert recorder.health.is_writable
    with closing(LedgerReader(home.database)) as found:
        yield found


def draft(name: str, at: int = 2, *, kind: str = "decision.turn", ref: str = "") -> Draft:
    return Draft(kind, name, ref, Instant(at), b'{"n":1}', (b"facts of " + name.encode(), b""))


def appended(recorder: Recorder, *drafts: Draft) -> list[Receipt]:
    return [each.result() for each in [recorder.append(draft) for draft in drafts]]


def ids(entries: Iterator[Entry]) -> list[str]:
    return [each.id for each in entries]


def test_what_is_acknowledged_is_read_back_as_it_was(
    recorder: Recorder, ledger: LedgerReader
) -> None:
    receipts = appended(recorder, draft("a"), draft("b"))
    number = ledger.chains()["cli"]
    assert [*ledger.chain_entries(number, 1)] == [each.entry for each in receipts]
    assert ledger.size(number) == 3
    (stored,) = ledger.with_id("b")
    assert ledger.attachments(stored) == [b"facts of b", b""]
    assert [type(each) for each in (stored.entry.payload, stored.entry.hash)] == [bytes, bytes]


def test_entries_are_found_by_kind_id_and_what_they_belong_to(
    recorder: Recorder, ledger: LedgerReader
) -> None:
    appended(
        recorder,
        draft("a", 5, ref="job"),
        draft("b", 5, kind="decision.turn.fallback", ref="job"),
        draft("c", 7),
        draft("d", 8, kind="decisions"),
    )
    assert [each.entry.id for each in ledger.of_kind("decision.")] == ["a", "b", "c"]
    assert [each.entry.id for each in ledger.of_kind("decision.turn", Instant(6))] == ["c"]
    assert [each.entry.id for each in ledger.with_ref("job")] == ["a", "b"]
    assert ledger.with_ref("") == []
    newest = ledger.newest("decision.turn")
    assert newest is not None
    assert newest.entry.id == "c"
    assert [each.entry.id for each in ledger.recent("decision.turn", Instant(6), 9)] == ["a"]
    assert ledger.newest("nothing") is None


def test_every_writer_has_a_chain_of_its_own(home: Home, recorder: Recorder) -> None:
    with closing(Recorder(home, "cli", OPENING)) as other:
        assert (recorder.chain, other.chain) == ("cli", "cli-2")
        appended(recorder, draft("a"))
        appended(other, draft("b"))
    with closing(LedgerReader(home.database)) as reader:
        chains = reader.chains()
        assert ids(reader.chain_entries(chains["cli"])) == ["opening", "a"]
        assert ids(reader.chain_entries(chains["cli-2"])) == ["opening", "b"]
    with closing(Recorder(home, "cli", OPENING)) as again:
        assert again.chain == "cli-2", "a chain is free when its writer has closed"
        appended(again, draft("c"))
    assert verify_ledger(home).is_intact


def test_a_ledger_verifies_with_everything_signed(home: Home, recorder: Recorder) -> None:
    appended(recorder, *(draft(f"e{number}") for number in range(300)))
    recorder.close()
    report = verify_ledger(home)
    assert (report.is_intact, report.entries) == (True, 301)
    assert report.chains[0].signed == 301


def test_entries_of_many_threads_form_one_chain(home: Home, recorder: Recorder) -> None:
    def work(part: int) -> None:
        appended(recorder, *(draft(f"{part}-{number}") for number in range(25)))

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    recorder.close()
    assert (verify_ledger(home).is_intact, verify_ledger(home).entries) == (True, 101)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("UPDATE entries SET payload = x'7b7d' WHERE seq = 2", FaultCode.ENTRY_CHANGED),
        ("DELETE FROM entries WHERE seq = 2", FaultCode.TRUNCATED),
        (
            "UPDATE attachments SET body = x'00' WHERE seq = 1 AND place = 0",
            FaultCode.VALUE_CHANGED,
        ),
    ],
)
def test_what_somebody_changed_is_found(
    home: Home, recorder: Recorder, change: str, code: FaultCode
) -> None:
    appended(recorder, draft("a"), draft("b"))
    recorder.close()
    assert verify_ledger(home).is_intact
    connection = home.database.writing("schema.sql")
    connection.execute(change)
    connection.close()
    report = verify_ledger(home)
    assert not report.is_intact
    assert report.fault is not None
    assert report.fault.code is code


def test_what_is_not_stored_is_not_made_up(recorder: Recorder, ledger: LedgerReader) -> None:
    (receipt,) = appended(recorder, draft("a"))
    assert ledger.with_id("unknown") == []
    with pytest.raises(MissingSnapshot):
        ledger.snapshot(f"sha256:{receipt.entry.hash.hex()}")


def test_the_newest_entry_that_mentions_some_bytes_is_found(
    recorder: Recorder, ledger: LedgerReader
) -> None:
    told = [
        Draft("outcome", "a", "", Instant(5), b'{"request_id":"req_1"}'),
        Draft("outcome", "b", "", Instant(7), b'{"request_id":"req_1"}'),
        Draft("outcome", "c", "", Instant(8), b'{"request_id":"req_12"}'),
        Draft("decision.turn", "d", "", Instant(9), b'{"request_id":"req_1"}'),
    ]
    appended(recorder, *told)
    newest = ledger.mentioning("outcome", b'"request_id":"req_1"')
    assert newest is not None
    assert newest.entry.id == "b"
    assert ledger.mentioning("outcome", b'"request_id":"req_%"') is None
