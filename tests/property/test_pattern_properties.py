"""The pattern formula and the vectors against models that are naive and exact."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.kernel.number import SCALE, Billionths, MicroUsd
from pointsman.turns.learning.fingerprint import Fingerprint, cosine, hashed_vector, similarity
from pointsman.turns.learning.pattern import PatternSettings, ScoredModel, recommend
from pointsman.turns.learning.pattern_row import PatternRow, nearest_first

SHARES = st.sampled_from([0, 1, SCALE // 3, SCALE // 2, SCALE - 1, SCALE]) | st.integers(0, SCALE)
ROWS = st.lists(
    st.builds(
        PatternRow,
        fingerprint_id=st.sampled_from("fgh"),
        model=st.sampled_from(["p:a", "p:b", "p:c", "q:d"]),
        success=st.none() | SHARES.map(Billionths),
        cost_microusd=st.sampled_from([0, 1, 10, 10_000]).map(MicroUsd)
        | st.integers(0, 10**9).map(MicroUsd),
        sample_size=st.integers(0, 60),
        similarity=SHARES.map(Billionths),
    ),
    max_size=16,
)
SETTINGS = st.builds(
    PatternSettings,
    k=st.integers(1, 14),
    cost_weight=SHARES.map(Billionths),
    min_confidence=SHARES.map(Billionths),
    min_sample_size=st.integers(0, 80),
)
quickly = settings(max_examples=300, derandomize=True, deadline=None)


def mean(pairs: list[tuple[int, int]]) -> Fraction:
    return Fraction(sum(value * size for value, size in pairs), sum(size for _, size in pairs))


def naive_scores(rows: list[PatternRow], knobs: PatternSettings) -> dict[str, Fraction]:
    used = [row for row in nearest_first(rows)[: knobs.k] if row.sample_size]
    models = {row.model for row in used}
    own = {model: [row for row in used if row.model == model] for model in models}
    cost = {m: mean([(row.cost_microusd, row.sample_size) for row in own[m]]) for m in models}
    weight = Fraction(knobs.cost_weight, SCALE)
    scores = {}
    for model in models:
        judged = [(row.success, row.sample_size) for row in own[model] if row.success is not None]
        success = mean(judged) / SCALE if judged else Fraction(0)
        spread = max(cost.values()) - min(cost.values())
        efficiency = (max(cost.values()) - cost[model]) / spread if spread else Fraction(0)
        scores[model] = (1 - weight) * success + weight * efficiency
    return scores


@quickly
@given(ROWS, SETTINGS, st.randoms(use_true_random=False))
def test_order_in_which_rows_are_given_changes_nothing(rows, knobs, source) -> None:
    shuffled = list(rows)
    source.shuffle(shuffled)
    assert recommend(shuffled, knobs) == recommend(rows, knobs)


@quickly
@given(ROWS, SETTINGS)
def test_everything_scored_lies_between_0_and_1(rows, knobs) -> None:
    found = recommend(rows, knobs)
    for option in found.options:
        assert 0 <= option.score <= SCALE
        assert 0 <= option.cost_efficiency <= SCALE
        assert option.success is None or 0 <= option.success <= SCALE
    assert 0 <= found.confidence <= SCALE
    assert found.flip_margin is None or found.flip_margin >= 0
    assert found.reason


@pytest.mark.req(190)
@quickly
@given(ROWS, SETTINGS)
def test_scores_are_the_exact_ones_rounded_once(rows, knobs) -> None:
    found = recommend(rows, knobs)
    exact = naive_scores(rows, knobs)
    assert {option.model: option.score for option in found.options} == {
        model: round(score * SCALE) for model, score in exact.items()
    }


@pytest.mark.req(192, 193)
@quickly
@given(ROWS, SETTINGS)
def test_winner_is_the_exact_one_unless_the_scores_tie_when_rounded(rows, knobs) -> None:
    found = recommend(rows, knobs)
    exact = naive_scores(rows, knobs)
    if found.model is None:
        assert not exact or is_too_little(found.options, found.confidence, knobs)
        return
    best = max(exact.values())
    assert round(exact[found.model] * SCALE) == round(best * SCALE)
    assert not is_too_little(found.options, found.confidence, knobs)


def is_too_little(
    options: tuple[ScoredModel, ...], confidence: Billionths, knobs: PatternSettings
) -> bool:
    return (
        options[0].score == 0
        or all(option.success is None for option in options)
        or confidence < knobs.min_confidence
        or options[0].sample_size < knobs.min_sample_size
    )


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=4).map(tuple)
LOOKS = st.builds(
    Fingerprint,
    file_extensions=WORDS,
    file_path_buckets=WORDS,
    tool_names=WORDS,
    side_effect_classes=WORDS,
    has_images=st.booleans(),
    estimated_input_tokens_bucket=st.integers(0, 3),
    intent_tags=WORDS,
    workload_id=st.sampled_from([None, "w", "v"]),
)


@quickly
@given(LOOKS, LOOKS)
def test_similarity_is_mutual_and_between_0_and_1(left, right) -> None:
    assert similarity(left, right) == similarity(right, left)
    assert 0 <= similarity(left, right) <= SCALE
    assert similarity(left, left) == SCALE


@quickly
@given(st.text(max_size=300), st.text(max_size=300))
def test_cosine_is_mutual_and_whole_for_one_text(left, right) -> None:
    one, other = hashed_vector(left), hashed_vector(right)
    if one and other:
        assert cosine(one, other) == cosine(other, one)
        assert -SCALE <= cosine(one, other) <= SCALE
        assert cosine(one, one) == SCALE


@quickly
@given(st.binary(min_size=64, max_size=64), st.binary(min_size=64, max_size=64))
def test_cosine_is_rounded_to_the_nearest_billionth(left, right) -> None:
    pairs = list(zip(memoryview(left).cast("b"), memoryview(right).cast("b"), strict=True))
    dot = sum(a * b for a, b in pairs)
    squares = sum(a * a for a, _ in pairs) * sum(b * b for _, b in pairs)
    found = abs(cosine(left, right))
    # |found - x| <= 1/2 for x = |dot| * 10^9 / sqrt(squares), in whole numbers.
    wanted = 4 * dot * dot * SCALE * SCALE
    assert wanted <= (2 * found + 1) ** 2 * squares
    assert found == 0 or (2 * found - 1) ** 2 * squares <= wanted


@quickly
@given(st.integers(0, 2**32 - 1), st.integers(1, 1_024))
def test_dot_products_through_float32_are_exact(seed, width) -> None:
    np = pytest.importorskip("numpy")
    source = np.random.default_rng(seed)
    matrix = source.integers(-127, 128, (7, width))
    vector = source.integers(-127, 128, width)
    carried = matrix.astype(np.float32) @ vector.astype(np.float32)
    assert (carried.astype(np.int64) == matrix.astype(np.int64) @ vector.astype(np.int64)).all()
