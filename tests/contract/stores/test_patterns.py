"""Patterns: the same turns give the same neighbours in the same order, wherever they are kept."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pointsman.kernel.instant import DAY, Instant
from pointsman.kernel.number import ONE, Billionths, MicroUsd, billionths
from pointsman.storage.place import Store, StorePlace
from pointsman.storage.store_url import opened_store
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.storage.stores.patterns.writing import Caps, ImportRow, Recorded
from pointsman.turns.learning.evidence_look import TOKENS
from pointsman.turns.learning.fingerprint import (
    DIMENSIONS,
    Fingerprint,
    fingerprint_id,
    hashed_vector,
)
from pointsman.turns.learning.pattern import Target

AT = Instant(1_000 * DAY)
PLAIN = Fingerprint()
HALF = Billionths(500_000_000)
WORDS = ("fix", "the", "parser", "test", "commit", "docs", "slow", "query", "page", "error")


@pytest.fixture
def place(store: Store) -> StorePlace:
    return store.place("patterns")


@pytest.fixture
def patterns(place: StorePlace) -> Iterator[PatternStore]:
    with closing(PatternStore(place)) as found:
        yield found


def turn(
    store: PatternStore,
    name: str,
    look: Fingerprint = PLAIN,
    vector: bytes = b"",
    *,
    model: str = "p:m",
    at: Instant = AT,
) -> Recorded:
    return store.record(
        look,
        vector,
        model=model,
        turn_id=name,
        cost_microusd=MicroUsd(1_000),
        latency_ms=7,
        pricing_version="2026-01",
        at=at,
    )


def some_look(source: random.Random) -> tuple[Fingerprint, bytes]:
    """Give a turn's look of which many are alike, and some have no text."""
    pick = source.choice
    look = Fingerprint(
        file_extensions=tuple(source.sample([".py", ".sql", ".md"], source.randrange(3))),
        intent_tags=tuple(source.sample(["test", "doc", "debug"], source.randrange(3))),
        tool_names=pick([(), ("grep",), ("grep", "edit")]),
        has_images=pick([False, False, True]),
        estimated_input_tokens_bucket=source.randrange(2),
        workspace_hash=pick(["", "a", "b"]),
        workload_id=pick([None, None, "w1", "w2"]),
    )
    text = " ".join(source.choices(WORDS, k=source.randrange(4)))
    vector = pick([b"", hashed_vector(text), hashed_vector(text)])
    if vector and source.random() < 0.2:
        vector += bytes(source.randrange(256) for _ in range(TOKENS))
    return look, vector


def test_a_store_has_rows_once_a_turn_was_counted(patterns: PatternStore) -> None:
    assert not patterns.has_rows()
    turn(patterns, "t1")
    assert patterns.has_rows()


def test_nothing_is_found_before_anything_is_recorded(patterns: PatternStore) -> None:
    assert patterns.nearest(PLAIN, b"", 5) == ()
    assert patterns.summaries() == []
    assert patterns.report() == []
    assert patterns.origins() == {}


def test_a_turn_counts_once_and_a_verdict_can_be_taken_back(patterns: PatternStore) -> None:
    assert turn(patterns, "t1").is_new_fingerprint
    assert not turn(patterns, "t1").is_new_turn
    assert turn(patterns, "t2").sample_size_after == 2
    assert patterns.update_score("t1", billionths("0.9"), ONE, "e1") == "counted"
    assert patterns.update_score("t1", billionths("0.9"), ONE, "e1") == "known"
    assert patterns.update_score("t1", billionths("0.2"), ONE, "e2") == "counted"
    assert patterns.update_score("t1", billionths("0.7"), Billionths(1), "e3") == "unsure"
    assert patterns.update_score("t9", ONE, ONE, "e4") == "no_such_turn"
    (row,) = patterns.nearest(PLAIN, b"", 5)
    assert (row.success, row.sample_size, row.cost_microusd) == (billionths("0.2"), 2, 1_000)


def test_what_is_too_old_or_too_many_goes(place: StorePlace) -> None:
    with closing(PatternStore(place, Caps(soft=2, hard=3))) as store:
        looks = [Fingerprint(intent_tags=(str(number),)) for number in range(5)]
        for number, look in enumerate(looks[:4]):
            done = turn(store, f"t{number}", look, at=Instant(AT + number))
        assert [each.trigger for each in done.evicted] == ["hard_cap_evict"]
        assert len(store.nearest(PLAIN, b"", 9)) == 3
        done = turn(store, "late", looks[4], at=Instant(AT + 200 * DAY))
        assert [(each.trigger, each.entries_evicted) for each in done.evicted] == [("age_trim", 3)]
        assert [each.fingerprint for each in store.summaries()] == [looks[4]]


def test_listing_showing_and_reporting_tell_the_same(patterns: PatternStore) -> None:
    other = Fingerprint(intent_tags=("test",))
    turn(patterns, "t1", model="p:b")
    turn(patterns, "t2", model="p:B")
    turn(patterns, "t3", other, hashed_vector("words"), at=Instant(AT + 1))
    assert [each.has_vector for each in patterns.summaries()] == [True, False]
    assert patterns.summaries()[1].models == ("p:B", "p:b")
    shown = patterns.show(fingerprint_id(PLAIN, b""))
    assert [each.model for each in shown.outcomes] == ["p:B", "p:b"]
    assert [(each.model, each.samples) for each in patterns.report()] == [
        ("p:B", 1),
        ("p:b", 1),
        ("p:m", 1),
    ]
    assert patterns.delete(fingerprint_id(PLAIN, b"")) == fingerprint_id(PLAIN, b"")
    assert len(patterns.summaries()) == 1


def test_an_import_counts_once(patterns: PatternStore) -> None:
    rows = [
        ImportRow(name, PLAIN, b"", "p:m", billionths(success), MicroUsd(10), samples)
        for name, success, samples in (("a", "0.5", 4), ("b", "1", 12))
    ]
    assert patterns.import_rows(rows, AT).added == 2
    assert patterns.import_rows(rows, AT).skipped == 2
    (row,) = patterns.nearest(PLAIN, b"", 5)
    assert (row.success, row.sample_size) == (billionths("0.875"), 16)


def test_a_store_is_in_step_with_what_another_did(
    place: StorePlace, patterns: PatternStore
) -> None:
    turn(patterns, "t0")
    with closing(PatternStore(place)) as other:
        target = Target(strong_share=HALF)
        for number in range(3):
            look = Fingerprint(intent_tags=(str(number),))
            turn(patterns, f"t{number + 1}", look, hashed_vector(f"text {number}"))
            assert len(other.nearest(PLAIN, b"", 9)) == number + 2
            found = other.evidence(PLAIN, b"", 9, target).evidence
            assert found is not None
            assert found.looks == number + 2
        other.update_score("t1", ONE, ONE, "e1")
        name = Fingerprint(intent_tags=("0",))
        (best, *_) = patterns.nearest(name, hashed_vector("text 0"), 1)
        assert best.success == ONE
        other.delete(best.fingerprint_id)
        assert best.fingerprint_id not in {
            row.fingerprint_id for row in patterns.nearest(PLAIN, b"", 9)
        }
        after = patterns.evidence(PLAIN, b"", 9).evidence
        assert after is not None
        assert after.looks == 3


def test_turns_of_many_processes_are_all_counted(place: StorePlace) -> None:
    def work(part: int) -> None:
        with closing(PatternStore(place)) as store:
            for number in range(10):
                turn(store, f"{part} {number}", Fingerprint(intent_tags=(str(number % 3),)))

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with closing(PatternStore(place)) as store:
        assert sum(row.sample_size for row in store.nearest(PLAIN, b"", 9)) == 40


@pytest.mark.parametrize("has_vectors", [True, False], ids=["pgvector", "numpy"])
@pytest.mark.parametrize("seed", range(3))
def test_postgres_finds_the_same_neighbours_in_the_same_order(
    tmp_path: Path, store_url: str, seed: int, has_vectors: bool
) -> None:
    """Whatever was recorded, deleted and asked for, ties included; so does the evidence."""
    source = random.Random(seed)
    here = PatternStore(tmp_path / "patterns.db")
    there = PatternStore(opened_store(tmp_path, store_url).place("patterns"))
    with closing(here), closing(there):
        for number in range(50):
            look, vector = some_look(source)
            model = source.choice(["p:a", "p:b", "q:a"])
            score = Billionths(source.randrange(ONE))
            for store in (here, there):
                turn(store, f"t{number}", look, vector, model=model, at=Instant(AT + number))
                if number % 2:
                    store.update_score(f"t{number}", score, ONE, f"e{number}")
        gone = source.choice(here.summaries()).fingerprint_id
        assert here.delete(gone) == there.delete(gone)
        assert there._search is not None, "the server has pgvector"
        if not has_vectors:
            there._search = None
        for _ in range(25):
            look, vector = some_look(source)
            k = source.choice([1, 2, 5, 10, 100])
            letters = vector[:DIMENSIONS]
            assert there.nearest(look, letters, k) == here.nearest(look, letters, k)
            assert there.evidence(look, vector, k) == here.evidence(look, vector, k)
        assert there.summaries() == here.summaries()
        assert there.report() == here.report()
