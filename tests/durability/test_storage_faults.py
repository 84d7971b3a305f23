"""Disks that are full, read-only, failing or slow: the ledger stops, says why, and resumes."""

# ruff: noqa: N802 - SQLite's interface fixes the names of a file system's methods.

import multiprocessing
import resource
import shutil
import threading
import uuid
from concurrent.futures import Future

import apsw
import pytest

from pointsman.errors import LedgerBroken, LedgerRolledBack, LedgerUnavailable
from pointsman.kernel.checkpoint import EVERY_ENTRIES
from pointsman.kernel.entry import Chain, Draft
from pointsman.kernel.instant import Instant
from pointsman.kernel.signing import SigningKey
from pointsman.kernel.verification import Pass
from pointsman.storage.sqlite.database import LOG_PAGES
from pointsman.storage.sqlite.ledger import WritePlace
from pointsman.storage.stores.content import ContentStore
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.checkpoints import CheckpointFolder
from pointsman.storage.writer.group import FIRE_AND_FORGET_DELAY_S, MOST_WAITING
from pointsman.storage.writer.ledger import RETRY_S, LedgerWriter

KEY = SigningKey(bytes(range(32)))
CHAIN = Chain("0123456789abcdef" * 2, "cli")
OPENING = Draft("ledger.opened", "opening", "", Instant(1), b"{}")
WORKLOAD = 8
FAULTS = {
    "disk full": ("xWrite", apsw.SQLITE_FULL, "FullError"),
    "read-only": ("xWrite", apsw.SQLITE_READONLY, "ReadOnlyError"),
    "failed write": ("xWrite", apsw.SQLITE_IOERR_WRITE, "IOError"),
    "failed sync": ("xSync", apsw.SQLITE_IOERR_FSYNC, "IOError"),
    "failed truncate": ("xTruncate", apsw.SQLITE_IOERR_TRUNCATE, "IOError"),
}


class Time:
    """Stands still until it is moved."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def pass_retry(self):
        self.now += RETRY_S


class FaultyVFS(apsw.VFS):
    """The real file system, whose calls of one kind fail from the k-th on until it is repaired."""

    def __init__(self):
        self.name = f"faulty-{uuid.uuid4().hex}"
        self.kind, self.code, self.left = "", 0, 0
        self.has_failed = False
        self.calls = self.calls_after_failure = 0
        self.syncing, self.may_sync = threading.Event(), threading.Event()
        self.may_sync.set()
        super().__init__(self.name, "")

    def break_after(self, kind, code, count):
        self.kind, self.code, self.left, self.has_failed = kind, code, count, False
        self.calls_after_failure = 0

    def repair(self):
        self.kind = ""

    def called(self, kind):
        self.calls += 1
        self.calls_after_failure += self.has_failed and kind == "xSync"
        if kind != self.kind:
            return
        self.left -= 1
        if self.left < 0:
            self.has_failed = True
            raise apsw.exception_for(self.code)

    def xOpen(self, name, flags):
        return FaultyFile(self, name, flags)


class FaultyFile(apsw.VFSFile):
    def __init__(self, faults, name, flags):
        self._faults = faults
        super().__init__("", name, flags)

    def xWrite(self, data, offset):
        self._faults.called("xWrite")
        super().xWrite(data, offset)

    def xTruncate(self, size):
        self._faults.called("xTruncate")
        super().xTruncate(size)

    def xSync(self, flags):
        self._faults.called("xSync")
        self._faults.syncing.set()
        self._faults.may_sync.wait()
        super().xSync(flags)


class Bench:
    """A ledger on a faulty disk, and everything it acknowledged."""

    def __init__(self, folder, log_pages=LOG_PAGES):
        self.folder, self.log_pages = folder, log_pages
        self.faults, self.time = FaultyVFS(), Time()
        self.acknowledged = []
        self.writer = self.opened()

    def opened(self):
        folder = self.folder
        place = WritePlace(
            folder / "ledger.db",
            folder / "checkpoints",
            vfs=self.faults.name,
            log_pages=self.log_pages,
        )
        return LedgerWriter(place, CHAIN, KEY, OPENING, monotonic=self.time)

    def append(self):
        number = len(self.acknowledged)
        attachments = (b"x" * 5000,) if number % 5 == 0 else ()
        draft = Draft("decision", f"entry-{number}", "", Instant(number), b"{}", attachments)
        self.acknowledged.append(self.writer.append(draft).result().entry)

    def append_until_failure(self):
        """Append the workload; give the error that ended it, or None."""
        for _ in range(WORKLOAD):
            try:
                self.append()
            except LedgerUnavailable as error:
                return error
        return None

    def refuses(self):
        with pytest.raises(LedgerUnavailable) as caught:
            self.append()
        return caught.value

    def read(self):
        """Give what a reader sees, after a whole pass over it."""
        reader = LedgerReader(self.folder / "ledger.db")
        entries = list(reader.chain_entries(1))
        reader.close()
        folder = CheckpointFolder(self.folder / "checkpoints", CHAIN)
        report = Pass(CHAIN, folder.all([KEY])).run(entries)
        assert report.fault is None
        return entries

    def has_all_acknowledged(self):
        entries = self.read()
        return all(entries[entry.seq] == entry for entry in self.acknowledged)


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    bench.faults.may_sync.set()
    bench.faults.repair()
    bench.writer.close()


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_ledger_stops_and_resumes_wherever_the_disk_fails(tmp_path, fault):
    kind, code, name = FAULTS[fault]
    failures = 0
    for count in range(200):
        (tmp_path / str(count)).mkdir()
        bench = Bench(tmp_path / str(count), log_pages=20)
        bench.append()
        bench.faults.break_after(kind, code, count)
        error = bench.append_until_failure()
        if error is None and bench.writer.health.is_writable:
            bench.faults.repair()
            bench.writer.close()
            break
        failures += 1
        _check_stopped(bench, name)
        _check_resumes(bench)
    assert failures >= (1 if kind == "xTruncate" else WORKLOAD)


def _check_stopped(bench, name):
    health = bench.writer.health
    assert not health.is_writable
    assert name in health.cause
    assert bench.faults.calls_after_failure == 0, "a failed sync is not tried again"
    before = bench.faults.calls
    assert name in bench.refuses().message
    assert bench.faults.calls == before, "the disk is left alone until it is time to retry"
    assert bench.has_all_acknowledged()


def _check_resumes(bench):
    bench.time.pass_retry()
    if bench.faults.kind != "xTruncate":
        bench.refuses()
        assert bench.has_all_acknowledged()
        bench.time.pass_retry()
    bench.faults.repair()
    bench.append()
    assert bench.writer.health.is_writable
    assert bench.has_all_acknowledged()
    bench.writer.close()
    assert bench.has_all_acknowledged()


def test_failed_group_is_acknowledged_to_nobody(bench):
    bench.append()
    bench.faults.may_sync.clear()
    bench.faults.syncing.clear()
    first = bench.writer.append(Draft("decision", "first", "", Instant(2), b"{}"))
    bench.faults.syncing.wait()
    group = [
        bench.writer.append(Draft("decision", f"group-{n}", "", Instant(2), b"{}"))
        for n in range(20)
    ]
    bench.faults.break_after("xSync", apsw.SQLITE_IOERR_FSYNC, 0)
    bench.faults.may_sync.set()
    first.result()
    for future in group:
        with pytest.raises(LedgerUnavailable, match="nothing was acknowledged"):
            future.result()


def test_ledger_resumes_without_being_asked(bench):
    bench.faults.break_after("xSync", apsw.SQLITE_IOERR_FSYNC, 0)
    bench.refuses()
    bench.faults.repair()
    bench.faults.syncing.clear()
    bench.time.pass_retry()
    bench.faults.syncing.wait()
    bench.append()
    assert bench.writer.health.is_writable


def test_slow_sync_delays_receipts_and_bounds_the_queue(bench):
    bench.faults.may_sync.clear()
    bench.faults.syncing.clear()
    draft = Draft("decision", "slow", "", Instant(2), b"{}")
    first = bench.writer.append(draft)
    bench.faults.syncing.wait()
    waiting = [bench.writer.append(draft) for _ in range(MOST_WAITING)]
    with pytest.raises(LedgerUnavailable, match="wait to be written already"):
        bench.writer.append(draft)
    assert bench.writer.health.is_writable
    assert not first.done()
    assert len(bench.read()) <= 2, "a reader is not held up"
    bench.faults.may_sync.set()
    assert waiting[-1].result().entry.seq == MOST_WAITING + 1


def test_acknowledged_entries_that_are_gone_keep_the_ledger_down(bench):
    for _ in range(3):
        bench.append()
    bench.faults.break_after("xSync", apsw.SQLITE_IOERR_FSYNC, 0)
    bench.refuses()
    bench.faults.repair()
    connection = apsw.Connection(str(bench.folder / "ledger.db"))
    connection.execute("DELETE FROM entries WHERE seq >= 3")
    connection.close()
    bench.time.pass_retry()
    assert "does not end where its writer left it" in bench.refuses().message
    assert not bench.writer.health.is_writable


@pytest.mark.slow
def test_ledger_takes_no_more_than_256_unsigned_entries(bench):
    checkpoints = bench.folder / "checkpoints"
    shutil.rmtree(checkpoints, ignore_errors=True)
    checkpoints.write_text("in the way")
    while bench.writer.health.is_writable and len(bench.acknowledged) <= EVERY_ENTRIES:
        try:
            bench.append()
        except LedgerUnavailable:
            break
    assert len(bench.acknowledged) < EVERY_ENTRIES
    assert "NotADirectoryError" in bench.writer.health.cause
    bench.refuses()
    bench.time.pass_retry()
    assert "NotADirectoryError" in bench.refuses().message
    checkpoints.unlink()
    bench.time.pass_retry()
    bench.append()
    assert bench.has_all_acknowledged()


def test_closing_a_ledger_that_is_down_leaves_what_was_acknowledged(bench):
    for _ in range(3):
        bench.append()
    bench.faults.break_after("xSync", apsw.SQLITE_IOERR_FSYNC, 0)
    bench.refuses()
    bench.writer.close()
    bench.faults.repair()
    bench.writer = bench.opened()
    assert bench.has_all_acknowledged()
    assert bench.writer.health.is_writable


def test_old_backup_put_back_is_refused(bench):
    bench.append()
    bench.writer.close()
    database = bench.folder / "ledger.db"
    backup = database.read_bytes()
    bench.writer = bench.opened()
    bench.append()
    bench.writer.close()
    newest = database.read_bytes()
    database.write_bytes(backup)
    with pytest.raises(LedgerRolledBack, match="ends before its last checkpoint"):
        bench.opened()
    database.write_bytes(newest)
    bench.writer = bench.opened()
    assert bench.has_all_acknowledged()


@pytest.mark.parametrize("name", ["cli", "serve-1"])
def test_deleted_database_is_not_silently_started_anew(bench, name):
    """Also not by a writer whose own chain has no checkpoint yet."""
    bench.append()
    bench.writer.close()
    (bench.folder / "ledger.db").unlink()
    place = WritePlace(bench.folder / "ledger.db", bench.folder / "checkpoints")
    for _ in range(2):
        with pytest.raises(LedgerRolledBack, match="there are checkpoints of cli"):
            LedgerWriter(place, Chain(CHAIN.ledger, name), KEY, OPENING)


def test_database_of_another_ledger_is_refused(bench):
    place = WritePlace(bench.folder / "ledger.db", bench.folder / "checkpoints")
    with pytest.raises(LedgerBroken, match=f"belongs to ledger `{CHAIN.ledger}`"):
        LedgerWriter(place, Chain("f" * 32, "other"), KEY, OPENING)


def test_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "ledger.db").write_bytes(b"not a database " * 1000)
    with pytest.raises(LedgerBroken, match="the database is damaged"):
        LedgerWriter(WritePlace(tmp_path / "ledger.db", tmp_path / "c"), CHAIN, KEY, OPENING)


def test_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(LedgerUnavailable, match="cannot be opened"):
        LedgerWriter(WritePlace(tmp_path / "no" / "ledger.db", tmp_path / "c"), CHAIN, KEY, OPENING)


@pytest.mark.slow
def test_real_file_size_limit_stops_the_ledger_until_it_is_lifted(tmp_path):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=write_past_limit, args=(tmp_path, answers))
    process.start()
    before, cause, after, kept = answers.get(timeout=60)
    process.join()
    assert before > 10
    assert "Error" in cause
    assert after == before + 1
    assert kept


def write_past_limit(folder, answers):
    time = Time()
    place = WritePlace(folder / "ledger.db", folder / "checkpoints")
    writer = LedgerWriter(place, CHAIN, KEY, OPENING, monotonic=time)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, hard))
    entries = []
    draft = Draft("decision", "entry", "", Instant(2), b"x" * 3000)
    while writer.health.is_writable:
        try:
            entries.append(writer.append(draft).result().entry)
        except LedgerUnavailable:
            break
    before, cause = len(entries), writer.health.cause
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    time.pass_retry()
    entries.append(writer.append(draft).result().entry)
    writer.close()
    reader = LedgerReader(folder / "ledger.db")
    stored = list(reader.chain_entries(1))
    kept = all(stored[entry.seq] == entry for entry in entries)
    answers.put((before, cause, len(entries), kept))


def test_first_text_after_a_full_disk_is_kept(tmp_path):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=keep_texts_past_limit, args=(tmp_path, answers))
    process.start()
    assert answers.get(timeout=60) == [True, False, False, False, True]
    process.join()


def keep_texts_past_limit(folder, answers):
    store = ContentStore(folder / "content.db", bytes(32), "full", str)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    kept = [is_kept(store, "before")]
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    kept += [is_kept(store, text) for text in ("first", "second", "third")]
    # The store's thread looks once more at a disk that is still full, and then rests.
    threading.Event().wait(10 * FIRE_AND_FORGET_DELAY_S)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    kept.append(is_kept(store, "after"))
    store.close()
    answers.put(kept)


def is_kept(store, text):
    done = Future()
    store.hand_in(text, lambda: done)
    return done.exception() is None
