"""`pattern.method: evidence`: soft weights, shrinkage, confidence and exploration."""

import math
from itertools import pairwise

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from pointsman.kernel.number import ONE, Billionths, MicroUsd
from pointsman.placement.trace import Placed
from pointsman.signals.embedding import hashed_letters, static_tokens
from pointsman.testing import a_policy, some_facts
from pointsman.turns.chain.exploring import explore_draw, is_explored, shadow_model
from pointsman.turns.compiled import compile_policy
from pointsman.turns.decide import DECIDER, decide
from pointsman.turns.facts import FACTS_FORM, BudgetLeft
from pointsman.turns.learning.evidence import (
    FULL,
    OWN_ROWS,
    REACH,
    STEP,
    WEIGHTS,
    Evidence,
    ModelEvidence,
    Near,
    Outcomes,
    Prior,
    confidence_of,
    estimate,
    evidence_of_rows,
    gather_evidence,
    looks_for,
    success_per_usd,
)
from pointsman.turns.learning.evidence_choice import weigh
from pointsman.turns.learning.fingerprint import hashed_vector
from pointsman.turns.learning.pattern import ExploringSoFar, PatternSettings
from pointsman.turns.learning.pattern_row import PatternRow
from pointsman.turns.policy import POLICY_FORM
from pointsman.turns.registry.prices import Price

SETTINGS = PatternSettings(k=0, method="evidence")
ALONE = {"rows": 9, "square": 9 * FULL * FULL, "cost_weight": 9 * FULL}


def model(name, success, *, cost=1_000, weight=9 * FULL, **other):
    numbers = {"prior_success": 500_000_000, "prior_cost_microusd": cost, "prior_rows": 40}
    if weight == 0:
        numbers |= {"rows": 0, "square": 0, "cost_weight": 0}
    else:
        numbers |= ALONE
    numbers |= other
    return ModelEvidence(
        model=name, weight=weight, success=Billionths(success), cost_microusd=cost, **numbers
    )


def evidence(*models, **other):
    return Evidence(tuple(models), 9, (), **other)


def test_weights_fall_by_e_within_their_reach():
    assert WEIGHTS[0] == FULL
    assert WEIGHTS[-1] == 0
    assert abs(WEIGHTS[REACH // STEP] - FULL / math.e) < 100
    assert all(near >= far for near, far in pairwise(WEIGHTS))


def test_more_models_need_more_looks_up_to_a_cap():
    assert [looks_for(count) for count in (1, 2, 8, 11, 50)] == [320, 320, 480, 640, 640]


def test_estimate_is_drawn_to_the_models_own_mean():
    found = estimate(model("p:a", 1_000_000_000, weight=9 * FULL))
    assert found.success == (9 * 1_000_000_000 + OWN_ROWS * 500_000_000) // 12
    assert found.effective_rows == 9_000


def test_model_that_is_never_near_keeps_its_prior():
    found = estimate(model("p:a", 0, weight=0, prior_success=700_000_000))
    assert (found.success, found.effective_rows) == (700_000_000, 0)


def test_one_lucky_row_does_not_win():
    near = [Near(f"n{n}", 0, {"p:good": Outcomes.of(1, 10, 1, 800_000_000)}) for n in range(30)]
    near.append(Near("lucky", 0, {"p:lucky": Outcomes.of(1, 10, 1, 1_000_000_000)}))
    priors = [Prior("p:good", 30, 24_000_000_000, 30, 300), Prior("p:lucky", 1, 10**9, 1, 10)]
    found = gather_evidence(near, priors, 320)
    lucky = next(each for each in found.models if each.model == "p:lucky")
    assert lucky.prior_success < 830_000_000
    weighed = weigh(found, SETTINGS)
    assert weighed.model is None
    assert "p:lucky leads with 1 effective rows, below 5" in weighed.reason


def test_confidence_is_the_chance_that_the_lead_is_no_accident():
    one_error = 10**8
    for errors in (0, 0.3, 1, 1.96, 3):
        found = confidence_of(int(errors * one_error), one_error**2) / ONE
        assert abs(found - math.erf(errors / math.sqrt(2))) < 0.004
    assert confidence_of(5, 0) == ONE
    assert confidence_of(-5, 100) == 0


def test_more_rows_make_it_surer():
    few = evidence(model("p:a", 800_000_000), model("p:b", 500_000_000))
    many = evidence(
        *(replace(each, rows=90, weight=90 * FULL, square=90 * FULL * FULL) for each in few.models)
    )
    assert weigh(few, SETTINGS).confidence < weigh(many, SETTINGS).confidence


def test_trace_tells_the_numbers_behind_a_choice():
    weighed = weigh(evidence(model("p:a", 900_000_000), model("p:b", 100_000_000)), SETTINGS)
    first, second = weighed.options
    assert (first.model, first.effective_rows, first.success) == ("p:a", 9_000, 800_000_000)
    assert first.standard_error == math.isqrt(800_000_000 * 200_000_000 // 12)
    assert second.success == 200_000_000
    assert (
        weighed.reason
        == "p:a 80 % ± 12 % of 9 rows over p:b 20 % ± 12 % of 9 rows, confidence 100 %"
    )


def test_cost_weight_weighs_the_whole_way_from_dearest_to_cheapest():
    dear = model("p:dear", 900_000_000, cost=2_000)
    cheap = model("p:cheap", 500_000_000, cost=1_000)
    assert success_per_usd(Billionths(0), (dear, cheap)) == 0
    # At a half, success and cost weigh the same: a whole of success for the thousand between them.
    assert success_per_usd(Billionths(500_000_000), (dear, cheap)) == 10**9 * 10**6 // 1_000
    for weight, chosen in ((0, "p:dear"), (200_000_000, "p:dear"), (300_000_000, "p:cheap")):
        settings = replace(SETTINGS, cost_weight=Billionths(weight))
        assert weigh(evidence(dear, cheap), settings).model == chosen
    everything = replace(SETTINGS, cost_weight=ONE)
    assert weigh(evidence(dear, cheap), everything).options[0].model == "p:cheap"


def test_threshold_of_a_calibration_takes_the_place_of_the_cost_weight():
    dear = model("p:dear", 900_000_000, cost=2_000)
    cheap = model("p:cheap", 500_000_000, cost=1_000)
    found = evidence(dear, cheap, calibration_id="sha256:c", success_per_usd=10**12)
    weighed = weigh(found, replace(SETTINGS, cost_weight=Billionths(0)))
    assert weighed.options[0].model == "p:cheap"
    assert (weighed.calibration_id, weighed.success_per_usd) == ("sha256:c", 10**12)


def test_model_off_the_frontier_is_never_chosen_and_stands_last():
    dear = model("p:dear", 950_000_000, cost=9_000)
    good, cheap = model("p:good", 800_000_000, cost=500), model("p:cheap", 500_000_000, cost=100)
    frontier = ("p:cheap", "p:good")
    found = evidence(dear, good, cheap, success_per_usd=0, frontier=frontier)
    weighed = weigh(found, SETTINGS)
    assert [each.model for each in weighed.options] == ["p:good", "p:cheap", "p:dear"]
    assert weighed.model == "p:good"
    assert weighed.flip_margin == weighed.options[0].score - weighed.options[1].score > 0
    alone = weigh(evidence(dear, good, success_per_usd=0, frontier=("p:good",)), SETTINGS)
    assert (alone.model, alone.confidence) == ("p:good", ONE)
    gone = weigh(evidence(dear, good, success_per_usd=0, frontier=("p:old",)), SETTINGS)
    assert gone.model == "p:dear"


def test_success_of_the_chosen_model_is_told_without_the_luck_of_being_chosen():
    first, second = model("p:a", 900_000_000), model("p:b", 500_000_000)
    found = evidence(first, second, optimism=Billionths(50_000_000))
    weighed = weigh(found, SETTINGS)
    first, second = weighed.options
    assert first.expected_success == first.success - 50_000_000
    assert second.expected_success is UNSET
    assert weighed.reason.endswith("; 75 % where such choices were judged")
    assert weigh(evidence(model("p:a", 900_000_000)), SETTINGS).options[0].expected_success is UNSET


def test_nothing_judged_means_nothing_said():
    found = evidence(model("p:a", 0, weight=0), model("p:b", 0, weight=0))
    assert weigh(found, SETTINGS).reason == "none of the similar turns has a score"


def test_rows_a_caller_gives_are_evidence_too():
    rows = [
        PatternRow(f"f{n}", f"p:{'ab'[n % 2]}", Billionths(10**9 * (n % 2)), MicroUsd(5), 3, ONE)
        for n in range(20)
    ]
    found = evidence_of_rows(rows, 0)
    assert [each.model for each in found.models] == ["p:a", "p:b"]
    assert weigh(found, SETTINGS).model == "p:b"


def ready(**pattern):
    policy = a_policy("acme:a", "acme:a", "acme:b").policy
    settings = replace(SETTINGS, **pattern)
    return compile_policy(replace(policy, pattern=settings, tiers={"fast": "acme:b"}))


def facts(**other):
    found = evidence(model("acme:b", 900_000_000), model("acme:a", 200_000_000))
    return replace(some_facts("hello"), pattern_evidence=found, **other)


def test_decision_by_evidence_is_recorded_with_its_numbers_and_replays():
    policy = ready()
    outcome, trace = decide(policy, facts())
    assert outcome.chosen_model == "acme:b"
    slot = trace.chain[outcome.winner_index]
    assert (slot.policy, slot.pattern_alternatives[0].effective_rows) == ("pattern", 9_000)
    again = POLICY_FORM.form.decode(POLICY_FORM.form.encode(policy.policy))
    told = FACTS_FORM.decode(FACTS_FORM.encode(facts()))
    assert decide(compile_policy(again), told) == (outcome, trace)
    assert DECIDER.kind == "turn"


def test_facts_and_policies_without_evidence_have_the_bytes_they_always_had():
    plain = some_facts("hello")
    assert b"pattern_evidence" not in FACTS_FORM.encode(plain)
    assert b"explore" not in FACTS_FORM.encode(plain)
    encoded = POLICY_FORM.form.encode(a_policy("acme:a", "acme:a").policy)
    assert all(word not in encoded for word in (b"method", b"target", b"explore", b"shadow"))


def test_share_of_turns_goes_to_the_runner_up_and_is_marked():
    policy = ready(explore=Billionths(100_000_000))
    drawn = [explore_draw(f"t{n}", policy.policy.pattern) for n in range(2_000)]
    chosen = [decide(policy, facts(explore_draw=each))[0].chosen_model for each in drawn]
    assert 150 < chosen.count("acme:a") < 250
    explored = next(each for each in drawn if each < 100_000_000)
    _, trace = decide(policy, facts(explore_draw=explored))
    assert trace.chain[-1].is_exploring is True
    assert trace.chain[-1].reason == "exploring the runner-up of acme:b"


def test_nothing_is_explored_by_default():
    assert explore_draw("t1", SETTINGS) is UNSET
    policy = ready()
    assert not is_explored(facts(explore_draw=Billionths(0)), policy, policy.scope(None))


def test_nothing_is_explored_or_shadowed_where_a_turn_stays_on_this_machine():
    policy = ready(explore=ONE, shadow=ONE)
    placed = Placed("sha256:p", "PRIVACY_LOCAL", "local", "it stays")
    for stays in (facts(privacy_level="local"), facts(placement=placed)):
        drawn = replace(stays, explore_draw=Billionths(0))
        assert not is_explored(drawn, policy, policy.scope(None))
        assert shadow_model("t1", policy, stays, "acme:a") is None
    assert shadow_model("t1", policy, facts(), "acme:a") == "acme:b"


DRAWN = Billionths(0)


def pattern_slot(policy, found):
    _, trace = decide(policy, found)
    return next(each for each in trace.chain if each.policy == "pattern")


def so_far(spent=0, **tried):
    counts = {f"acme:{name}": count for name, count in tried.items()}
    return ExploringSoFar(counts, MicroUsd(spent))


def test_store_that_knows_nothing_has_every_model_of_the_policy_tried():
    policy = ready(explore=Billionths(50_000_000), explore_first=2)
    empty = replace(some_facts("hello"), explore_draw=DRAWN)
    reasons = []
    tried = {"a": 0, "b": 0}
    for _ in range(4):
        slot = pattern_slot(policy, replace(empty, exploring=so_far(**tried)))
        assert slot.is_exploring is True
        tried[slot.candidate_model.removeprefix("acme:")] += 1
        reasons.append(slot.reason)
    assert tried == {"a": 2, "b": 2}
    assert reasons == [f"exploring: try {n} of the first 2" for n in (1, 1, 2, 2)]
    slot = pattern_slot(policy, replace(empty, exploring=so_far(**tried)))
    assert (slot.verdict, slot.reason) == ("not_applicable", "no similar turns recorded")


def test_newcomer_is_tried_where_the_store_speaks_for_another():
    policy = ready(explore=Billionths(50_000_000), explore_first=20)
    found = facts(explore_draw=DRAWN, exploring=so_far(a=19, b=200))
    slot = pattern_slot(policy, found)
    assert (slot.candidate_model, slot.is_exploring) == ("acme:a", True)
    assert slot.pattern_alternatives[0].model == "acme:b"
    # Who draws more than the share, or looked up nothing, follows the store.
    for other in ({"explore_draw": Billionths(50_000_000)}, {"exploring": UNSET}):
        followed = pattern_slot(ready(explore=DRAWN, explore_first=20), replace(found, **other))
        assert (followed.candidate_model, followed.is_exploring) == ("acme:b", UNSET)


@pytest.mark.parametrize(("least", "is_drawn"), [(20, True), (40, True), (41, False), (400, False)])
def test_exploring_becomes_rarer_with_what_is_known(least, is_drawn):
    policy = ready(explore=Billionths(100_000_000), explore_first=20)
    found = facts(explore_draw=Billionths(49_999_999), exploring=so_far(a=least, b=900))
    assert is_explored(found, policy, policy.scope(None)) is is_drawn
    assert (pattern_slot(policy, found).is_exploring is True) is is_drawn


def test_exploring_stops_where_its_money_for_the_day_is_gone():
    price = Price(input=MicroUsd(1_000_000), output=MicroUsd(0))
    policy = ready(explore=ONE, explore_first=20, explore_most_microusd=MicroUsd(1_000_000))
    found = facts(explore_draw=DRAWN)
    gone = replace(found, exploring=so_far(1_000_000))
    assert pattern_slot(policy, gone).is_exploring is UNSET
    # Of a model without a price nothing is known to be within the rest.
    unpriced = replace(found, exploring=so_far(999_999))
    assert pattern_slot(policy, unpriced).is_exploring is UNSET
    models = {name: replace(model, price=price) for name, model in policy.policy.models.items()}
    priced = compile_policy(replace(policy.policy, models=models))
    count = {"estimated_input_tokens": {"*": 1_000}}
    for spent, is_tried in ((999_000, True), (999_001, False)):
        slot = pattern_slot(priced, replace(found, exploring=so_far(spent), **count))
        assert (slot.is_exploring is True) is is_tried


def test_model_that_may_not_take_the_turn_is_not_tried():
    policy = ready(explore=ONE, explore_first=20)
    found = facts(explore_draw=DRAWN, exploring=so_far(), availability={"acme": "unavailable"})
    assert pattern_slot(policy, found).is_exploring is UNSET


def test_nothing_is_explored_or_shadowed_over_a_budget():
    broke = (BudgetLeft("day", MicroUsd(0)),)
    policy = ready(explore=ONE, shadow=ONE)
    found = facts(explore_draw=Billionths(0), budgets=broke)
    _, trace = decide(policy, found)
    slot = next(each for each in trace.chain if each.policy == "pattern")
    # The runner-up would have been explored: without a budget left, neither it nor the first may.
    assert (slot.verdict, slot.validation_failure) == ("rejected", "over_budget")
    assert slot.is_exploring is UNSET
    assert shadow_model("t1", policy, found, "acme:a") is None


def test_shadow_share_is_drawn_from_the_turn_alone():
    policy = ready(shadow=Billionths(250_000_000))
    picked = [shadow_model(f"t{n}", policy, facts(), "acme:a") for n in range(2_000)]
    assert picked == [shadow_model(f"t{n}", policy, facts(), "acme:a") for n in range(2_000)]
    assert 430 < picked.count("acme:b") < 570
    assert set(picked) == {None, "acme:b"}


@pytest.mark.parametrize(
    "text",
    ["", "a", "The quick brown fox. " * 9, "Straße 漢字 \U0001f600", "x" * 5_000, "\x00\ud800"],
)
def test_fast_letters_are_the_letters(text):
    assert hashed_letters(text) == hashed_vector(text)


def test_like_words_have_like_tokens():
    def cosine(left, right):
        first, second = (
            memoryview(static_tokens(each)).cast("b").tolist() for each in (left, right)
        )
        dot = sum(a * b for a, b in zip(first, second, strict=True))
        return dot / math.sqrt(sum(a * a for a in first) * sum(b * b for b in second))

    asked = "solve the quadratic equation for x"
    assert cosine(asked, "find the roots of this polynomial") > cosine(
        asked, "bake a chocolate cake"
    )
    assert static_tokens("") == static_tokens("\n \t") == b""
    assert len(static_tokens(asked)) == 128


def test_shadow_of_a_local_answer_stays_local():
    policy = ready(shadow=ONE)
    here = {
        name: replace(each, location="local") if name == "acme:a" else each
        for name, each in policy.models.items()
    }
    local = compile_policy(replace(policy.policy, models=here))
    assert shadow_model("t1", local, facts(), "acme:a") is None
    assert shadow_model("t1", local, facts(), "acme:b") == "acme:a"


def test_policy_tells_whether_anything_is_learned_on_purpose():
    assert not ready().learns_on_purpose
    assert ready(shadow=ONE).learns_on_purpose
    assert ready(explore=ONE).learns_on_purpose
    assert not ready(shadow=ONE, mode="off").learns_on_purpose
