"""What similar turns speak for: the cost and quality formula of document 002 §5.5.

Means, efficiencies and scores are exact fractions, each rounded once, half to even, to billionths.
Ranking, confidence and gates use the rounded scores, so the screen shows the numbers that decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path
from pointsman.kernel.literal import AtLeastOne, Fraction, Neighbours, Usd
from pointsman.kernel.number import (
    ONE,
    SCALE,
    ZERO,
    Billionths,
    MicroUsd,
    billionths,
    billionths_text,
    divide,
    microusd,
    ratio,
)
from pointsman.turns.learning.pattern_row import Count, PatternRow, Price, Share, nearest_first
from pointsman.turns.learning.second_opinion import (
    GivenSecondOpinion,
    SecondOpinion,
    second_opinion,
    second_opinion_problems,
)
from pointsman.turns.registry.models import model_id

DEFAULT_COST_WEIGHT = Decimal("0.05")

FIRST_TRIES: Final = 20
"""So often each model of a policy is tried before exploring becomes rarer: as many rows as a
threshold needs at least."""


BEST: Final = "best"
"""In place of a model's name: the one with the most success, of equals the cheapest."""


class GivenTarget(Struct, frozen=True, forbid_unknown_fields=True):
    """What the choice between cheap and dear models should come to, as it is written."""

    strong_share: Fraction | None = None
    spend_usd_per_1k: Usd | None = None
    quality_of: str | None = None
    share_of: str | None = None
    most: Fraction | None = None


class GivenExplore(Struct, frozen=True, forbid_unknown_fields=True):
    """How much of the work may go into getting to know models, as it is written."""

    share: Fraction = Decimal("0.05")
    first: AtLeastOne = FIRST_TRIES
    most_usd_per_day: Usd | None = None


class GivenPattern(Struct, frozen=True, forbid_unknown_fields=True):
    """How the pattern store speaks, as it is written."""

    mode: Literal["apply", "observe", "off"] = "apply"
    method: Literal["nearest", "evidence"] = "nearest"
    k: Neighbours | None = None
    cost_weight: Fraction | None = None
    min_confidence: Fraction = Decimal("0.05")
    min_sample_size: AtLeastOne = 5
    target: GivenTarget | None = None
    explore: Fraction | GivenExplore = Decimal(0)
    shadow: Fraction = Decimal(0)
    second_opinion: GivenSecondOpinion | None = None


def pattern_settings(given: GivenPattern) -> PatternSettings:
    """Make a section exact. A `cost_weight` that is written overrides the target."""
    is_evidence = given.method == "evidence"
    explore = given.explore
    if not isinstance(explore, GivenExplore):
        explore = GivenExplore(share=explore)
    most, asked = explore.most_usd_per_day, given.second_opinion
    weight = DEFAULT_COST_WEIGHT if given.cost_weight is None else given.cost_weight
    return PatternSettings(
        mode=given.mode,
        k=given.k or (0 if is_evidence else 10),
        cost_weight=billionths(f"{weight:f}"),
        min_confidence=billionths(f"{given.min_confidence:f}"),
        min_sample_size=given.min_sample_size,
        method="evidence" if is_evidence else UNSET,
        target=UNSET if given.target is None or given.cost_weight is not None else _target(given),
        explore=billionths(f"{explore.share:f}") if explore.share else UNSET,
        shadow=billionths(f"{given.shadow:f}") if given.shadow else UNSET,
        explore_first=explore.first if explore.share else UNSET,
        explore_most_microusd=UNSET if most is None else microusd(f"{most:f}"),
        second_opinion=UNSET if asked is None else second_opinion(asked),
    )


def _target(given: GivenPattern) -> Target:
    target = given.target or GivenTarget()
    share, spend = target.strong_share, target.spend_usd_per_1k
    return Target(
        None if share is None else billionths(f"{share:f}"),
        None if spend is None else microusd(f"{spend:f}"),
        UNSET if target.quality_of is None else _target_model(target.quality_of),
        UNSET if target.share_of is None else _target_model(target.share_of),
        UNSET if target.most is None else billionths(f"{target.most:f}"),
    )


def _target_model(name: str) -> str:
    return name if name == BEST else model_id(name)


def pattern_problems(given: GivenPattern, document: Document, at: Path) -> Iterable[Problem]:
    """Check what a schema cannot: a target is one wish, and one that the method can fulfil."""
    if given.second_opinion is not None:
        yield from second_opinion_problems(given.second_opinion, document, (*at, "second_opinion"))
    target = given.target
    if target is None:
        return
    place = (*at, "target")
    wishes = (target.strong_share, target.spend_usd_per_1k, target.quality_of, target.share_of)
    if sum(each is not None for each in wishes) != 1:
        message = "a target is one of `strong_share`, `spend_usd_per_1k`, `quality_of`, `share_of`"
        yield document.problem(place, Code.INVALID_VALUE, message)
    if (target.share_of is None) != (target.most is None):
        message = "`share_of: MODEL` and `most: SHARE` stand together"
        yield document.problem(place, Code.INVALID_VALUE, message)
    if given.method != "evidence":
        hint = "write `method: evidence`, or `cost_weight` in place of the target"
        message = "the method `nearest` cannot be given a target"
        yield document.problem(place, Code.INVALID_VALUE, message, hint)


Mode = Literal["apply", "observe", "off"]


class Target(Struct, frozen=True, forbid_unknown_fields=True):
    """What the choice between cheap and dear models should come to: one wish is given."""

    strong_share: Share | None = None
    spend_microusd_per_1k: Price | None = None
    quality_of: str | UnsetType = UNSET
    share_of: str | UnsetType = UNSET
    most: Share | UnsetType = UNSET


class PatternSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The knobs of §5.5. `observe` recommends like `apply`: not to follow it is up to the slot.

    An unset field is not part of the recorded bytes: a policy without a method means the formula of
    §5.5, as it always did. A `k` of 0 leaves the number of rows to the method.
    """

    mode: Mode = "apply"
    k: Annotated[int, Meta(ge=0, le=10_000)] = 10
    cost_weight: Share = Billionths(50_000_000)
    min_confidence: Share = Billionths(50_000_000)
    min_sample_size: Count = 5
    method: Literal["evidence"] | UnsetType = UNSET
    target: Target | UnsetType = UNSET
    explore: Share | UnsetType = UNSET
    shadow: Share | UnsetType = UNSET
    explore_first: Count | UnsetType = UNSET
    explore_most_microusd: Price | UnsetType = UNSET
    second_opinion: SecondOpinion | UnsetType = UNSET


class ExploringSoFar(Struct, frozen=True, forbid_unknown_fields=True):
    """How often each model was tried, and about how much exploring cost since midnight, UTC."""

    tried: dict[str, Count]
    spent_microusd: Price


class ScoredModel(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One model of the neighbourhood; `success` is None, and counts as 0, while none is judged."""

    model: str
    score: Billionths
    success: Billionths | None
    cost_efficiency: Billionths
    cost_microusd: MicroUsd
    sample_size: int
    rows: int


class Recommendation(Struct, frozen=True, forbid_unknown_fields=True):
    """What the neighbourhood speaks for; `model` is None where it is too little to go by.

    `confidence` and `sample_size` are those of the best option, chosen or not. `flip_margin` is
    how far the runner-up's success would have to rise to draw level, which may be out of reach.
    """

    model: str | None
    confidence: Billionths
    sample_size: int
    options: tuple[ScoredModel, ...]
    neighbours: tuple[PatternRow, ...]
    flip_margin: Billionths | None
    reason: str


def recommend(rows: Sequence[PatternRow], settings: PatternSettings) -> Recommendation:
    """Weigh the K nearest rows and say which model they speak for, if any."""
    if settings.mode == "off":
        return _nothing((), "the pattern store is off")
    neighbours = nearest_first(rows)[: settings.k]
    options = _rank(_groups(neighbours), settings.cost_weight)
    if not options:
        return _nothing(neighbours, "no similar turns recorded")
    confidence = _confidence(options)
    refusal = _refusal(options, confidence, settings)
    return Recommendation(
        model=None if refusal else options[0].model,
        confidence=confidence,
        sample_size=options[0].sample_size,
        options=options,
        neighbours=neighbours,
        flip_margin=_flip_margin(options, settings.cost_weight),
        reason=refusal or _praise(options, confidence),
    )


def _nothing(neighbours: tuple[PatternRow, ...], reason: str) -> Recommendation:
    return Recommendation(None, ZERO, 0, (), neighbours, None, reason)


class _Group(Struct, frozen=True):
    """The sums behind one model's means: `judged` samples have a success, all have a cost."""

    model: str
    success: int
    judged: int
    cost: int
    samples: int
    rows: int


def _groups(rows: Iterable[PatternRow]) -> list[_Group]:
    """Group rows by model; a row without samples is evidence of nothing."""
    sums: dict[str, list[int]] = {}
    for row in rows:
        size = row.sample_size
        if size <= 0:
            continue
        # success, judged, cost, samples, rows: the order of a group's fields
        found = sums.setdefault(row.model, [0, 0, 0, 0, 0])
        if row.success is not None:
            found[0] += row.success * size
            found[1] += size
        found[2] += row.cost_microusd * size
        found[3] += size
        found[4] += 1
    return [_Group(model, *found) for model, found in sums.items()]


def _rank(groups: Sequence[_Group], cost_weight: Billionths) -> tuple[ScoredModel, ...]:
    if not groups:
        return ()
    dearest = cheapest = groups[0]
    for group in groups:
        dearest = group if _is_dearer(group, dearest) else dearest
        cheapest = group if _is_dearer(cheapest, group) else cheapest
    options = [
        _score(group, _efficiency(group, cheapest, dearest), cost_weight) for group in groups
    ]
    return tuple(sorted(options, key=lambda option: (-option.score, option.model)))


def _is_dearer(left: _Group, right: _Group) -> bool:
    return left.cost * right.samples > right.cost * left.samples


def _efficiency(group: _Group, cheapest: _Group, dearest: _Group) -> tuple[int, int]:
    """Return (dearest - own) / (dearest - cheapest) as numerator and denominator."""
    spread = dearest.cost * cheapest.samples - cheapest.cost * dearest.samples
    if spread == 0:
        # Where all cost the same there is nothing to weigh: the term is 0, not 0/0.
        return 0, 1
    saved = dearest.cost * group.samples - group.cost * dearest.samples
    return saved * cheapest.samples, spread * group.samples


def _score(group: _Group, efficiency: tuple[int, int], cost_weight: Billionths) -> ScoredModel:
    saved, spread = efficiency
    judged = group.judged or 1
    quality = (SCALE - cost_weight) * group.success * spread
    thrift = cost_weight * saved * judged * SCALE
    return ScoredModel(
        model=group.model,
        score=Billionths(divide(quality + thrift, SCALE * judged * spread)),
        success=Billionths(divide(group.success, judged)) if group.judged else None,
        cost_efficiency=ratio(saved, spread),
        cost_microusd=MicroUsd(divide(group.cost, group.samples)),
        sample_size=group.samples,
        rows=group.rows,
    )


def _confidence(options: Sequence[ScoredModel]) -> Billionths:
    """Return (top - runner-up) / top; 1 for one model, 0 where the top is 0 or none is judged."""
    top = options[0].score
    if top <= 0 or not _is_judged(options):
        return ZERO
    return ratio(top - options[1].score, top) if len(options) > 1 else ONE


def _is_judged(options: Iterable[ScoredModel]) -> bool:
    # Without this, a store without judgements would recommend the cheapest model, fully confident.
    return any(option.success is not None for option in options)


def _refusal(
    options: Sequence[ScoredModel], confidence: Billionths, settings: PatternSettings
) -> str:
    """Say why the best option is not good enough, or nothing."""
    top = options[0]
    if not _is_judged(options):
        return "none of the similar turns has a score"
    if top.score <= 0:
        return "no model of similar turns scores above 0"
    if confidence < settings.min_confidence:
        found, wanted = billionths_text(confidence), billionths_text(settings.min_confidence)
        return f"{top.model} leads with confidence {found}, below {wanted}"
    if top.sample_size < settings.min_sample_size:
        size = f"sample size {top.sample_size}, below {settings.min_sample_size}"
        return f"{top.model} leads with {size}"
    return ""


def _praise(options: Sequence[ScoredModel], confidence: Billionths) -> str:
    top, *others = options
    rival = f", {others[0].model} {billionths_text(others[0].score)}" if others else ""
    return (
        f"{top.model} scores {billionths_text(top.score)}{rival}: "
        f"confidence {billionths_text(confidence)}, sample size {top.sample_size}"
    )


def _flip_margin(options: Sequence[ScoredModel], cost_weight: Billionths) -> Billionths | None:
    if len(options) == 1 or cost_weight >= SCALE:
        return None
    return ratio(options[0].score - options[1].score, SCALE - cost_weight)
