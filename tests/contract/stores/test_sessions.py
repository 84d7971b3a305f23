"""Sessions: pins and locks outlive a process, and are seen by the others."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing

import pytest

from pointsman.kernel.instant import Instant
from pointsman.storage.place import Store, StorePlace
from pointsman.storage.stores import sessions as module
from pointsman.storage.stores.sessions import KeptSession, Pin, SessionStore


@pytest.fixture
def place(store: Store) -> StorePlace:
    return store.place("sessions")


@pytest.fixture
def sessions(place: StorePlace) -> Iterator[SessionStore]:
    with closing(SessionStore(place)) as found:
        yield found


def test_a_session_that_nobody_kept_has_nothing(sessions: SessionStore) -> None:
    assert sessions.find("s") == KeptSession()
    assert sessions.pins() == []


def test_a_pin_and_a_lock_do_not_undo_each_other(sessions: SessionStore) -> None:
    sessions.pin("s", "p:m", Instant(1)).result()
    sessions.lock("s", "t", "d", "p:n", Instant(2)).result()
    assert sessions.find("s") == KeptSession("p:m", "t", "d", "p:n")
    sessions.pin("s", None, Instant(3)).result()
    assert sessions.find("s") == KeptSession("", "t", "d", "p:n")


def test_pins_are_listed_by_the_bytes_of_their_sessions(sessions: SessionStore) -> None:
    for name in ("é", "b", "Z", "a"):
        sessions.pin(name, "p:m", Instant(1)).result()
    sessions.pin("b", None, Instant(2)).result()
    assert sessions.pins() == [Pin(name, "p:m", Instant(1)) for name in ("Z", "a", "é")]


def test_another_process_sees_a_pin_and_its_end(
    place: StorePlace, sessions: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_S", -1.0)
    with closing(SessionStore(place)) as other:
        assert other.pinned_model("s") == ""
        sessions.pin("s", "p:m", Instant(1)).result()
        assert other.pinned_model("s") == "p:m"
        sessions.pin("s", None, Instant(2)).result()
        assert other.pinned_model("s") == ""


def test_the_last_of_many_writes_stands(place: StorePlace, sessions: SessionStore) -> None:
    """Two processes write the same sessions in opposite order; none waits for ever."""
    with closing(SessionStore(place)) as other:
        waits: list[Future[None]] = []
        for number in range(50):
            names = [f"s{each}" for each in range(8)]
            waits += [sessions.pin(name, f"p:{number}", Instant(number)) for name in names]
            waits += [other.lock(n, "t", "d", f"q:{number}", Instant(number)) for n in names[::-1]]
        for each in waits:
            each.result(30)
        assert [sessions.find(name) for name in names] == [
            KeptSession("p:49", "t", "d", "q:49")
        ] * 8


def test_what_is_kept_outlives_who_kept_it(place: StorePlace, sessions: SessionStore) -> None:
    sessions.pin("s", "p:m", Instant(1))
    sessions.close()
    with closing(SessionStore(place)) as later:
        assert later.find("s").pinned_model == "p:m"
