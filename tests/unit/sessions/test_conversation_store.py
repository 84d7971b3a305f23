"""Conversations on disk: sessions, turns, messages, and words that are gone when erased."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pointsman.kernel.instant import Instant
from pointsman.kernel.number import ONE, ZERO, Billionths, MicroUsd
from pointsman.storage.stores.conversations import (
    ConversationStore,
    MessageRow,
    StoredSession,
    StoredTurn,
    TurnClose,
)

HALF = Billionths(500_000_000)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ConversationStore]:
    with closing(ConversationStore(tmp_path / "c.db", "full")) as found:
        yield found


def a_session(name: str, at: int = 0, parent: str = "") -> StoredSession:
    use = "tu" if parent else ""
    return StoredSession(name, parent, use, "/w", "auto", None, Instant(at), Instant(at), None)


def a_message(name: str, session: str = "s") -> MessageRow:
    return MessageRow(name, session, "t", "user", b"{}", Instant(1), 1, "full", b"opensesame")


def test_a_session_is_kept_with_all_it_is(store: ConversationStore) -> None:
    store.begin(a_session("s", 3)).result()
    assert store.session("s") == a_session("s", 3)
    assert store.session("other") is None
    store.stick("s", "p:m", Instant(9)).result()
    found = store.session("s")
    assert found is not None
    assert (found.sticky_model, found.changed_at) == ("p:m", 9)
    store.end("s", Instant(10), Instant(10)).result()
    ended = store.session("s")
    assert ended is not None
    assert ended.ended_at == 10


@pytest.mark.req(219)
def test_workers_are_not_among_the_sessions_of_users(store: ConversationStore) -> None:
    for row in (a_session("a", 1), a_session("b", 2), a_session("w", 3, parent="a")):
        store.begin(row).result()
    assert [each.id for each in store.sessions()] == ["b", "a"]
    assert [each.id for each in store.workers("a")] == ["w"]
    assert store.workers("") == []


def test_a_turn_is_open_until_it_is_closed(store: ConversationStore) -> None:
    store.begin(a_session("s")).result()
    row = StoredTurn("t", "s", "d", "p:m", "open", Instant(1), fingerprint=b"{}", vector=b"v")
    store.begin_turn(row).result()
    assert store.turn("t") == row
    close = TurnClose("t", "completed", "p:n", "d2", Instant(5), MicroUsd(7), 9, "v1")
    store.end_turn(close).result()
    found = store.turns("s")[0]
    assert (found.status, found.model, found.cost_microusd) == ("completed", "p:n", 7)
    assert (found.fingerprint, found.vector) == (b"{}", b"v")


def test_what_was_said_of_a_turn_outweighs_what_was_shown(store: ConversationStore) -> None:
    store.begin_turn(StoredTurn("t", "s", "d", "p:m", "open", Instant(1))).result()

    def score() -> Billionths | None:
        row = store.turn("t")
        return None if row is None else row.score

    store.score("t", HALF, HALF, is_explicit=False).result()
    assert score() == HALF
    store.score("t", ONE, ONE, is_explicit=True).result()
    store.score("t", HALF, HALF, is_explicit=False).result()
    assert score() == ONE
    store.score("t", ZERO, ONE, is_explicit=True).result()
    assert score() == ZERO


def test_messages_come_back_in_the_order_they_were_kept(store: ConversationStore) -> None:
    for name in ("m2", "m1", "m3"):
        store.append_message(a_message(name)).result()
    store.append_message(a_message("m9", "other")).result()
    assert [each.id for each in store.messages("s")] == ["m2", "m1", "m3"]


def test_erased_words_are_in_no_file(tmp_path: Path) -> None:
    with closing(ConversationStore(tmp_path / "c.db", "full")) as store:
        store.append_message(a_message("m1")).result()
        assert store.erase("s") == 1
        (row,) = store.messages("s")
        assert (row.kept, row.content) == ("erased", b"")
    for path in tmp_path.iterdir():
        assert b"opensesame" not in path.read_bytes()
