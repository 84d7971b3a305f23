"""A target becomes a threshold: by leave one out, deterministic, kept, made anew with growth."""

import pytest
from msgspec import UNSET

from pointsman.errors import DocumentError
from pointsman.kernel.instant import DAY, Instant
from pointsman.kernel.number import ONE, Billionths, MicroUsd, billionths
from pointsman.signals.embedding import text_vector
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.turns.learning.calibration import (
    Calibration,
    TriedLook,
    frontier_models,
    reliability,
    threshold,
)
from pointsman.turns.learning.evidence import Estimate, rank_models
from pointsman.turns.learning.fingerprint import Fingerprint
from pointsman.turns.learning.pattern import Target
from pointsman.turns.policy import read_policy, turn_policy
from pointsman.turns.registry.models import EMBEDDED_MODEL

AT = Instant(1_000 * DAY)


def tried(count=200):
    """Give looks on which the strong model is better by ever more."""
    return [
        TriedLook([
            expect("p:weak", 500_000_000, 100 + n % 7),
            expect("p:strong", 400_000_000 + 2_000_000 * n, 900 + n % 13),
        ])
        for n in range(count)
    ]  # fmt: skip


def expect(model, success, cost):
    return Estimate(model, Billionths(success), MicroUsd(cost), 9_000, 0, 9)


def strong_calls(looks, per_usd):
    return sum(rank_models(each.estimates, per_usd)[0][1].model == "p:strong" for each in looks)


@pytest.mark.parametrize("share", ["0", "0.2", "0.5", "0.7"])
def test_share_of_strong_calls_is_what_was_asked_for(share):
    looks = tried()
    wanted = billionths(share)
    found = threshold(looks, Target(strong_share=wanted), 0)
    calls = strong_calls(looks, found.success_per_usd)
    assert abs(calls - len(looks) * wanted / ONE) <= 1
    assert found.strong_share == calls * ONE // len(looks)


def test_threshold_lies_between_two_kinds_of_turns_not_at_the_edge_of_one():
    weak = expect("p:weak", 0, 0)
    looks = [
        TriedLook([weak, expect("p:strong", gain, 1_000)])
        for gain in (100_000_000, 900_000_000) * 20
    ]
    found = threshold(looks, Target(strong_share=Billionths(500_000_000)), 0)
    assert 490_000_000 < found.success_per_usd // 1_000 < 510_000_000
    every = threshold(looks, Target(strong_share=ONE), 0)
    assert (every.success_per_usd, every.strong_share) == (0, ONE)


@pytest.mark.parametrize("usd", ["0.2", "0.4", "0.7", "5"])
def test_spend_stays_within_what_was_asked_for_and_comes_close(usd):
    looks = tried()
    wanted = MicroUsd(int(float(usd) * 1_000_000))
    found = threshold(looks, Target(spend_microusd_per_1k=wanted), 0)
    assert found.spend_microusd_per_1k <= wanted
    assert found.success_per_usd >= 0
    if found.success_per_usd:
        spent = sum(
            rank_models(each.estimates, found.success_per_usd - 1)[0][1].cost_microusd
            for each in looks
        )
        assert 1_000 * spent > wanted * len(looks)


def test_too_few_looks_or_a_single_model_give_no_threshold():
    assert threshold(tried(19), Target(strong_share=Billionths(0)), 0) is None
    alone = [TriedLook(each.estimates[:1]) for each in tried()]
    assert threshold(alone, Target(strong_share=Billionths(0)), 0) is None


@pytest.mark.parametrize("share", ["0.8", "0.95", "1"])
def test_share_beyond_the_best_choice_never_buys_worse_answers_for_more_money(share):
    found = threshold(tried(), Target(strong_share=billionths(share)), 0)
    assert found.success_per_usd == 0
    # On a quarter of the looks the weak model is as good or better: they stay with it.
    assert found.strong_share == strong_calls(tried(), 0) * ONE // 200 < 760_000_000


def three(count=100, dear=600_000_000):
    """Give looks with a cheap, a good and a dear model; the dear one is worse than the good."""
    return [
        TriedLook([
            expect("p:cheap", 500_000_000 + 1_000_000 * (n % 50), 100),
            expect("p:dear", dear, 9_000),
            expect("p:good", 700_000_000 + 1_000_000 * n, 1_000),
        ])
        for n in range(count)
    ]  # fmt: skip


def test_strong_is_the_model_with_the_most_success_not_the_dearest():
    found = threshold(three(), Target(strong_share=ONE), 0)
    assert found.frontier == ("p:cheap", "p:good")
    assert found.strong_share == ONE
    half = threshold(three(), Target(strong_share=Billionths(500_000_000)), 0)
    assert half.success_per_usd > 0
    assert half.strong_share == 500_000_000


def test_of_two_equal_models_the_frontier_keeps_one_and_never_the_dearer():
    looks = [
        TriedLook([expect("p:b", 5, 10), expect("p:a", 5, 10), expect("p:c", 5, 11)])
        for _ in range(20)
    ]
    assert frontier_models(looks) == ("p:a",)


def test_share_of_a_model_stays_within_the_most_that_is_wished():
    target = Target(share_of="p:good", most=Billionths(600_000_000))
    found = threshold(three(), target, 0)
    assert found.success_per_usd > 0
    assert found.strong_share == 500_000_000
    never = threshold(three(), Target(share_of="p:dear", most=Billionths(0)), 0)
    assert (never.success_per_usd, never.strong_share) == (0, ONE)


def judged(looks, luck=0):
    """Return the looks with what was observed: what was expected, less some luck."""
    return [
        TriedLook(
            each.estimates,
            {one.model: one.success - luck * (one.model == "p:cheap") for one in each.estimates},
        )
        for each in looks
    ]


def close(count=100):
    """Give looks on which the cheap model is as good as the good one on every second."""
    return [
        TriedLook([
            expect("p:cheap", 800_000_000 - 100_000_000 * (n % 2), 100),
            expect("p:good", 780_000_000, 1_000),
        ])
        for n in range(count)
    ]  # fmt: skip


def test_quality_of_the_best_model_is_kept_for_less_money():
    found = threshold(judged(close()), Target(quality_of="best"), 0)
    chosen = [rank_models(each.estimates, found.success_per_usd)[0][1] for each in close()]
    assert sum(each.success for each in chosen) >= 100 * 780_000_000
    assert found.spend_microusd_per_1k < 1_000 * 1_000
    named = threshold(judged(close()), Target(quality_of="p:good"), 0)
    assert named.success_per_usd == found.success_per_usd
    # One more would give the looks on which the cheap model is worse to it.
    worse = [rank_models(each.estimates, found.success_per_usd + 1)[0][1] for each in close()]
    assert sum(each.success for each in worse) < 100 * 780_000_000


def test_quality_is_not_sold_where_the_cheap_model_was_only_lucky():
    lucky = threshold(judged(close(), luck=60_000_000), Target(quality_of="best"), 0)
    assert lucky.success_per_usd == 0
    assert lucky.optimism == 30_000_000


def test_nothing_is_known_to_be_as_good_without_judgements():
    found = threshold(close(), Target(quality_of="best"), 0)
    assert (found.success_per_usd, found.optimism) == (0, 0)


def test_calibration_holds_until_a_quarter_is_new():
    made = Calibration(100, 80, ())
    assert not made.is_stale(125, 80)
    assert made.is_stale(126, 80)
    assert made.is_stale(100, 101)
    assert made.is_stale(70, 80)


def test_reliability_compares_tenth_by_tenth():
    low, high = reliability([(50_000_000, 0), (70_000_000, ONE), (ONE, ONE)])
    assert (low.tenth, low.count, low.expected, low.observed) == (0, 2, 60_000_000, 500_000_000)
    assert (high.tenth, high.count, high.observed) == (9, 1, ONE)


def recorded(store, start, end):
    for n in range(start, end):
        strong = n % 2
        store.record(
            Fingerprint(),
            text_vector(f"{('add up', 'integrate')[n // 2 % 2]} the numbers of case {n}"),
            model=("p:weak", "p:strong")[strong],
            turn_id=f"t{n}",
            cost_microusd=MicroUsd((100, 900)[strong]),
            latency_ms=1,
            pricing_version="",
            at=AT,
        )
        score = ONE if strong or n // 2 % 2 == 0 else Billionths(0)
        store.update_score(f"t{n}", score, ONE, f"e{n}")


HALF = Target(strong_share=Billionths(500_000_000))


def asked(store, target=HALF):
    return store.evidence(Fingerprint(), text_vector("integrate this"), 0, target).evidence


def test_threshold_is_found_once_kept_and_found_again_by_the_next_process(tmp_path):
    store = PatternStore(tmp_path / "patterns.db")
    recorded(store, 0, 60)
    first = asked(store)
    assert first.calibration_id.startswith("sha256:")
    assert asked(store) == first
    assert asked(store, None).calibration_id is None
    store.close()
    other = PatternStore(tmp_path / "patterns.db")
    assert asked(other) == first
    other.close()


@pytest.mark.parametrize(("models", "is_tried"), [(1, False), (2, True)])
def test_no_look_is_estimated_where_one_model_is_known(tmp_path, models, is_tried):
    pauses = []
    store = PatternStore(tmp_path / "patterns.db")
    for n in range(60):
        store.record(
            Fingerprint(),
            text_vector(f"turn {n}"),
            model=f"acme:{n % models}",
            turn_id=f"t{n}",
            cost_microusd=MicroUsd(1),
            latency_ms=1,
            pricing_version="",
            at=AT,
        )
        store.update_score(f"t{n}", ONE, ONE, f"e{n}")
    with store.experience() as found:
        known, connection = found
        known.threshold(connection, HALF, 0, lambda: pauses.append(1))
    assert bool(pauses) is is_tried
    store.close()


def test_two_stores_with_the_same_turns_find_the_same_threshold(tmp_path):
    found = []
    for name in ("a.db", "b.db"):
        store = PatternStore(tmp_path / name)
        recorded(store, 0, 60)
        found.append(asked(store))
        store.close()
    assert found[0] == found[1]


def test_growth_by_a_quarter_makes_it_anew(tmp_path):
    store = PatternStore(tmp_path / "patterns.db")
    recorded(store, 0, 60)
    first = asked(store).calibration_id
    recorded(store, 60, 64)
    assert asked(store).calibration_id == first
    recorded(store, 64, 90)
    assert asked(store).calibration_id != first
    store.close()


def policy(text):
    models = {}
    read = read_policy(text.encode(), "routing.yaml", {EMBEDDED_MODEL: None}, "/home/u")
    return turn_policy(read, models, "/home/u").pattern


def test_target_is_written_as_a_share_or_as_a_spend():
    found = policy("schema_version: 1\npattern: {method: evidence, target: {strong_share: 0.5}}\n")
    assert (found.method, found.k, found.target) == ("evidence", 0, HALF)
    found = policy(
        "schema_version: 1\npattern: {method: evidence, target: {spend_usd_per_1k: 3}}\n"
    )
    assert found.target.spend_microusd_per_1k == 3_000_000


def test_target_is_written_as_the_quality_or_the_share_of_a_model():
    found = policy("schema_version: 1\npattern: {method: evidence, target: {quality_of: best}}\n")
    assert found.target == Target(quality_of="best")
    named = "{share_of: 'embedded/smollm2-135m', most: 0.25}"
    found = policy(f"schema_version: 1\npattern: {{method: evidence, target: {named}}}\n")
    assert found.target == Target(share_of=EMBEDDED_MODEL, most=Billionths(250_000_000))


def test_cost_weight_that_is_written_overrides_the_target():
    pattern = "{method: evidence, cost_weight: 0.2, target: {strong_share: 1}}"
    found = policy(f"schema_version: 1\npattern: {pattern}\n")
    assert (found.cost_weight, found.target) == (200_000_000, policy("schema_version: 1\n").target)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (
            "method: evidence, target: {}",
            "a target is one of `strong_share`, `spend_usd_per_1k`, `quality_of`, `share_of`",
        ),
        (
            "method: evidence, target: {strong_share: 1, quality_of: best}",
            "a target is one of `strong_share`, `spend_usd_per_1k`, `quality_of`, `share_of`",
        ),
        (
            "method: evidence, target: {share_of: 'embedded:smollm2-135m'}",
            "`share_of: MODEL` and `most: SHARE` stand together",
        ),
        ("method: evidence, target: {quality_of: p:gone}", "`p:gone` is not a model"),
        ("target: {strong_share: 0.5}", "the method `nearest` cannot be given a target"),
    ],
)
def test_target_that_cannot_be_fulfilled_is_refused_with_its_place(pattern, message):
    with pytest.raises(DocumentError) as caught:
        policy(f"schema_version: 1\npattern: {{{pattern}}}\n")
    assert any(message in problem.message for problem in caught.value.problems)
    assert str(caught.value.problems[0].place).startswith("routing.yaml:2:")


def test_exploring_is_written_as_a_share_or_with_its_first_tries_and_its_cap():
    found = policy("schema_version: 1\npattern: {explore: 0.1}\n")
    assert (found.explore, found.explore_first) == (100_000_000, 20)
    assert found.explore_most_microusd is UNSET
    written = "{share: 0.2, first: 5, most_usd_per_day: 0.50}"
    found = policy(f"schema_version: 1\npattern: {{explore: {written}}}\n")
    assert (found.explore, found.explore_first) == (200_000_000, 5)
    assert found.explore_most_microusd == 500_000
    found = policy("schema_version: 1\npattern: {explore: {most_usd_per_day: 1}}\n")
    assert (found.explore, found.explore_first) == (50_000_000, 20)
    off = policy("schema_version: 1\npattern: {explore: {share: 0}}\n")
    assert off.explore is off.explore_first is UNSET


def test_policy_that_names_no_method_means_the_formula():
    found = policy("schema_version: 1\n")
    assert (found.k, found.cost_weight) == (10, 50_000_000)
    assert found.method is found.target is found.explore is found.shadow
