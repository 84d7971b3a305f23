"""Events round a decision: `route.decided` itself is the recorded decision."""

from __future__ import annotations

from typing import ClassVar, Literal

from pointsman.sessions.events.event import Actor, Sensitivity, SessionEvent


class RouteOverridden(SessionEvent, frozen=True):
    """The user took the pattern's choice instead of the rule's, before the first call."""

    type: ClassVar[str] = "route.overridden"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    actor: ClassVar[Actor] = "user"

    original_chosen_model: str
    new_chosen_model: str
    deferred_policy: Literal["pattern"]
    rule_name: str | None
    pattern_confidence: str


class PatternOverrideDismissed(SessionEvent, frozen=True):
    """The user kept the rule's choice."""

    type: ClassVar[str] = "pattern.override_dismissed"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    actor: ClassVar[Actor] = "user"

    chosen_model: str
    dismissed_pattern_model: str
    rule_name: str | None
    pattern_confidence: str


class PatternRecorded(SessionEvent, frozen=True):
    """A turn was learned from, at its session's end."""

    type: ClassVar[str] = "pattern.recorded"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"

    fingerprint_id: str
    fingerprint_kind: str
    primary_model: str
    sample_size_before: int
    sample_size_after: int
    was_new_fingerprint: bool
    success_score: str | None
    cost_usd_at_record: str
    pricing_version: str
    over_soft_cap: bool


class PatternMatched(SessionEvent, frozen=True):
    """The pattern store chose the model."""

    type: ClassVar[str] = "pattern.matched"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"

    fingerprint_id: str
    fingerprint_kind: str
    chosen_model: str
    confidence: str
    sample_size: int
    k_cluster_size: int
    alternatives_count: int
