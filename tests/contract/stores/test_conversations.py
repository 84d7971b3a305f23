"""Conversations: what was said comes back in its order, and is gone when erased."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from pointsman.kernel.instant import Instant
from pointsman.kernel.number import ONE, ZERO, Billionths, MicroUsd
from pointsman.storage.place import Store, StorePlace
from pointsman.storage.stores.conversations import (
    CONVERSATIONS,
    ConversationStore,
    MessageRow,
    StoredSession,
    StoredTurn,
    TurnClose,
)

HALF = Billionths(500_000_000)


@pytest.fixture
def place(store: Store) -> StorePlace:
    return store.place(CONVERSATIONS)


@pytest.fixture
def talks(place: StorePlace) -> Iterator[ConversationStore]:
    with closing(ConversationStore(place, "full")) as found:
        yield found


def a_session(name: str, at: int = 0, parent: str = "") -> StoredSession:
    use = "tu" if parent else ""
    return StoredSession(name, parent, use, None, "auto", None, Instant(at), Instant(at), None)


def a_message(name: str, session: str = "s") -> MessageRow:
    return MessageRow(name, session, "t", "user", b"\0{}", Instant(1), 1, "full", b"sesame\0")


def test_a_session_is_kept_with_all_it_is(talks: ConversationStore) -> None:
    talks.begin(a_session("s", 3)).result()
    assert talks.session("s") == a_session("s", 3)
    assert talks.session("other") is None
    talks.stick("s", "p:m", Instant(9)).result()
    talks.end("s", Instant(10), Instant(11)).result()
    found = talks.session("s")
    assert found is not None
    assert (found.sticky_model, found.ended_at, found.changed_at) == ("p:m", 10, 11)
    talks.end("s", None, Instant(12)).result()
    assert talks.session("s") != found


def test_users_sessions_come_newest_first_and_workers_by_name(talks: ConversationStore) -> None:
    rows = [a_session("a", 1), a_session("b", 2), a_session("B", 2)]
    for row in (*rows, a_session("w", 3, parent="a"), a_session("W", 4, parent="a")):
        talks.begin(row).result()
    assert [each.id for each in talks.sessions()] == ["b", "B", "a"]
    assert [each.id for each in talks.sessions(1)] == ["b"]
    assert [each.id for each in talks.workers("a")] == ["W", "w"]
    assert talks.workers("") == []
    talks.begin_turn(StoredTurn("t", "a", "d", "p:m", "open", Instant(50))).result()
    assert [each.id for each in talks.sessions()] == ["a", "b", "B"]


def test_a_turn_is_open_until_it_is_closed(talks: ConversationStore) -> None:
    row = StoredTurn("t", "s", "d", "p:m", "open", Instant(1), fingerprint=b"{}", vector=b"\xff\0")
    talks.begin_turn(row).result()
    assert talks.turn("t") == row
    close = TurnClose("t", "completed", "p:n", "d2", Instant(5), MicroUsd(7), 9, "v1")
    talks.end_turn(close).result()
    talks.mark_learned("t").result()
    (found,) = talks.turns("s")
    assert (found.status, found.model, found.cost_microusd) == ("completed", "p:n", 7)
    assert (found.fingerprint, found.vector, found.is_learned) == (b"{}", b"\xff\0", True)


def test_what_was_said_outweighs_what_was_shown(talks: ConversationStore) -> None:
    talks.begin_turn(StoredTurn("t", "s", "d", "p:m", "open", Instant(1))).result()
    steps = [(HALF, False, HALF), (ONE, True, ONE), (HALF, False, ONE), (ZERO, True, ZERO)]
    for score, is_explicit, expected in steps:
        talks.score("t", score, HALF, is_explicit=is_explicit).result()
        row = talks.turn("t")
        assert row is not None
        assert row.score == expected


def test_messages_come_back_in_the_order_they_were_kept(talks: ConversationStore) -> None:
    for name in ("m2", "m1", "m3"):
        talks.append_message(a_message(name)).result()
    talks.append_message(a_message("m9", "other")).result()
    assert talks.messages("s") == [a_message(name) for name in ("m2", "m1", "m3")]


def test_erased_words_are_gone_and_their_messages_are_not(talks: ConversationStore) -> None:
    talks.append_message(a_message("m1")).result()
    talks.append_message(a_message("m2", "other")).result()
    assert talks.erase("s") == 1
    (row,) = talks.messages("s")
    assert (row.id, row.kept, row.content) == ("m1", "erased", b"")
    assert talks.messages("other") == [a_message("m2", "other")]


def test_another_process_sees_what_was_kept(place: StorePlace, talks: ConversationStore) -> None:
    with closing(ConversationStore(place, "full")) as other:
        talks.append_message(a_message("m1")).result()
        other.append_message(a_message("m2")).result()
        assert [each.id for each in talks.messages("s")] == ["m1", "m2"]
