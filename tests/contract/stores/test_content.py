"""Texts: kept whole, redacted or not at all; what was erased stays so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from pointsman.errors import MissingSnapshot
from pointsman.kernel.content import Retain, Sealed, seal_text
from pointsman.recording.waiting import BlockingWaiter
from pointsman.storage.place import Store, StorePlace
from pointsman.storage.stores.content import ContentStore
from pointsman.storage.stores.entries import ContentReader

KEY = bytes(range(32))
TEXT = "call +49 30 901820, the code is heliotrope \ud800 \0 é"


@pytest.fixture
def place(store: Store) -> StorePlace:
    return store.place("content")


Opened = Callable[[Retain], ContentStore]


@pytest.fixture
def texts_of(place: StorePlace) -> Iterator[Opened]:
    found: list[ContentStore] = []

    def opened(retain: Retain) -> ContentStore:
        found.append(ContentStore(place, KEY, retain, lambda text: text.replace("901820", "[x]")))
        return found[-1]

    yield opened
    for each in found:
        each.close()


def kept(texts: ContentStore, text: str = TEXT) -> Sealed:
    waits = BlockingWaiter()
    seal = texts.hand_in(text, waits.expect)
    waits.wait()
    return seal


def read(place: StorePlace, seal: Sealed) -> str:
    with closing(ContentReader(place, KEY)) as reader:
        return reader.text(seal)


def test_a_text_comes_back_as_it_was(place: StorePlace, texts_of: Opened) -> None:
    assert read(place, kept(texts_of("full"))) == TEXT


def test_a_redacted_text_is_shown_and_never_whole(place: StorePlace, texts_of: Opened) -> None:
    seal = kept(texts_of("redacted"))
    with closing(ContentReader(place, KEY)) as reader:
        assert "901820" not in reader.displayed_text(seal)
        with pytest.raises(MissingSnapshot, match="redacted"):
            reader.text(seal)


def test_of_a_digest_nothing_is_kept(place: StorePlace, texts_of: Opened) -> None:
    kept(texts_of("full"), "another")
    with pytest.raises(MissingSnapshot, match="not kept"):
        read(place, kept(texts_of("digest")))


def test_what_was_erased_does_not_come_back(place: StorePlace, texts_of: Opened) -> None:
    texts = texts_of("full")
    seal = kept(texts)
    assert texts.erase([seal.digest])
    assert not texts.erase([seal.digest])
    assert kept(texts) == seal, "said again, it is sealed the same"
    with pytest.raises(MissingSnapshot, match="erased"):
        read(place, seal)


def test_the_first_text_under_a_digest_stands(place: StorePlace, texts_of: Opened) -> None:
    seal = kept(texts_of("full"))
    kept(texts_of("redacted"))
    assert read(place, seal) == TEXT


def test_a_text_that_is_not_the_sealed_one_is_refused(place: StorePlace, texts_of: Opened) -> None:
    seal = kept(texts_of("full"))
    connection = place.writing("content.sql")
    connection.execute("UPDATE contents SET text = x'00'")
    connection.close()
    with pytest.raises(MissingSnapshot, match="not the one"):
        read(place, seal)


def test_nothing_is_found_where_nothing_was_kept(place: StorePlace) -> None:
    with pytest.raises(MissingSnapshot):
        read(place, seal_text(TEXT, KEY))


def test_many_texts_are_kept_together(place: StorePlace, texts_of: Opened) -> None:
    texts = texts_of("full")
    waits = BlockingWaiter()
    seals = [texts.hand_in(f"text {number % 50}", waits.expect) for number in range(400)]
    assert len(waits.wait()) == 400
    assert {read(place, seal) for seal in seals[:50]} == {f"text {n}" for n in range(50)}
