"""The formula of document 002 §5.5: golden numbers come from the formula alone."""

import itertools

import msgspec
import pytest

from pointsman.kernel.number import Billionths, MicroUsd, billionths, microusd
from pointsman.turns.learning.pattern import PatternSettings, Recommendation, recommend
from pointsman.turns.learning.pattern_row import PatternRow, nearest_first

CHEAP, GOOD, OTHER = "a:cheap", "b:good", "c:other"


def row(
    model: str,
    success: str | None,
    cost: str = "0.01",
    samples: int = 10,
    *,
    alike: str = "0.5",
    name: str = "f1",
) -> PatternRow:
    score = None if success is None else billionths(success)
    return PatternRow(name, model, score, microusd(cost), samples, billionths(alike))


def settings(**changes: str | int) -> PatternSettings:
    exact = {
        name: billionths(value) if isinstance(value, str) and name != "mode" else value
        for name, value in changes.items()
    }
    return msgspec.structs.replace(PatternSettings(), **exact)


def scores(found: Recommendation) -> dict[str, int]:
    return {option.model: option.score for option in found.options}


@pytest.mark.req(186)
def test_ten_nearest_rows_are_looked_at_unless_told_otherwise() -> None:
    rows = [row(GOOD, "1", alike=f"0.{place}", name=f"f{place}") for place in range(10, 30)]
    found = recommend(rows, PatternSettings())
    nearest = [f"f{place}" for place in range(29, 19, -1)]
    assert [each.fingerprint_id for each in found.neighbours] == nearest
    assert len(recommend(rows, settings(k=3)).neighbours) == 3


@pytest.mark.req(186)
def test_rows_come_by_similarity_then_fingerprint_then_model() -> None:
    rows = [
        row(GOOD, "1", alike="0.9", name="f2"),
        row(GOOD, "1", alike="0.5", name="f1"),
        row(CHEAP, "1", alike="0.9", name="f2"),
        row(GOOD, "1", alike="0.9", name="f1"),
    ]
    assert [(each.fingerprint_id, each.model) for each in nearest_first(rows)] == [
        ("f1", GOOD),
        ("f2", CHEAP),
        ("f2", GOOD),
        ("f1", GOOD),
    ]


def test_order_of_rows_is_total_even_where_one_is_given_twice() -> None:
    rows = [row(GOOD, score, cost, size) for score, cost, size in _variants()]
    expected = nearest_first(rows)
    assert all(nearest_first(each) == expected for each in itertools.permutations(rows))


def _variants() -> list[tuple[str | None, str, int]]:
    return [
        ("1", "0.01", 3),
        ("0.5", "0.01", 3),
        (None, "0.01", 3),
        ("1", "0.02", 3),
        ("1", "0", 9),
    ]


@pytest.mark.req(187)
def test_a_row_of_fifty_samples_outweighs_a_row_of_one_fifty_times() -> None:
    rows = [row(GOOD, "0.5", samples=50, name="f1"), row(GOOD, "1", samples=1, name="f2")]
    option = recommend(rows, settings(cost_weight="0")).options[0]
    assert option.success == option.score == billionths("0.509803922")
    assert (option.sample_size, option.rows) == (51, 2)


@pytest.mark.req(187)
def test_cost_is_weighted_by_samples_too() -> None:
    rows = [row(GOOD, "1", "0.10", 3, name="f1"), row(GOOD, "1", "0.02", 1, name="f2")]
    assert recommend(rows, PatternSettings()).options[0].cost_microusd == MicroUsd(80_000)


@pytest.mark.req(187)
def test_rows_without_a_score_count_as_samples_but_not_in_the_mean() -> None:
    rows = [row(GOOD, "0.8", samples=4, name="f1"), row(GOOD, None, samples=6, name="f2")]
    found = recommend(rows, PatternSettings())
    assert found.options[0].success == billionths("0.8")
    assert found.sample_size == 10


@pytest.mark.req(188)
def test_cheapest_model_is_fully_efficient_and_the_dearest_not_at_all() -> None:
    rows = [row(CHEAP, "1", "0.01"), row(GOOD, "1", "0.05"), row(OTHER, "1", "0.02")]
    found = recommend(rows, PatternSettings())
    efficiency = {option.model: option.cost_efficiency for option in found.options}
    assert efficiency == {CHEAP: 10**9, GOOD: 0, OTHER: 750_000_000}


@pytest.mark.req(189, 300)
def test_equal_costs_leave_pure_quality() -> None:
    rows = [row(CHEAP, "0.6", "0.03"), row(GOOD, "0.8", "0.03")]
    found = recommend(rows, settings(cost_weight="0.3"))
    assert [option.cost_efficiency for option in found.options] == [0, 0]
    assert scores(found) == {GOOD: billionths("0.56"), CHEAP: billionths("0.42")}
    assert found.model == GOOD


@pytest.mark.req(190)
def test_score_blends_success_and_efficiency() -> None:
    rows = [row(CHEAP, "0.91", "0.004"), row(GOOD, "1", "0.02")]
    found = recommend(rows, PatternSettings())
    assert scores(found) == {GOOD: billionths("0.95"), CHEAP: billionths("0.9145")}
    assert found.confidence == billionths("0.037368421")
    assert found.model is None


@pytest.mark.req(191, 286)
def test_cost_weight_0_and_1_choose_differently() -> None:
    rows = [row(CHEAP, "0.5", "0.001"), row(GOOD, "0.9", "0.05"), row(OTHER, "0.7", "0.02")]
    quality, cost = (recommend(rows, settings(cost_weight=each)) for each in ("0", "1"))
    assert (quality.model, cost.model) == (GOOD, CHEAP)
    assert scores(quality)[GOOD] == billionths("0.9")
    assert scores(cost) == {CHEAP: 10**9, OTHER: billionths("0.612244898"), GOOD: 0}


@pytest.mark.req(192)
def test_confidence_is_the_lead_over_the_runner_up() -> None:
    rows = [row(CHEAP, "0.4"), row(GOOD, "0.8")]
    assert recommend(rows, PatternSettings()).confidence == billionths("0.5")


@pytest.mark.req(192)
def test_a_top_score_of_zero_gives_no_confidence_and_no_choice() -> None:
    found = recommend([row(CHEAP, "0"), row(GOOD, "0")], settings(min_confidence="0"))
    assert (found.model, found.confidence) == (None, 0)
    assert found.reason == "no model of similar turns scores above 0"


@pytest.mark.req(192)
def test_a_single_model_is_certain() -> None:
    found = recommend([row(GOOD, "0.3")], PatternSettings())
    assert (found.model, found.confidence, found.flip_margin) == (GOOD, 10**9, None)
    assert found.reason == "b:good scores 0.285: confidence 1, sample size 10"


@pytest.mark.req(193, 284)
def test_low_confidence_recommends_nothing_but_shows_who_leads() -> None:
    found = recommend([row(CHEAP, "0.80"), row(GOOD, "0.81")], PatternSettings())
    assert (found.model, found.options[0].model) == (None, GOOD)
    assert found.reason == "b:good leads with confidence 0.012345679, below 0.05"


@pytest.mark.req(193)
def test_too_few_samples_recommend_nothing() -> None:
    rows = [row(GOOD, "1", samples=2, name="f1"), row(GOOD, "1", samples=2, name="f2")]
    found = recommend(rows, PatternSettings())
    assert (found.model, found.sample_size) == (None, 4)
    assert found.reason == "b:good leads with sample size 4, below 5"
    assert recommend(rows, settings(min_sample_size=4)).model == GOOD


@pytest.mark.req(193)
def test_gates_let_through_what_just_meets_them() -> None:
    rows = [row(CHEAP, "0.4", samples=5), row(GOOD, "0.8", samples=5)]
    assert recommend(rows, settings(min_confidence="0.5", min_sample_size=5)).model == GOOD
    assert recommend(rows, settings(min_confidence="0.500000001")).model is None


@pytest.mark.req(194)
def test_runner_up_stands_second_among_the_options() -> None:
    rows = [row(OTHER, "0.2"), row(CHEAP, "0.4"), row(GOOD, "0.8")]
    found = recommend(rows, PatternSettings())
    assert [option.model for option in found.options] == [GOOD, CHEAP, OTHER]
    assert f"{CHEAP} 0.38" in found.reason


@pytest.mark.req(195)
@pytest.mark.parametrize("cost_weight", ["0", "0.05", "0.1", "0.3"])
def test_900_against_842_passes_a_gate_of_05_and_fails_one_of_3(cost_weight: str) -> None:
    rows = [row(CHEAP, "0.842"), row(GOOD, "0.9")]
    low = recommend(rows, settings(cost_weight=cost_weight, min_confidence="0.05"))
    high = recommend(rows, settings(cost_weight=cost_weight, min_confidence="0.3"))
    assert low.confidence == high.confidence == billionths("0.064444444")
    assert (low.model, high.model) == (GOOD, None)


def test_equal_scores_are_ranked_by_name() -> None:
    found = recommend([row(GOOD, "0.8"), row(CHEAP, "0.8")], settings(min_confidence="0"))
    assert (found.model, found.confidence, found.flip_margin) == (CHEAP, 0, 0)


@pytest.mark.parametrize(
    ("cost_weight", "margin"),
    [("0.1", "0.111111111"), ("0.3", "0.428571429"), ("0.05", "0.052631579")],
)
def test_flip_margin_is_what_the_dearer_of_two_equals_lacks(cost_weight: str, margin: str) -> None:
    rows = [row(CHEAP, "0.8", "0.01"), row(GOOD, "0.8", "0.02")]
    assert recommend(rows, settings(cost_weight=cost_weight)).flip_margin == billionths(margin)


def test_no_success_can_flip_a_choice_by_cost_alone() -> None:
    rows = [row(CHEAP, "0.1", "0.01"), row(GOOD, "0.9", "0.02")]
    assert recommend(rows, settings(cost_weight="1")).flip_margin is None


def test_nothing_is_recommended_where_nobody_judged() -> None:
    found = recommend([row(CHEAP, None, "0.01"), row(GOOD, None, "0.02")], PatternSettings())
    assert (found.model, found.confidence) == (None, 0)
    assert found.reason == "none of the similar turns has a score"


def test_a_model_nobody_judged_counts_as_without_success() -> None:
    found = recommend([row(CHEAP, None, "0.01"), row(GOOD, "0.9", "0.02")], PatternSettings())
    assert found.model == GOOD
    assert scores(found) == {GOOD: billionths("0.855"), CHEAP: billionths("0.05")}
    assert found.options[1].success is None


@pytest.mark.parametrize("rows", [[], [row(GOOD, "1", samples=0)]])
def test_no_evidence_recommends_nothing(rows: list[PatternRow]) -> None:
    found = recommend(rows, PatternSettings())
    assert (found.model, found.confidence, found.sample_size, found.options) == (None, 0, 0, ())
    assert found.reason == "no similar turns recorded"


def test_free_models_are_scored() -> None:
    found = recommend([row(CHEAP, "0.5", "0"), row(GOOD, "0.9", "0")], PatternSettings())
    assert found.model == GOOD


def test_off_looks_at_nothing_and_observe_recommends_like_apply() -> None:
    rows = [row(GOOD, "0.9")]
    assert recommend(rows, settings(mode="off")) == Recommendation(
        None, Billionths(0), 0, (), (), None, "the pattern store is off"
    )
    assert recommend(rows, settings(mode="observe")) == recommend(rows, PatternSettings())
