"""What the pattern store tells: fingerprints, how each model did on them, and models in all."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from pointsman.kernel.instant import Instant
from pointsman.kernel.number import Billionths, MicroUsd, divide
from pointsman.storage.connection import Connection
from pointsman.storage.stores.patterns.loading import read_fingerprint
from pointsman.storage.stores.patterns.look import SQL
from pointsman.turns.learning.fingerprint import Fingerprint
from pointsman.turns.learning.pattern_row import PatternRow


class Outcome(Struct, frozen=True):
    """How one model did on the turns of one fingerprint, as sums over its samples."""

    model: str
    samples: int
    score_sum: int
    score_count: int
    cost_microusd: int
    latency_ms: int
    pricing_version: str
    updated: Instant

    @property
    def success(self) -> Billionths | None:
        """The mean score of the samples that have one."""
        return _mean_score(self.score_sum, self.score_count)

    @property
    def mean_cost(self) -> MicroUsd:
        """The mean cost of a sample."""
        return MicroUsd(divide(self.cost_microusd, self.samples))


class Summary(Struct, frozen=True):
    """One fingerprint and how much is known about it."""

    fingerprint_id: str
    fingerprint: Fingerprint
    has_vector: bool
    samples: int
    updated: Instant
    models: tuple[str, ...]


class Pattern(Struct, frozen=True):
    """One fingerprint with the outcomes of every model."""

    summary: Summary
    outcomes: tuple[Outcome, ...]


class ModelTotal(Struct, frozen=True):
    """One model over all fingerprints."""

    model: str
    fingerprints: int
    samples: int
    judged: int
    mean_success: Billionths | None
    mean_cost_microusd: MicroUsd


def outcomes_of(connection: Connection, names: Sequence[str]) -> list[tuple[str, Outcome]]:
    """Return every outcome of these fingerprints, each with its fingerprint's id."""
    rows = connection.execute(SQL["outcomes_of"], (msgspec.json.encode(names).decode(),))
    return [(name, Outcome(*row)) for name, *row in rows]


def pattern_row(name: str, alike: Billionths, outcome: Outcome) -> PatternRow:
    """Return an outcome as a decision may look at it, with how alike its fingerprint is."""
    return PatternRow(
        fingerprint_id=name,
        model=outcome.model,
        success=outcome.success,
        cost_microusd=outcome.mean_cost,
        sample_size=outcome.samples,
        similarity=alike,
    )


def summary(row: tuple[str, bytes, int, int, int, str]) -> Summary:
    """Read a row of `list_fingerprints`."""
    name, body, has_vector, samples, updated, models = row
    listed = tuple(sorted(models.split()))
    return Summary(
        name, read_fingerprint(body), bool(has_vector), samples, Instant(updated), listed
    )


def model_total(row: tuple[str, int, int, int, int, int]) -> ModelTotal:
    """Read a row of `per_model`."""
    model, fingerprints, samples, score_sum, judged, cost = row
    return ModelTotal(
        model=model,
        fingerprints=fingerprints,
        samples=samples,
        judged=judged,
        mean_success=_mean_score(score_sum, judged),
        mean_cost_microusd=MicroUsd(divide(cost, samples)),
    )


def _mean_score(total: int, count: int) -> Billionths | None:
    return Billionths(divide(total, count)) if count else None
