"""Which model the evidence speaks for, how sure that is, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.number import ONE, ZERO, Billionths, billionths_text
from pointsman.turns.learning.evidence import (
    Estimate,
    Evidence,
    Scored,
    confidence_of,
    effective_text,
    estimate,
    rank_models,
    standard_error,
    success_per_usd,
)
from pointsman.turns.learning.pattern import PatternSettings
from pointsman.turns.learning.pattern_row import ModelOption, Neighbour

_THOUSAND = 1_000


class Weighed(Struct, frozen=True):
    """What the evidence speaks for; `model` is None where it is too little to go by."""

    model: str | None
    confidence: Billionths
    sample_size: int
    options: tuple[ModelOption, ...]
    neighbours: tuple[Neighbour, ...]
    flip_margin: Billionths | None
    reason: str
    success_per_usd: int
    calibration_id: str | None


def weigh(evidence: Evidence, settings: PatternSettings) -> Weighed:
    """Rank the models by the success that is left when the cost is paid."""
    per_usd = evidence.success_per_usd
    if per_usd is None:
        per_usd = success_per_usd(settings.cost_weight, evidence.models) if evidence.models else 0
    options = _rank(evidence, per_usd)
    # A model that another beats in cost and success is no rival.
    rivals = [pair for pair in options if _is_rival(pair, evidence)] or options
    confidence = _confidence(rivals)
    refusal = _refusal(options, confidence, settings)
    return Weighed(
        model=None if refusal else options[0][1].model,
        confidence=confidence,
        sample_size=options[0][1].rows if options else 0,
        options=_options(options, evidence.optimism),
        neighbours=tuple(
            Neighbour(row.fingerprint_id, row.model, row.similarity, row.success, row.sample_size)
            for row in evidence.nearest
        ),
        flip_margin=_clamp(rivals[0][0] - rivals[1][0]) if len(rivals) > 1 else None,
        reason=refusal or _praise(options, confidence, evidence),
        success_per_usd=per_usd,
        calibration_id=evidence.calibration_id,
    )


def _rank(evidence: Evidence, per_usd: int) -> list[Scored]:
    """Put the models in order; those that another beats in cost and success come last."""
    ranked = rank_models(map(estimate, evidence.models), per_usd)
    return sorted(ranked, key=lambda pair: not _is_rival(pair, evidence))


def _is_rival(scored: Scored, evidence: Evidence) -> bool:
    return evidence.frontier is UNSET or scored[1].model in evidence.frontier


def _confidence(options: Sequence[Scored]) -> Billionths:
    """Return the confidence that the first is better than the second."""
    if len(options) < 2:
        return ONE if options else ZERO
    (top, first), (runner_up, second), *_ = options
    return confidence_of(top - runner_up, first.variance + second.variance)


def _refusal(options: Sequence[Scored], confidence: Billionths, settings: PatternSettings) -> str:
    """Say why the evidence is not good enough, or nothing."""
    if not any(found.effective_rows for _, found in options):
        return "none of the similar turns has a score"
    top = options[0][1]
    if top.effective_rows < _THOUSAND * settings.min_sample_size:
        rows = f"{effective_text(top.effective_rows)} effective rows"
        return f"{top.model} leads with {rows}, below {settings.min_sample_size}"
    if confidence < settings.min_confidence:
        found, wanted = billionths_text(confidence), billionths_text(settings.min_confidence)
        return f"{top.model} leads with confidence {found}, below {wanted}"
    return ""


def _praise(options: Sequence[Scored], confidence: Billionths, evidence: Evidence) -> str:
    told = [_estimate_text(found) for _, found in options[:2]]
    praise = f"{' over '.join(told)}, confidence {_percent(confidence)}"
    if evidence.optimism is UNSET:
        return praise
    expected = _success_without_luck(options[0][1], evidence.optimism)
    return f"{praise}; {_percent(expected)} where such choices were judged"


def _success_without_luck(found: Estimate, optimism: int) -> Billionths:
    """Return the success of a chosen model without the luck of having been chosen."""
    return Billionths(max(0, found.success - optimism))


def _estimate_text(found: Estimate) -> str:
    error = _percent(standard_error(found.variance))
    rows = effective_text(found.effective_rows)
    return f"{found.model} {_percent(found.success)} ± {error} of {rows} rows"


def _percent(share: int) -> str:
    return f"{(share + 5_000_000) // 10_000_000} %"


def _options(
    options: Sequence[Scored], optimism: Billionths | UnsetType
) -> tuple[ModelOption, ...]:
    shown = [_option(score, found) for score, found in options]
    if shown and optimism is not UNSET:
        shown[0] = replace(
            shown[0], expected_success=_success_without_luck(options[0][1], optimism)
        )
    return tuple(shown)


def _option(score: int, found: Estimate) -> ModelOption:
    return ModelOption(
        model=found.model,
        score=_clamp(score),
        sample_size=found.rows,
        success=found.success,
        cost_microusd=found.cost_microusd,
        effective_rows=found.effective_rows,
        standard_error=standard_error(found.variance),
    )


def _clamp(score: int) -> Billionths:
    return Billionths(max(-MAX_INT, min(MAX_INT, score)))
