"""One outcome that similar turns had, as the facts of a turn hold it. Companion of 002, §2.5."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.number import SCALE, Billionths, MicroUsd

Share = Annotated[Billionths, Meta(ge=0, le=SCALE)]
Price = Annotated[MicroUsd, Meta(ge=0, le=MAX_INT)]
Count = Annotated[int, Meta(ge=0, le=MAX_INT)]


class PatternRow(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """How one model did on the turns of one fingerprint: both numbers are means over its samples.

    `success` is None while none of them is judged.
    """

    fingerprint_id: str
    model: str
    success: Share | None
    cost_microusd: Price
    sample_size: Count
    similarity: Share


class ModelOption(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A model that similar turns speak for.

    Only the method `evidence` sets the fields behind the sample size: the success and the cost it
    expects, how many rows are behind that (in thousandths), and how far off it may well be.
    `expected_success` is that of the first choice, corrected for having been chosen among many.
    """

    model: str
    score: Billionths
    sample_size: int
    success: Billionths | UnsetType = UNSET
    cost_microusd: MicroUsd | UnsetType = UNSET
    effective_rows: int | UnsetType = UNSET
    standard_error: Billionths | UnsetType = UNSET
    expected_success: Billionths | UnsetType = UNSET


class Neighbour(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A recorded turn like this one, and how it went."""

    fingerprint_id: str
    model: str
    similarity: Billionths
    success: Billionths | None
    sample_size: int


def nearest_first(rows: Iterable[PatternRow]) -> tuple[PatternRow, ...]:
    """Put rows in their one order: the most similar first, then by fingerprint, then by model."""
    given = tuple(rows)
    # Rows come from a store that keeps this order: seeing that costs far less than sorting.
    if all(near.similarity > far.similarity for near, far in pairwise(given)):
        return given
    return tuple(sorted(given, key=_rank))


def _rank(row: PatternRow) -> tuple[int, str, str, int, int, int]:
    # DETERMINISM: the last three matter only where a caller gives one row twice with other numbers.
    success = -1 if row.success is None else row.success
    identity = (row.fingerprint_id, row.model)
    return (-row.similarity, *identity, -row.sample_size, row.cost_microusd, -success)
