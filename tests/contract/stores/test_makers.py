"""Vectors of two makers: kept side by side, never compared, wherever they are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from pointsman.kernel.instant import DAY, Instant
from pointsman.kernel.number import ONE, Billionths, MicroUsd
from pointsman.signals.embedding import hashed_letters, static_tokens
from pointsman.storage.place import Store, StorePlace
from pointsman.storage.stores.patterns.look import halves, made_by
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.turns.learning.evidence_look import MINILM, STATIC, TOKENS
from pointsman.turns.learning.fingerprint import DIMENSIONS, Fingerprint
from pointsman.turns.learning.pattern import Target

AT = Instant(1_000 * DAY)
PLAIN = Fingerprint()
HALF = Target(strong_share=Billionths(500_000_000))
TEXTS = ("prove this theorem", "join these two tables", "name all rivers", "paint a house")


@pytest.fixture
def place(store: Store) -> StorePlace:
    return store.place("patterns")


@pytest.fixture
def static(place: StorePlace) -> Iterator[PatternStore]:
    with closing(PatternStore(place)) as found:
        yield found


@pytest.fixture
def minilm(place: StorePlace) -> Iterator[PatternStore]:
    with closing(PatternStore(place, maker=MINILM)) as found:
        yield found


def by_table(text: str) -> bytes:
    return hashed_letters(text) + static_tokens(text)


def by_model(text: str) -> bytes:
    """A vector as MiniLM marks it; its numbers are others than those of the table."""
    return hashed_letters(text) + static_tokens(text)[::-1] + MINILM


def turn(store: PatternStore, name: str, vector: bytes, model: str = "p:m", score: int = 1) -> None:
    store.record(
        PLAIN,
        vector,
        model=model,
        turn_id=name,
        cost_microusd=MicroUsd(1_000 + 1_000 * (model == "p:m")),
        latency_ms=1,
        pricing_version="",
        at=AT,
    )
    store.update_score(name, Billionths(ONE * score), ONE, f"{name}.e")


def likeness(store: PatternStore, vector: bytes) -> int:
    found = store.evidence(PLAIN, vector)
    assert found.evidence is not None, found.reason
    return found.evidence.nearest[0].similarity


def test_a_vector_is_split_into_letters_and_tokens_with_their_mark() -> None:
    letters, tokens = by_model("hello")[:DIMENSIONS], by_model("hello")[DIMENSIONS:]
    assert halves(letters + tokens) == (letters, tokens)
    assert made_by(MINILM, tokens) == tokens[:TOKENS]
    assert made_by(STATIC, tokens) == made_by(MINILM, tokens[:TOKENS]) == b""
    assert made_by(STATIC, tokens[:TOKENS]) == tokens[:TOKENS]
    assert made_by(MINILM, tokens[:TOKENS] + b"minilm/0") == b""
    assert halves(letters + tokens + b"x") == (b"", b"")


def test_what_another_maker_made_is_compared_by_letters_alone(
    static: PatternStore, minilm: PatternStore
) -> None:
    turn(static, "t1", by_table("prove this theorem"))
    same = likeness(static, by_table("prove this theorem"))
    other = likeness(minilm, by_model("prove this theorem"))
    letters = likeness(static, hashed_letters("prove this theorem"))
    assert same > other == letters > 0
    # A store that was told of one maker takes no vector of another, either.
    assert likeness(static, by_model("prove this theorem")) == letters


def test_a_look_recorded_again_has_the_tokens_of_the_maker_in_force(
    static: PatternStore, minilm: PatternStore
) -> None:
    asked = "prove this theorem"
    turn(static, "t1", by_table(asked))
    before = likeness(minilm, by_model(asked))
    assert likeness(static, by_table(asked)) > before
    turn(minilm, "t2", by_model(asked))
    # Who wrote it compares it at once, and who reads along sees that it lost its own.
    assert likeness(minilm, by_model(asked)) > before
    assert likeness(static, by_table(asked)) == before
    assert len(minilm.summaries()) == 1


def test_a_look_recorded_again_by_the_same_maker_keeps_its_tokens(minilm: PatternStore) -> None:
    letters = hashed_letters("prove this theorem")
    turn(minilm, "t1", by_model("prove this theorem"))
    first = likeness(minilm, by_model("prove this theorem"))
    turn(minilm, "t2", letters + bytes(TOKENS) + MINILM)
    assert likeness(minilm, by_model("prove this theorem")) == first


def test_an_index_that_followed_the_change_equals_one_read_anew(
    place: StorePlace, static: PatternStore, minilm: PatternStore
) -> None:
    for number, text in enumerate(TEXTS):
        turn(static, f"s{number}", by_table(text))
    minilm.evidence(PLAIN, by_model(TEXTS[0]))
    for number, text in enumerate(TEXTS[:2]):
        turn(minilm, f"m{number}", by_model(text), score=0)
    with closing(PatternStore(place, maker=MINILM)) as fresh:
        for text in TEXTS:
            assert minilm.evidence(PLAIN, by_model(text)) == fresh.evidence(PLAIN, by_model(text))


def test_a_target_is_calibrated_for_each_maker(
    static: PatternStore, minilm: PatternStore, place: StorePlace
) -> None:
    for number in range(30):
        text = f"{TEXTS[number % 4]}, number {number}"
        turn(static, f"t{number}", by_table(text), ("p:m", "p:n")[number % 2], number % 3 > 0)
    own = static.evidence(PLAIN, by_table(TEXTS[0]), 0, HALF).evidence
    other = minilm.evidence(PLAIN, by_model(TEXTS[0]), 0, HALF).evidence
    assert own is not None
    assert other is not None
    assert own.calibration_id is not None
    assert own.calibration_id.startswith("sha256:")
    assert other.calibration_id is not None
    assert other.calibration_id.startswith("minilm/1:sha256:")
    # Each finds its own again, though the other's is newer.
    for maker, vector, found in ((STATIC, by_table, own), (MINILM, by_model, other)):
        with closing(PatternStore(place, maker=maker)) as fresh:
            again = fresh.evidence(PLAIN, vector(TEXTS[0]), 0, HALF).evidence
            assert again is not None
            assert again.calibration_id == found.calibration_id


def test_the_nearest_rows_are_the_same_under_every_maker(
    static: PatternStore, minilm: PatternStore
) -> None:
    for number, text in enumerate(TEXTS):
        turn(static, f"t{number}", by_table(text))
    for text in TEXTS:
        assert static.nearest(PLAIN, by_table(text), 3) == minilm.nearest(PLAIN, by_model(text), 3)


def test_tokens_are_made_anew_for_looks_that_have_those_letters(
    static: PatternStore, minilm: PatternStore
) -> None:
    turn(static, "t1", by_table("prove this theorem"))
    turn(static, "t2", by_table("join these two tables"))
    lacking = minilm.without_tokens()
    assert [turn_id for _, turn_id in lacking] in (["t1", "t2"], ["t2", "t1"])
    assert minilm.count_without_tokens() == 2
    before = likeness(minilm, by_model("prove this theorem"))
    name = next(name for name, turn_id in lacking if turn_id == "t1")
    assert not minilm.put_tokens(name, *halves(by_model("something else")))
    assert minilm.put_tokens(name, *halves(by_model("prove this theorem")))
    assert likeness(minilm, by_model("prove this theorem")) > before
    assert minilm.count_without_tokens() == 1
    assert static.count_without_tokens() == 1
