import os
import stat
import threading

import apsw
import pytest

from pointsman.errors import LedgerUnavailable, MissingSnapshot
from pointsman.kernel.content import Sealed, seal_text
from pointsman.kernel.entry import Chain, Draft
from pointsman.kernel.instant import Instant
from pointsman.kernel.signing import SigningKey
from pointsman.kernel.verification import Pass
from pointsman.recording.waiting import BlockingWaiter
from pointsman.storage.sqlite.database import SqliteConnection
from pointsman.storage.sqlite.ledger import WritePlace
from pointsman.storage.stores import content
from pointsman.storage.stores.content import ContentStore
from pointsman.storage.stores.entries import ContentReader, LedgerReader
from pointsman.storage.writer.ledger import LedgerWriter

KEY = bytes(range(32))
SECRET = "call me at +49 30 901820, the code is heliotrope"


def _redact(text):
    return text.replace("+49 30 901820", "[phone]")


class Store(ContentStore):
    """Keeps, and reads what was kept through a reader of its own each time."""

    def __init__(self, path, retain):
        super().__init__(path, KEY, retain, _redact)
        self.path = path

    def text(self, seal):
        return self._read(lambda reader: reader.text(seal))

    def shown(self, seal):
        return self._read(lambda reader: reader.displayed_text(seal))

    def _read(self, ask):
        reader = ContentReader(self.path, KEY)
        try:
            return ask(reader)
        finally:
            reader.close()


@pytest.fixture
def store_of(tmp_path):
    stores = []

    def opened(retain):
        stores.append(Store(tmp_path / "content.db", retain))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


def _kept(store, text=SECRET):
    waits = BlockingWaiter()
    seal = store.hand_in(text, waits.expect)
    waits.wait()
    return seal


def _raw(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file())


def test_full_text_is_given_back(store_of):
    store = store_of("full")
    seal = _kept(store)
    assert seal == seal_text(SECRET, KEY)
    assert store.text(seal) == store.shown(seal) == SECRET


def test_text_with_lone_surrogates_is_given_back(store_of):
    store = store_of("full")
    assert store.text(_kept(store, "\ud800 \N{SNOWMAN}")) == "\ud800 \N{SNOWMAN}"


def test_redacted_text_is_shown_but_not_given_back(store_of, tmp_path):
    store = store_of("redacted")
    seal = _kept(store)
    assert store.shown(seal) == "call me at [phone], the code is heliotrope"
    with pytest.raises(MissingSnapshot, match="was kept only in redacted form"):
        store.text(seal)
    assert b"901820" not in _raw(tmp_path)


def test_digest_keeps_no_text(store_of, tmp_path):
    store = store_of("digest")
    waits = BlockingWaiter()
    seal = store.hand_in(SECRET, waits.expect)
    assert waits.wait() == []
    with pytest.raises(MissingSnapshot):
        store.shown(seal)
    with pytest.raises(MissingSnapshot, match="was not kept"):
        store.text(seal)
    assert b"heliotrope" not in _raw(tmp_path)


def test_erased_text_is_in_no_file_and_its_absence_is_explained(store_of, tmp_path):
    store = store_of("full")
    seal, other = _kept(store), _kept(store, "another text")
    assert b"heliotrope" in _raw(tmp_path)
    assert store.erase([seal.digest])
    assert b"heliotrope" not in _raw(tmp_path)
    with pytest.raises(MissingSnapshot, match="was erased"):
        store.text(seal)
    with pytest.raises(MissingSnapshot):
        store.shown(seal)
    assert store.text(other) == "another text"


def test_long_text_is_erased_from_every_page(store_of, tmp_path):
    store = store_of("full")
    seal = _kept(store, "heliotrope " * 5_000)
    _kept(store, "another text")
    store.erase([seal.digest])
    assert b"heliotrope" not in _raw(tmp_path)


def test_erasing_what_is_not_kept_says_so(store_of):
    store = store_of("full")
    seal = _kept(store)
    assert not store.erase([seal_text("never kept", KEY).digest])
    assert store.erase([seal.digest])
    assert not store.erase([seal.digest])


def test_erased_text_stays_erased_when_it_comes_again(store_of):
    store = store_of("full")
    seal = _kept(store)
    store.erase([seal.digest])
    _kept(store)
    with pytest.raises(MissingSnapshot, match="was erased"):
        store.text(seal)


def test_erasing_a_text_leaves_the_chain_as_it_was(store_of, tmp_path):
    store = store_of("full")
    seal = _kept(store)
    chain = Chain("0" * 32, "cli")
    place = WritePlace(tmp_path / "ledger.db", tmp_path / "checkpoints")
    opening = Draft("ledger.opened", "opening", "", Instant(1), b"{}")
    writer = LedgerWriter(place, chain, SigningKey(KEY), opening)
    writer.append(Draft("decision", "one", "", Instant(2), seal.digest.encode())).result()
    store.erase([seal.digest])
    writer.close()
    reader = LedgerReader(place.database)
    assert Pass(chain, []).run(reader.chain_entries(1)).fault is None
    reader.close()
    assert b"heliotrope" not in _raw(tmp_path)


def test_changed_text_is_not_given_back(store_of, tmp_path):
    store = store_of("full")
    seal = _kept(store)
    connection = apsw.Connection(str(tmp_path / "content.db"))
    connection.execute("UPDATE contents SET text = ?", (b"something else",))
    connection.close()
    with pytest.raises(MissingSnapshot, match="is not the one that was sealed"):
        store.text(seal)
    with pytest.raises(MissingSnapshot, match="is not the one that was sealed"):
        store.text(Sealed(seal.digest, seal.chars + 1))


def test_text_outlives_its_store(store_of):
    store = store_of("full")
    seal = store.hand_in(SECRET, BlockingWaiter().expect)
    store.close()
    assert store_of("digest").text(seal) == SECRET


def test_files_are_private(tmp_path):
    before = os.umask(0)
    store = ContentStore(tmp_path / "content.db", KEY, "full", _redact)
    try:
        _kept(store)
        modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        store.close()
        os.umask(before)
    assert modes == {0o600}


def test_store_goes_on_after_a_failed_write(store_of, tmp_path):
    store = store_of("full")
    before = _kept(store)
    connection = apsw.Connection(str(tmp_path / "content.db"))
    connection.execute("ALTER TABLE contents RENAME TO away")
    with pytest.raises(LedgerUnavailable, match="the text could not be kept"):
        _kept(store, "not kept")
    connection.execute("ALTER TABLE away RENAME TO contents")
    connection.close()
    after = _kept(store, "kept again")
    assert (store.text(before), store.text(after)) == (SECRET, "kept again")


def test_the_log_of_texts_stays_short(store_of, tmp_path, monkeypatch):
    monkeypatch.setattr(content, "LOG_PAGES", 20)
    store = store_of("full")
    seals = [_kept(store, f"{number} " + "heliotrope " * 300) for number in range(200)]
    # Two hundred texts of 3 KB each, and what was logged in between was written back.
    assert (tmp_path / "content.db-wal").stat().st_size < 60 * 4_200
    assert (tmp_path / "content.db").stat().st_size > 500_000
    assert [store.text(each).split()[0] for each in seals[::50]] == ["0", "50", "100", "150"]


def test_texts_are_kept_while_their_log_cannot_be_written_back(store_of, monkeypatch):
    def fails(_connection, _pages):
        raise apsw.IOError("IOError: disk I/O error")

    store = store_of("full")
    monkeypatch.setattr(SqliteConnection, "tend", fails)
    seals = [_kept(store, f"text {number}") for number in range(5)]
    assert [store.text(each) for each in seals] == [f"text {number}" for number in range(5)]


class Told:
    """Waits for one text, and remembers which thread told that it is durable."""

    def __init__(self):
        self.done = threading.Event()
        self.thread = None

    def set_result(self, _result):
        self.thread = threading.get_ident()
        self.done.set()


def _served_alone(store):
    """Serve an event loop that is alone; gives what it does when it comes round."""
    work = []
    store._group._policy.serve_loop(lambda: None, work.append, lambda: True)
    return work


def test_a_loop_that_is_alone_keeps_a_text_itself(store_of):
    store, own = store_of("full"), 0
    work = _served_alone(store)
    for number in range(50):
        told = Told()
        seal = store.hand_in(f"text {number}", lambda told=told: told)
        while work:
            work.pop()()
        assert told.done.wait(60)
        assert store.text(seal) == f"text {number}"
        own += told.thread == threading.get_ident()
    # Its thread may be at what it does between two groups; then it commits, as ever.
    assert own > 0


def test_a_loop_that_is_alone_does_not_wait_for_an_erasure(store_of):
    store, told = store_of("full"), Told()
    work = _served_alone(store)
    with store._group._committing:  # as an erasure holds it
        seal = store.hand_in(SECRET, lambda: told)
        loop = threading.Thread(target=lambda: [each() for each in work], daemon=True)
        loop.start()
        loop.join(10)
        assert not loop.is_alive()
        assert not told.done.is_set()
    assert told.done.wait(60)
    assert store.text(seal) == SECRET


def test_threads_keep_read_and_erase_at_once(store_of):
    store = store_of("full")
    errors = []

    def work(number):
        try:
            for count in range(25):
                seal = _kept(store, f"{number}-{count}")
                assert store.text(seal) == f"{number}-{count}"
                assert store.erase([seal.digest])
        except Exception as error:  # noqa: BLE001 - a thread's outermost edge
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
