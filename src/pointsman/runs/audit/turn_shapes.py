"""A turn's decision as it is told, over HTTP and MCP alike: the published schemas are these."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from pointsman.placement.trace import Placed
from pointsman.turns.trace import Banner, RuleAttempt, Slot, ValidationFailure, Verdict

InstantText = Annotated[str, Meta(description="RFC 3339, in UTC with microseconds")]


class ChainLink(Struct, frozen=True):
    """What one slot of a turn's chain said."""

    policy: Slot
    verdict: Verdict
    candidate_model: str | None
    reason: str
    rule_name: str | None
    rule_attempts: tuple[RuleAttempt, ...]
    confidence: float | None
    validation_failure: ValidationFailure | None


class RouteDecided(Struct, frozen=True):
    """A turn's decision: which model takes it, and what every slot of the chain said."""

    decision_id: str
    turn_id: str
    chosen_model: str
    winner_index: int
    decision_version: int
    policy_id: str
    facts_id: str
    elapsed_ms: float
    banners: tuple[Banner, ...]
    placement: Placed | None
    chain: tuple[ChainLink, ...]
