"""The pattern store: counting, scoring with exact rollback, nearest rows and caps."""

import threading

import apsw
import pytest
from tests.unit.pattern_shelf import AT, PLAIN, Store, look

from pointsman.errors import InputError, LedgerUnavailable, NotFound
from pointsman.kernel.instant import DAY
from pointsman.kernel.number import ONE, Billionths, MicroUsd, billionths
from pointsman.storage.stores.patterns.writing import Caps, Evicted, ImportRow
from pointsman.turns.learning.fingerprint import fingerprint_id, hashed_vector
from pointsman.turns.learning.pattern_row import PatternRow


@pytest.fixture
def path(tmp_path):
    return tmp_path / "patterns.db"


@pytest.fixture
def store(path):
    opened = Store(path)
    yield opened
    opened.close()


def test_turns_that_look_alike_are_counted_together(store):
    first = store.turn("t1", cost=1_000)
    second = store.turn("t2", cost=2_001)
    assert (first.is_new_fingerprint, first.sample_size_before, first.sample_size_after) == (
        True,
        0,
        1,
    )
    assert (second.is_new_fingerprint, second.sample_size_before, second.sample_size_after) == (
        False,
        1,
        2,
    )
    assert store.only() == PatternRow(
        fingerprint_id(PLAIN, b""), "p:m", None, MicroUsd(1_500), 2, Billionths(ONE)
    )


def test_a_turn_counts_once(store):
    store.turn("t1")
    again = store.turn("t1", cost=99)
    assert (again.is_new_turn, again.sample_size_after) == (False, 1)
    assert store.only().cost_microusd == 1_000


def test_scores_move_the_mean_and_count_once(store):
    store.turn("t1")
    store.turn("t2")
    assert store.score("t1", "0.8", "e1") == "counted"
    assert store.score("t1", "0.8", "e1") == "known"
    assert store.only().success == billionths("0.8")
    assert store.score("t2", "0.3", "e2") == "counted"
    assert store.only().success == billionths("0.55")


def test_the_latest_verdict_replaces_the_one_before_exactly(store):
    for turn in ("t1", "t2", "t3"):
        store.turn(turn)
    store.score("t1", "0.1", "e1")
    store.score("t2", "0.7", "e2")
    before = store.only()
    store.score("t3", "0.333333333", "e3")
    store.score("t3", "0.4", "e4")
    store.score("t1", "0.9", "e5")
    store.score("t1", "0.1", "e6")
    assert store.score("t3", "0.333333333", "e3") == "known"
    assert before.success == store.only().success == billionths("0.4")


def test_unsure_verdicts_do_not_move_the_mean(store):
    store.turn("t1")
    assert store.score("t1", "0.2", "e1", billionths("0.499999999")) == "unsure"
    assert store.only().success is None
    store.score("t1", "0.8", "e2", billionths("0.5"))
    store.score("t1", "0.1", "e3", billionths("0.4"))
    assert store.only().success == billionths("0.8")


def test_a_verdict_on_an_unknown_turn_changes_nothing(store):
    store.turn("t1")
    assert store.score("t9", "0.5", "e1") == "no_such_turn"
    assert store.score("t1", "0.5", "e1") == "counted"


@pytest.mark.parametrize(
    ("score", "confidence"), [(-1, ONE), (ONE + 1, ONE), (0, -1), (0, ONE + 1)]
)
def test_scores_outside_0_to_1_are_refused(store, score, confidence):
    store.turn("t1")
    with pytest.raises(InputError, match="is not between 0 and 1"):
        store.update_score("t1", Billionths(score), Billionths(confidence), "e1")


def test_k_counts_rows_and_not_fingerprints(store):
    for model in ("p:a", "p:b", "p:c"):
        store.turn(f"one {model}", look(1), model=model)
        store.turn(f"two {model}", look(2), model=model)
    names = sorted([fingerprint_id(look(1), b""), fingerprint_id(look(2), b"")])
    rows = store.nearest(PLAIN, b"", 4)
    assert [(row.fingerprint_id, row.model) for row in rows] == [
        (names[0], "p:a"),
        (names[0], "p:b"),
        (names[0], "p:c"),
        (names[1], "p:a"),
    ]


def test_the_most_similar_text_comes_first(store):
    store.turn("t1", text="refactor the parser")
    store.turn("t2", text="what is the capital of France?")
    store.turn("t3")
    rows = store.nearest(PLAIN, hashed_vector("refactor this parser"), 10)
    assert rows[0].fingerprint_id == store.turn("t3").fingerprint_id
    assert rows[0].similarity == ONE
    assert rows[1].fingerprint_id == fingerprint_id(PLAIN, hashed_vector("refactor the parser"))


def test_nothing_recorded_finds_nothing_and_makes_no_file(store, path):
    found = store.find_rows(PLAIN, b"", 10)
    assert (found.rows, found.reason) == ((), "no pattern is recorded yet")
    assert store.summaries() == store.report() == []
    with pytest.raises(NotFound):
        store.show("abc")
    assert not path.exists()


def test_what_was_recorded_is_there_for_the_next_process(store, path):
    store.turn("t1", text="hello")
    store.close()
    other = Store(path)
    assert len(other.nearest(PLAIN, hashed_vector("hello"), 10)) == 1
    other.close()


def test_what_another_process_records_is_found(store, path):
    other = Store(path)
    store.turn("t1", look(1))
    assert len(other.nearest(PLAIN, b"", 10)) == 1
    store.turn("t2", look(2))
    assert len(other.nearest(PLAIN, b"", 10)) == 2
    store.delete(fingerprint_id(look(1), b""))
    assert len(other.nearest(PLAIN, b"", 10)) == 1
    other.close()


def test_damaged_file_gives_no_rows_and_a_reason(store, path):
    path.write_bytes(b"not a database" * 100)
    found = store.find_rows(PLAIN, b"", 10)
    assert found.rows == ()
    assert "the pattern store cannot be read" in found.reason
    with pytest.raises(LedgerUnavailable, match="cannot be written now"):
        store.turn("t1")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE fingerprints SET body = CAST('{\"has_images\":true}' AS BLOB)",
        "UPDATE fingerprints SET body = CAST('{' AS BLOB)",
        "UPDATE fingerprints SET body = x'7b22ff'",
        "UPDATE fingerprints SET vector = zeroblob(1024)",
        "UPDATE fingerprints SET vector = x'01'",
        "DROP TABLE outcomes",
    ],
)
def test_changed_table_gives_no_rows_and_a_reason(store, path, change):
    store.turn("t1", text="hello")
    assert store.find_rows(PLAIN, b"", 10).reason == ""
    connection = apsw.Connection(str(path))
    connection.execute(change)
    connection.close()
    found = store.find_rows(PLAIN, b"", 10)
    assert found.rows == ()
    assert "the pattern store cannot be read" in found.reason


def test_a_failed_write_leaves_table_and_index_in_step(store):
    store.turn("t1", cost=2**62)
    assert store.only().sample_size == 1
    with pytest.raises(LedgerUnavailable):
        store.turn("t2", cost=2**62)
    assert store.only().sample_size == 1
    store.turn("t2", look(2))
    assert len(store.nearest(PLAIN, b"", 10)) == 2


def test_vector_of_another_length_counts_as_none(store):
    store.record(
        PLAIN,
        b"\x01" * 384,
        model="p:m",
        turn_id="t1",
        cost_microusd=MicroUsd(0),
        latency_ms=0,
        pricing_version="",
        at=AT,
    )
    assert store.only().fingerprint_id == fingerprint_id(PLAIN, b"")


def test_soft_cap_is_told_and_hard_cap_gives_up_the_oldest(path):
    store = Store(path, Caps(soft=2, hard=3))
    assert [store.turn(f"t{n}", look(n), at=AT + n).is_over_soft_cap for n in range(3)] == [
        False,
        False,
        True,
    ]
    assert len(store.nearest(PLAIN, b"", 10)) == 3
    store.turn("t0 again", look(0), at=AT + 10)
    done = store.turn("t3", look(3), at=AT + 11)
    assert done.evicted == (Evicted("hard_cap_evict", 4, 3, 4, 3, 1, 0),)
    kept = {row.fingerprint_id for row in store.nearest(PLAIN, b"", 10)}
    assert kept == {fingerprint_id(look(n), b"") for n in (0, 2, 3)}
    assert store.score("t1", "1", "e1") == "no_such_turn"
    store.close()


def test_of_equally_old_ones_the_least_sampled_goes(path):
    store = Store(path, Caps(soft=2, hard=2))
    store.turn("t1", look(1))
    store.turn("t2", look(1))
    store.turn("t3", look(2))
    store.turn("t4", look(3))
    store.turn("t5", look(3))
    kept = {row.fingerprint_id for row in store.nearest(PLAIN, b"", 10)}
    assert fingerprint_id(look(1), b"") in kept
    assert len(kept) == 2
    store.close()


def test_what_nobody_saw_for_180_days_goes_first(store):
    store.turn("t1", look(1), at=AT)
    store.turn("t2", look(2), at=AT + DAY)
    assert store.turn("t3", look(3), at=AT + 180 * DAY).evicted == ()
    done = store.turn("t4", look(3), at=AT + 180 * DAY + 1)
    assert done.evicted == (Evicted("age_trim", 3, 2, 3, 2, 1, 180),)
    assert len(store.nearest(PLAIN, b"", 10)) == 2


def test_deleting_forgets_everything_and_needs_one_pattern(store):
    store.turn("t1", look(1))
    store.turn("t2", look(2))
    name = fingerprint_id(look(1), b"")
    assert len(store.nearest(PLAIN, b"", 10)) == 2
    with pytest.raises(InputError, match="several patterns begin with"):
        store.delete("sha256:")
    assert store.delete(name.removeprefix("sha256:")[:12]) == name
    assert len(store.nearest(PLAIN, b"", 10)) == 1
    with pytest.raises(NotFound):
        store.show(name)
    assert store.turn("t1", look(1)).is_new_turn


def test_show_and_report_tell_the_sums(store):
    store.turn("t1", model="p:a", cost=1_000)
    store.turn("t2", model="p:a", cost=3_000)
    store.turn("t3", look(2), model="p:b")
    store.score("t1", "0.6", "e1")
    shown = store.show(fingerprint_id(PLAIN, b""))
    (outcome,) = shown.outcomes
    assert (outcome.samples, outcome.score_count, outcome.latency_ms) == (2, 1, 14)
    assert (outcome.success, outcome.mean_cost, outcome.pricing_version) == (
        billionths("0.6"),
        2_000,
        "2026-01",
    )
    first, second = store.report()
    assert (first.model, first.samples, first.judged, first.mean_success) == (
        "p:a",
        2,
        1,
        billionths("0.6"),
    )
    assert (second.model, second.fingerprints, second.mean_success) == ("p:b", 1, None)
    assert {each.models for each in store.summaries()} == {("p:a",), ("p:b",)}
    assert len(store.summaries(1)) == 1


def an_import(name, success="0.5", samples=4):
    score = None if success is None else billionths(success)
    return ImportRow(name, PLAIN, b"", "p:m", score, MicroUsd(10), samples)


def test_imported_rows_are_counted_with_their_samples_once(store):
    done = store.import_rows([an_import("a"), an_import("b", "1", 12), an_import("c", None, 1)], AT)
    assert (done.added, done.skipped, done.is_over_soft_cap) == (3, 0, False)
    assert (store.only().success, store.only().sample_size) == (billionths("0.875"), 17)
    assert store.import_rows([an_import("a"), an_import("d")], AT).skipped == 1
    assert store.only().sample_size == 21


def test_threads_share_a_store(store):
    def work(part):
        for number in range(20):
            store.turn(f"{part} {number}", look(number % 5))
            store.nearest(PLAIN, b"", 10)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(row.sample_size for row in store.nearest(PLAIN, b"", 10)) == 80
