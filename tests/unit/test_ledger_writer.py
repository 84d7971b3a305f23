import os
import stat
import threading
import time
from concurrent.futures import Future
from itertools import pairwise
from queue import SimpleQueue
from types import SimpleNamespace

import apsw
import pytest
from msgspec.structs import replace

from pointsman.errors import InputError, LedgerBroken, LedgerUnavailable
from pointsman.kernel.checkpoint import EVERY_ENTRIES, EVERY_SECONDS
from pointsman.kernel.entry import Chain, Draft
from pointsman.kernel.instant import Instant
from pointsman.kernel.signing import SigningKey
from pointsman.kernel.verification import Pass
from pointsman.storage.sqlite.ledger import WritePlace
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer import ledger as module
from pointsman.storage.writer.checkpoints import SYNC_LEAVES_EVERY, CheckpointFolder
from pointsman.storage.writer.ledger import TAIL_ENTRIES, LedgerWriter

KEY = SigningKey(bytes(range(32)))
CHAIN = Chain("0123456789abcdef" * 2, "cli")
OPENING = Draft("ledger.opened", "opening", "", Instant(1), b"{}")


class Time:
    """Stands still until it is moved."""

    def __init__(self):
        self.now = 50.0

    def __call__(self):
        return self.now


class Ledger:
    """A ledger in a folder of its own."""

    def __init__(self, folder):
        self.place = WritePlace(folder / "ledger.db", folder / "checkpoints")
        self.folder = CheckpointFolder(self.place.checkpoints, CHAIN)
        self.time = Time()
        self.writer = self.opened()

    def opened(self):
        return LedgerWriter(self.place, CHAIN, KEY, OPENING, monotonic=self.time)

    def append(self, count=1, at=2):
        drafts = [Draft("decision", f"entry-{n}", "", Instant(at), b"{}") for n in range(count)]
        return [future.result() for future in [self.writer.append(draft) for draft in drafts]]

    def signed(self):
        """Give how far the checkpoints reach, once the writer has rested after its last group."""
        checkpoints = self.folder.all([KEY])
        return checkpoints[-1].size if checkpoints else 0

    def entries(self):
        reader = LedgerReader(self.place.database)
        entries = list(reader.chain_entries(reader.chains()[CHAIN.name]))
        reader.close()
        return entries

    def verified(self):
        return Pass(CHAIN, self.folder.all([KEY]), self.folder.leaves()).run(self.entries())


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path)
    yield ledger
    ledger.writer.close()


def test_chain_begins_with_its_opening_once(ledger):
    ledger.writer.close()
    ledger.writer = ledger.opened()
    assert [entry.id for entry in ledger.entries()] == ["opening"]


def test_receipt_says_where_the_stored_entry_stands(ledger):
    receipts = ledger.append(5)
    assert [receipt.entry.seq for receipt in receipts] == [1, 2, 3, 4, 5]
    assert {receipt.chain for receipt in receipts} == {"cli"}
    assert ledger.entries()[1:] == [receipt.entry for receipt in receipts]


def test_attachments_are_stored_with_their_entry(ledger):
    draft = Draft("decision", "with", "", Instant(2), b"{}", (b"facts", b"", b"more"))
    ledger.writer.append(draft).result()
    reader = LedgerReader(ledger.place.database)
    assert reader.attachments(reader.with_id("with")[0]) == [b"facts", b"", b"more"]
    reader.close()


def test_chain_time_never_goes_back(ledger):
    times = [ledger.append(at=at)[0].entry.at for at in (10, 5, 0, 11, 7)]
    assert times == [10, 10, 10, 11, 11]
    ledger.writer.close()
    ledger.writer = ledger.opened()
    assert ledger.append(at=3)[0].entry.at == 11


def test_draft_that_cannot_be_recorded_harms_no_other(ledger):
    with pytest.raises(InputError):
        ledger.writer.append(Draft("decision", "name\n", "", Instant(2), b"{}"))
    assert ledger.append()[0].entry.seq == 1


def test_clean_close_signs_everything(ledger):
    ledger.append(3)
    assert ledger.signed() == 0
    ledger.writer.close()
    assert ledger.signed() == 4
    assert ledger.verified().signed == 4
    ledger.writer = ledger.opened()


def test_never_more_than_256_entries_are_unsigned(ledger):
    for size in (1, 64, 3, 200, 64, 64, 64, 1, 300, 64, 64):
        ledger.append(size)
    ledger.writer.close()
    sizes = [0, *(checkpoint.size for checkpoint in ledger.folder.all([KEY]))]
    assert sizes[-1] == 890
    assert max(later - earlier for earlier, later in pairwise(sizes)) <= EVERY_ENTRIES
    assert ledger.verified().fault is None
    ledger.writer = ledger.opened()


def test_never_more_than_256_are_unsigned_where_no_rest_comes_between_groups(ledger):
    writer = ledger.writer
    writer._group._housekeep = lambda: None
    for number in range(9):
        drafts = [Draft("k", f"{number}-{each}", "", Instant(1), b"{}") for each in range(64)]
        receipts = writer._group.commit_alone(lambda: writer._commit(writer._chain_group(drafts)))  # noqa: B023 - called at once
        assert len(receipts) == 64
    writer.close()
    sizes = [0, *(checkpoint.size for checkpoint in ledger.folder.all([KEY]))]
    assert sizes[-1] == 9 * 64 + 1
    assert max(later - earlier for earlier, later in pairwise(sizes)) <= EVERY_ENTRIES
    assert ledger.verified().fault is None
    ledger.writer = ledger.opened()


def test_a_hurried_group_is_joined_here_and_written_by_the_thread(ledger):
    writer, settled, writing = ledger.writer, [Future(), Future()], SimpleQueue()
    ledger.append()
    deadline = time.monotonic() + 60
    while not writer._group.is_idle and time.monotonic() < deadline:
        time.sleep(0.001)
    writer._group._policy.serve_loop(lambda: None, lambda work: None, lambda: False)
    for number, each in enumerate(settled):
        waiter = SimpleNamespace(set_result=each.set_result, set_exception=each.set_exception)
        writer.hand_in(Draft("k", f"d-{number}", "", Instant(9), b"{}"), waiter)
    assert writer.begin_commit(writing)
    writing.get(timeout=60)
    assert [each.result(60).entry.id for each in settled] == ["d-0", "d-1"]
    assert ledger.append()[0].entry.seq == settled[1].result().entry.seq + 1


class Held:
    """A writer whose commit is held: what is handed in meanwhile is made ready behind it."""

    def __init__(self, ledger, monkeypatch):
        self.ledger, self.error = ledger, None
        self.entered, self.may_pass = threading.Event(), threading.Event()
        rows = ledger.writer._rows
        self.append = rows.append
        monkeypatch.setattr(rows, "append", self._held)
        ledger.writer._group._policy.serve_loop(lambda: None, lambda work: work(), lambda: False)
        self.first = self.handed_in("first")
        assert self.entered.wait(60)

    def _held(self, *group):
        if not self.entered.is_set():
            self.entered.set()
            assert self.may_pass.wait(60)
            if self.error is not None:
                raise self.error
        self.append(*group)

    def handed_in(self, name):
        waiter: Future = Future()
        told = SimpleNamespace(set_result=waiter.set_result, set_exception=waiter.set_exception)
        self.ledger.writer.hand_in(Draft("k", name, "", Instant(9), b"{}"), told)
        return waiter


def test_nothing_is_prepared_while_a_server_is_waited_for(ledger, monkeypatch):
    """Its connection would be asked whether it is lost, and an answer looks like a farewell."""
    held = Held(ledger, monkeypatch)
    monkeypatch.setattr(ledger.writer._rows, "is_remote", True)
    second = held.handed_in("second")
    assert not ledger.writer.begin_commit(SimpleQueue())
    assert ledger.writer._group._prepared is None
    held.may_pass.set()
    assert [each.result(60).entry.id for each in (held.first, second)] == ["first", "second"]


def test_a_group_is_joined_behind_one_that_is_still_written(ledger, monkeypatch):
    held = Held(ledger, monkeypatch)
    second = held.handed_in("second")
    ledger.writer.begin_commit(SimpleQueue())
    ready = ledger.writer._group._prepared.content
    assert ready.entries[0].prev != ledger.writer._head.hash, "that of the one before it"
    held.may_pass.set()
    assert second.result(60).entry == ready.entries[0]
    assert second.result().entry.prev == held.first.result().entry.hash
    ledger.append()
    assert Pass(CHAIN, []).run(ledger.entries()).fault is None


@pytest.mark.parametrize("error", [apsw.FullError("disk full"), OSError("no disk")])
def test_what_was_joined_behind_a_group_that_failed_is_not_written_as_it_was(
    ledger, monkeypatch, error
):
    held = Held(ledger, monkeypatch)
    held.error = error
    second = held.handed_in("second")
    ledger.writer.begin_commit(SimpleQueue())
    held.may_pass.set()
    with pytest.raises(LedgerUnavailable):
        held.first.result(60)
    with pytest.raises(LedgerUnavailable):
        second.result(60)
    ledger.time.now += 1
    third = ledger.append()[0].entry
    assert (third.seq, [each.id for each in ledger.entries()]) == (1, ["opening", "entry-0"])
    assert Pass(CHAIN, []).run(ledger.entries()).fault is None


def test_what_was_joined_behind_a_group_that_failed_finds_its_place_in_time(ledger, monkeypatch):
    held = Held(ledger, monkeypatch)
    held.error = apsw.FullError("disk full")
    second = held.handed_in("second")
    ledger.writer.begin_commit(SimpleQueue())
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    held.may_pass.set()
    with pytest.raises(LedgerUnavailable):
        held.first.result(60)
    assert second.result(60).entry.seq == 1
    ledger.append()
    assert [each.id for each in ledger.entries()] == ["opening", "second", "entry-0"]
    assert Pass(CHAIN, []).run(ledger.entries()).fault is None


def test_nobody_hurries_where_a_checkpoint_is_due_first(ledger, monkeypatch):
    held = Held(ledger, monkeypatch)
    waiters = [held.handed_in(f"n-{number}") for number in range(3)]
    tip = ledger.writer._tip
    ledger.writer._tip = replace(tip, size=EVERY_ENTRIES - 2)
    ledger.writer.begin_commit(SimpleQueue())
    assert ledger.writer._group._prepared is None, "left to the thread, which signs"
    ledger.writer._tip = tip
    held.may_pass.set()
    assert [each.result(60).entry.seq for each in waiters] == [2, 3, 4]


def test_a_ledger_that_is_down_is_not_hurried(ledger):
    ledger.writer._cause = "no disk"
    assert not ledger.writer.begin_commit(SimpleQueue())
    ledger.writer._cause = ""


def test_entries_are_signed_after_five_seconds(ledger):
    ledger.append()
    ledger.time.now += EVERY_SECONDS - 0.001
    ledger.append()
    ledger.append()
    assert ledger.signed() == 0
    ledger.time.now += 0.001
    ledger.append()
    ledger.append()
    assert ledger.signed() == 5, "the group after which five seconds had passed was signed with it"


def test_what_a_crash_left_unsigned_is_signed_at_the_next_start(ledger):
    ledger.append(7)
    ledger.writer._group.close()
    ledger.writer._rows.close()
    ledger.writer = ledger.opened()
    assert ledger.signed() == 8


def test_rewritten_entry_is_not_signed(ledger):
    ledger.append(3)
    connection = apsw.Connection(str(ledger.place.database))
    connection.execute("UPDATE entries SET hash = zeroblob(32) WHERE seq = 2")
    connection.close()
    ledger.time.now += EVERY_SECONDS
    ledger.append()
    with pytest.raises(LedgerUnavailable, match="what is stored is not what was written"):
        ledger.append()
    ledger.writer.close()
    with pytest.raises(LedgerBroken, match="it is not what was recorded") as caught:
        ledger.opened()
    assert caught.value.where == "cli/2"


def test_long_chain_starts_from_a_checkpoint_and_repairs_its_leaves(ledger):
    for _ in range(11):
        ledger.append(TAIL_ENTRIES // 10)
    ledger.writer.close()
    leaves = ledger.place.checkpoints / "cli" / "leaves"
    assert ledger.verified().fault is None
    synced = leaves.stat().st_size // 32 // SYNC_LEAVES_EVERY * SYNC_LEAVES_EVERY
    os.truncate(leaves, synced * 32)
    ledger.writer = ledger.opened()
    assert ledger.verified().fault is None
    assert ledger.append()[0].entry.seq == TAIL_ENTRIES // 10 * 11 + 1


def test_files_and_folders_are_private(tmp_path):
    before = os.umask(0)
    ledger = Ledger(tmp_path)
    try:
        ledger.append()
        files = [
            ledger.place.database.with_name(f"ledger.db{each}") for each in ("", "-wal", "-shm")
        ]
        assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600] * 3
    finally:
        ledger.writer.close()
        os.umask(before)
    folders = [ledger.place.checkpoints, ledger.place.checkpoints / "cli"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in folders] == [0o700] * 2
    notes = [folders[1] / "notes", folders[1] / "leaves"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in notes] == [0o600] * 2


def test_closed_ledger_takes_nothing_and_says_so(ledger):
    ledger.writer.close()
    assert ledger.writer.health.cause == "the ledger was closed"
    with pytest.raises(LedgerUnavailable, match="the ledger was closed"):
        ledger.append()


def test_two_chains_share_a_database(ledger):
    other = Chain(CHAIN.ledger, "serve-1")
    writer = LedgerWriter(ledger.place, other, KEY, OPENING)
    writer.append(Draft("decision", "other", "", Instant(2), b"{}")).result()
    ledger.append(2)
    writer.close()
    assert len(ledger.entries()) == 3
    assert ledger.verified().fault is None


def test_many_threads_get_a_place_each(ledger):
    seqs = []

    def append_some():
        seqs.extend(ledger.append()[0].entry.seq for _ in range(20))

    threads = [threading.Thread(target=append_some) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seqs) == list(range(1, 161))
    assert ledger.verified().fault is None


def test_last_checkpoint_that_cannot_be_written_is_told_at_the_close(ledger):
    ledger.append()
    ledger.place.checkpoints.write_text("in the way")
    with pytest.raises(LedgerUnavailable, match="all is recorded, but the last checkpoint"):
        ledger.writer.close()
    ledger.place.checkpoints.unlink()
    ledger.writer = ledger.opened()
    assert ledger.signed() == 2
