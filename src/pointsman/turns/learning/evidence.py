"""What similar turns are evidence of: `pattern.method: evidence`, beside the formula of 002 §5.5.

Many rows instead of ten, the nearest weighing most; every model's estimate is drawn towards its own
mean over all turns, and that towards the mean of all models. So a model that was never near keeps
its prior, and none wins by one lucky row. Whole numbers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Context, Decimal
from math import isqrt
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.number import ONE, SCALE, ZERO, Billionths, MicroUsd, divide
from pointsman.turns.learning.evidence_look import WHOLE, shown_likeness
from pointsman.turns.learning.pattern_row import Count, PatternRow, Price, Share

LEAST_LOOKS: Final = 320
LOOKS_PER_MODEL: Final = 60
MOST_LOOKS: Final = 640

COMPARED: Final = 2_048
"""As many looks are all compared; of more, only those that disagree least in their signs."""

CANDIDATES: Final = 2
"""How many looks are compared for each that is weighed, where there are too many to compare."""

FULL: Final = 65_536
"""The weight of the nearest turn."""

STEP: Final = 2_048
REACH: Final = 622_246
"""How much less alike, as a scalar product, a turn is that weighs 1/e of the nearest: 0.1485."""

OWN_ROWS: Final = 3
"""As many rows speak for a model's own mean, beside those that are near."""

ALL_ROWS: Final = 10
"""As many rows speak for the mean of all models, beside those of the model itself."""

MOST_SAMPLES: Final = 16
"""A look that came back more often than this counts as if it had come back so often."""

MOST_COST: Final = 1_000_000_000
SHOWN: Final = 5

_THOUSAND = 1_000


class ModelEvidence(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One model near a turn, and over all turns.

    `weight` and `square` add up the weights of the judged samples near the turn and their squares;
    `cost_weight` adds up those of all samples. `success` and `cost_microusd` are weighted means, 0
    where nothing is near.
    """

    model: str
    rows: Count
    weight: Count
    square: Count
    success: Share
    cost_weight: Count
    cost_microusd: Price
    prior_success: Share
    prior_cost_microusd: Price
    prior_rows: Count


class Evidence(Struct, frozen=True, forbid_unknown_fields=True):
    """What a turn's decision may know about similar turns: sums by model, and the nearest rows.

    `success_per_usd` is how much success a dollar must buy, found out by `calibration_id` for the
    target of the policy; None without a target. The models that a calibration chooses among are
    its `frontier`, and `optimism` is by how much it found their success overestimated.
    """

    models: tuple[ModelEvidence, ...]
    looks: Count
    nearest: tuple[PatternRow, ...]
    calibration_id: str | None = None
    success_per_usd: Annotated[int, Meta(ge=-MAX_INT, le=MAX_INT)] | None = None
    frontier: tuple[str, ...] | UnsetType = UNSET
    optimism: Share | UnsetType = UNSET


class Estimate(Struct, frozen=True, gc=False):
    """What a model is expected to do on a turn; `effective_rows` is in thousandths."""

    model: str
    success: Billionths
    cost_microusd: MicroUsd
    effective_rows: int
    variance: int
    rows: int


class Outcomes(Struct, frozen=True, gc=False):
    """What one model did on one look, as it counts: sums over at most `MOST_SAMPLES` samples."""

    judged: int
    success: int
    samples: int
    cost: int

    @classmethod
    def of(cls, samples: int, mean_cost: int, judged: int, mean_success: int) -> Outcomes:
        """Cap the samples counted for a look."""
        counted, weighed = min(samples, MOST_SAMPLES), min(judged, MOST_SAMPLES)
        cost = min(mean_cost, MOST_COST)
        return cls(weighed, weighed * mean_success, counted, counted * cost)


class Near(Struct, frozen=True):
    """A recorded look, how alike it is, and what each model did on it."""

    name: str
    product: int
    outcomes: dict[str, Outcomes]


class Prior(Struct, frozen=True, gc=False):
    """One model over all turns: sums of `Outcomes`."""

    model: str
    judged: int
    success: int
    samples: int
    cost: int


class OwnMean(Struct, frozen=True, gc=False):
    """One model's mean over all turns, drawn towards the mean of all models."""

    model: str
    success: Billionths
    cost_microusd: MicroUsd
    rows: int


def looks_for(models: int) -> int:
    """Return how many looks are weighed for this many models."""
    return min(MOST_LOOKS, max(LEAST_LOOKS, LOOKS_PER_MODEL * models))


def all_compared(k: int, compared: int = COMPARED) -> int:
    """Return up to how many looks are all compared: to leave out less than half is no gain."""
    return max(compared, 2 * CANDIDATES * k)


def candidates(disagreements: Sequence[int], k: int, compared: int = COMPARED) -> list[int]:
    """Return the places worth comparing; those that disagree as little as the last count too."""
    wanted = CANDIDATES * k
    if len(disagreements) <= all_compared(k, compared):
        return [*range(len(disagreements))]
    bar = sorted(disagreements)[wanted - 1]
    return [place for place, each in enumerate(disagreements) if each <= bar]


def weight(product: int, best: int) -> int:
    """Return the weight of a look by how much less alike it is than the nearest."""
    return WEIGHTS[min((best - product) // STEP, len(WEIGHTS) - 1)]


def _weights() -> tuple[int, ...]:
    # DETERMINISM: one correctly rounded exponential, then whole numbers.
    ratio_of_steps = int((Decimal(-STEP) / REACH).exp(Context(prec=40)).scaleb(30))
    found, value = [], FULL * 10**30
    while value >= 10**30:
        found.append(value // 10**30)
        value = value * ratio_of_steps // 10**30
    return (*found, 0)


WEIGHTS: Final = _weights()


def gather_evidence(near: Sequence[Near], priors: Sequence[Prior], k: int) -> Evidence:
    """Weigh the k most similar looks; those as alike as the last of them count too."""
    ordered = sorted(near, key=lambda each: (-each.product, each.name))
    last = ordered[:k][-1].product if ordered else 0
    kept = [each for each in ordered if each.product >= last]
    weights = [weight(each.product, kept[0].product) for each in kept]
    return Evidence(
        models=tuple(_model_evidence(own, kept, weights) for own in own_means(priors)),
        looks=len(kept),
        nearest=tuple(row for each in kept for row in _rows(each))[:SHOWN],
    )


def _model_evidence(own: OwnMean, kept: Sequence[Near], weights: Sequence[int]) -> ModelEvidence:
    found = [
        (weighed, each.outcomes[own.model])
        for weighed, each in zip(weights, kept, strict=True)
        if own.model in each.outcomes
    ]
    return model_evidence(
        own,
        rows=sum(1 for weighed, each in found if weighed and each.judged),
        weight=sum(weighed * each.judged for weighed, each in found),
        square=sum(weighed * weighed * each.judged for weighed, each in found),
        success=sum(weighed * each.success for weighed, each in found),
        cost_weight=sum(weighed * each.samples for weighed, each in found),
        cost=sum(weighed * each.cost for weighed, each in found),
    )


def model_evidence(  # noqa: PLR0913 - each is a sum of its own
    own: OwnMean,
    *,
    rows: int,
    weight: int,
    square: int,
    success: int,
    cost_weight: int,
    cost: int,
) -> ModelEvidence:
    """Turn the sums of one model into recorded means, each rounded once, half to even."""
    return ModelEvidence(
        model=own.model,
        rows=rows,
        weight=weight,
        square=square,
        success=Billionths(divide(success, weight)) if weight else ZERO,
        cost_weight=cost_weight,
        cost_microusd=MicroUsd(divide(cost, cost_weight) if cost_weight else 0),
        prior_success=own.success,
        prior_cost_microusd=own.cost_microusd,
        prior_rows=own.rows,
    )


def own_means(priors: Sequence[Prior]) -> tuple[OwnMean, ...]:
    """Draw each model's mean over all turns towards the mean of all models."""
    all_success, all_cost = _shared_prior(priors)
    return tuple(
        OwnMean(
            prior.model,
            Billionths(divide(prior.success + ALL_ROWS * all_success, prior.judged + ALL_ROWS)),
            MicroUsd(divide(prior.cost, prior.samples) if prior.samples else all_cost),
            prior.judged,
        )
        for prior in priors
    )


def _shared_prior(priors: Iterable[Prior]) -> tuple[int, int]:
    """Return the mean success and the mean cost of all models over all turns."""
    sums = [(each.judged, each.success, each.samples, each.cost) for each in priors]
    judged, success, samples, cost = (sum(column) for column in zip((0,) * 4, *sums, strict=True))
    # Without any judgement, nothing speaks for success or against it.
    all_success = divide(success, judged) if judged else SCALE // 2
    return all_success, divide(cost, samples) if samples else 0


def _rows(near: Near) -> list[PatternRow]:
    alike = shown_likeness(near.product)
    return [
        shown_row(near.name, model, each, alike) for model, each in sorted(near.outcomes.items())
    ]


def shown_row(name: str, model: str, each: Outcomes, alike: Billionths) -> PatternRow:
    """Return an outcome as a row, for people to look at."""
    return PatternRow(
        fingerprint_id=name,
        model=model,
        success=Billionths(divide(each.success, each.judged)) if each.judged else None,
        cost_microusd=MicroUsd(divide(each.cost, each.samples or 1)),
        sample_size=each.samples,
        similarity=alike,
    )


def evidence_of_rows(rows: Sequence[PatternRow], k: int | None) -> Evidence:
    """Weigh rows that a caller gave; they are all that is known about their models."""
    near: dict[str, Near] = {}
    sums: dict[str, list[int]] = {}
    for row in rows:
        judged = 0 if row.success is None else row.sample_size
        found = Outcomes.of(row.sample_size, row.cost_microusd, judged, row.success or 0)
        product = divide(row.similarity * WHOLE, SCALE)
        known = near.setdefault(row.fingerprint_id, Near(row.fingerprint_id, product, {}))
        known.outcomes.setdefault(row.model, found)
        total = sums.setdefault(row.model, [0, 0, 0, 0])
        numbers = (found.judged, found.success, found.samples, found.cost)
        sums[row.model] = [sum(pair) for pair in zip(total, numbers, strict=True)]
    priors = [Prior(model, *numbers) for model, numbers in sorted(sums.items())]
    return gather_evidence([*near.values()], priors, k or looks_for(len(priors)))


def estimate(found: ModelEvidence) -> Estimate:
    """Draw the mean near a turn towards the model's own mean over all turns."""
    own = OWN_ROWS * FULL
    success = divide(found.weight * found.success + own * found.prior_success, found.weight + own)
    cost = divide(
        found.cost_weight * found.cost_microusd + own * found.prior_cost_microusd,
        found.cost_weight + own,
    )
    effective = divide(_THOUSAND * found.weight**2, found.square) if found.square else 0
    # The prior is worth its rows, but no more than there are.
    behind = effective + _THOUSAND * min(OWN_ROWS, found.prior_rows)
    spread = success * (SCALE - success)
    return Estimate(
        model=found.model,
        success=Billionths(success),
        cost_microusd=MicroUsd(cost),
        effective_rows=effective,
        variance=spread * _THOUSAND // max(behind, _THOUSAND),
        rows=found.rows,
    )


def standard_error(variance: int) -> Billionths:
    """Return the root of a variance in billionths squared."""
    return Billionths(isqrt(variance))


# The chance, in billionths, that a normal number lies within so many quarters of its deviation.
_WITHIN = (
    0, 197_412_651, 382_924_923, 546_745_295, 682_689_492, 788_700_453, 866_385_597, 919_881_686,
    954_499_736, 975_551_055, 987_580_669, 994_040_474, 997_300_204, 998_845_950, 999_534_742,
    999_823_165, 999_936_658,
)  # fmt: skip


def confidence_of(difference: int, variance: int) -> Billionths:
    """Return the confidence that a difference is real: 0 for a coin flip, 1 for certainty."""
    if variance <= 0:
        return ONE if difference > 0 else ZERO
    error = max(1, isqrt(variance))
    quarters, rest = divmod(4 * max(0, difference), error)
    if quarters >= len(_WITHIN) - 1:
        return Billionths(_WITHIN[-1])
    low, high = _WITHIN[quarters], _WITHIN[quarters + 1]
    return Billionths(low + divide((high - low) * rest, error))


def success_per_usd(cost_weight: Billionths, models: Iterable[ModelEvidence]) -> int:
    """Return the success a dollar must buy, so that `cost_weight` means the same on every turn.

    It weighs the whole way from the dearest to the cheapest mean against the whole of success.
    """
    prices = [each.prior_cost_microusd for each in models]
    span = max(prices) - min(prices)
    if span == 0 or cost_weight == 0:
        return 0
    if cost_weight >= SCALE:
        return MAX_INT
    return min(MAX_INT, divide(cost_weight * SCALE * 10**6, (SCALE - cost_weight) * span))


def score_of(found: Estimate, per_usd: int) -> int:
    """Return the success that is left when the cost is paid."""
    return found.success - divide(per_usd * found.cost_microusd, 10**6)


Scored = tuple[int, Estimate]


def rank_models(estimates: Iterable[Estimate], per_usd: int) -> list[Scored]:
    """Put models in order: the best score first, then the cheaper, then by name."""
    scored = [(score_of(each, per_usd), each) for each in estimates]
    return sorted(scored, key=lambda pair: (-pair[0], pair[1].cost_microusd, pair[1].model))


def effective_text(thousandths: int) -> str:
    """Write effective rows with one decimal."""
    whole, tenths = divmod(divide(thousandths, 100), 10)
    return f"{whole}.{tenths}" if tenths else f"{whole}"
