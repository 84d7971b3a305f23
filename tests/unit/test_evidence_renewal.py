"""What was learned is renewed beside the turns: each gets the old or the new, and none waits."""

import threading

import pytest

from pointsman.kernel.instant import DAY, Instant
from pointsman.kernel.number import ONE, Billionths, MicroUsd
from pointsman.signals.embedding import text_vector
from pointsman.storage.stores.patterns.patterns import FEW_LOOKS, PatternStore
from pointsman.storage.stores.patterns.writing import Caps, ImportRow
from pointsman.turns.learning.fingerprint import Fingerprint
from pointsman.turns.learning.pattern import Target

HALF = Target(strong_share=Billionths(500_000_000))


def rows(start, end):
    return [
        ImportRow(
            f"r{n}",
            Fingerprint(),
            text_vector(f"{('add up', 'integrate')[n // 2 % 2]} the numbers of case {n}"),
            ("p:weak", "p:strong")[n % 2],
            ONE if n % 2 or n // 2 % 2 == 0 else Billionths(0),
            MicroUsd((100, 900)[n % 2]),
            1,
        )
        for n in range(start, end)
    ]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "patterns.db"


@pytest.fixture
def learn(path):
    def learn(start, end, caps=None):
        store = PatternStore(path, caps or Caps())
        store.import_rows(rows(start, end), Instant(1_000 * DAY))
        store.close()

    return learn


@pytest.fixture
def store(path):
    store = PatternStore(path, in_background=True)
    yield store
    store.close()


def ask(store, target=HALF):
    return store.evidence(Fingerprint(), text_vector("integrate this"), 0, target)


def settle(store, target=HALF):
    """Ask until a renewal has seen everything: one under way, the next, and what that one kept."""
    for _ in range(3):
        ask(store, target)
        store.wait_for_renewal()


def ask_inline(path, target=HALF):
    store = PatternStore(path)
    found = ask(store, target).evidence
    store.close()
    return found


def test_threshold_is_found_out_beside_the_turn_that_asks_for_it_first(path, learn, store):
    learn(0, 60)
    first = ask(store).evidence
    assert first.models
    assert (first.calibration_id, first.success_per_usd) == (None, None)
    settle(store)
    found = ask(store).evidence
    assert found.calibration_id is not None
    assert found == ask_inline(path)


def test_turns_go_on_with_the_old_until_the_new_is_ready(path, learn, store):
    learn(0, 60)
    before = ask(store, None).evidence
    learn(60, 70)
    assert ask(store, None).evidence == before
    settle(store, None)
    assert ask(store, None).evidence == ask_inline(path, None) != before


def test_threshold_is_found_out_anew_when_much_was_learned(path, learn, store):
    learn(0, 60)
    settle(store)
    first = ask(store).evidence.calibration_id
    learn(60, 100)
    assert ask(store).evidence.calibration_id == first
    settle(store)
    again = ask(store).evidence.calibration_id
    assert again not in {None, first}
    assert again == ask_inline(path).calibration_id


def test_large_store_is_read_beside_the_first_turns(path, learn, store):
    learn(0, FEW_LOOKS + 1)
    found = ask(store, None)
    assert (found.evidence, found.reason) == (None, "what was learned is still being read")
    settle(store, None)
    assert ask(store, None).evidence == ask_inline(path, None)


def test_too_few_looks_have_no_threshold_searched_for(learn, store):
    learn(0, 10)
    ask(store)
    assert [each.name for each in threading.enumerate() if each.name == "patterns"] == []


@pytest.mark.parametrize("hard", [40, 59])
def test_evicted_looks_are_gone_from_the_index_in_use(path, learn, hard):
    learn(0, 60)
    caps = Caps(soft=hard, hard=hard)
    kept = PatternStore(path, caps)
    ask(kept, None)
    kept.import_rows(rows(60, 63), Instant(1_001 * DAY))
    found = ask(kept, None).evidence
    kept.close()
    assert found.looks == hard
    assert found == ask_inline(path, None)
