"""The `pattern` section of routing.yaml: as it is written, checked, and made exact."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Literal

from msgspec import UNSET, Struct

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path
from pointsman.kernel.number import billionths, microusd
from pointsman.kernel.written_numbers import AtLeastOne, Fraction, Neighbours, Usd
from pointsman.turns.learning.pattern import PatternSettings, Target

DEFAULT_COST_WEIGHT = Decimal("0.05")


class GivenTarget(Struct, frozen=True, forbid_unknown_fields=True):
    """What the choice between cheap and dear models should come to, as it is written."""

    strong_share: Fraction | None = None
    spend_usd_per_1k: Usd | None = None


class GivenPattern(Struct, frozen=True, forbid_unknown_fields=True):
    """How the pattern store speaks, as it is written."""

    mode: Literal["apply", "observe", "off"] = "apply"
    method: Literal["nearest", "evidence"] = "nearest"
    k: Neighbours | None = None
    cost_weight: Fraction | None = None
    min_confidence: Fraction = Decimal("0.05")
    min_sample_size: AtLeastOne = 5
    target: GivenTarget | None = None
    explore: Fraction = Decimal(0)
    shadow: Fraction = Decimal(0)


def pattern_settings(given: GivenPattern) -> PatternSettings:
    """Make a section exact. A `cost_weight` that is written overrides the target."""
    is_evidence = given.method == "evidence"
    weight = DEFAULT_COST_WEIGHT if given.cost_weight is None else given.cost_weight
    return PatternSettings(
        mode=given.mode,
        k=given.k or (0 if is_evidence else 10),
        cost_weight=billionths(f"{weight:f}"),
        min_confidence=billionths(f"{given.min_confidence:f}"),
        min_sample_size=given.min_sample_size,
        method="evidence" if is_evidence else UNSET,
        target=UNSET if given.target is None or given.cost_weight is not None else _target(given),
        explore=billionths(f"{given.explore:f}") if given.explore else UNSET,
        shadow=billionths(f"{given.shadow:f}") if given.shadow else UNSET,
    )


def _target(given: GivenPattern) -> Target:
    target = given.target or GivenTarget()
    share, spend = target.strong_share, target.spend_usd_per_1k
    return Target(
        None if share is None else billionths(f"{share:f}"),
        None if spend is None else microusd(f"{spend:f}"),
    )


def pattern_problems(given: GivenPattern, document: Document, at: Path) -> Iterable[Problem]:
    """Check what a schema cannot: a target is one wish, and one that the method can fulfil."""
    target = given.target
    if target is None:
        return
    place = (*at, "target")
    if (target.strong_share is None) == (target.spend_usd_per_1k is None):
        message = "a target is either `strong_share` or `spend_usd_per_1k`"
        yield document.problem(place, Code.INVALID_VALUE, message)
    if given.method != "evidence":
        hint = "write `method: evidence`, or `cost_weight` in place of the target"
        message = "the method `nearest` cannot be given a target"
        yield document.problem(place, Code.INVALID_VALUE, message, hint)
