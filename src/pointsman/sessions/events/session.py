"""Sessions and turns, decisions on them, and what outlives them: skills and memory."""

from __future__ import annotations

from typing import ClassVar, Literal

from pointsman.sessions.events.event import Actor, Sensitivity, SessionEvent, Words


class SkillLoaded(SessionEvent, frozen=True):
    """A skill's text was put before the model."""

    type: ClassVar[str] = "skill.loaded"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"

    skill_id: str
    skill_version: str
    load_reason: Literal["always", "on_demand", "auto_suggested"]
    load_size_tokens: int
    source: str
    triggered_by_tool_use_id: str | None


class SkillCreated(SessionEvent, frozen=True):
    """A skill was written."""

    type: ClassVar[str] = "skill.created"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    actor: ClassVar[Actor] = "agent"

    skill_id: str
    skill_version: str
    source: str
    size_tokens: int


class SkillModified(SessionEvent, frozen=True):
    """A skill was changed."""

    type: ClassVar[str] = "skill.modified"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    actor: ClassVar[Actor] = "agent"
    words: ClassVar[tuple[str, ...]] = ("reason",)

    skill_id: str
    hash_before: str
    hash_after: str
    modification_type: Literal["edit", "delete"]
    reason: Words


class SkillSearch(SessionEvent, frozen=True):
    """Skills were looked for."""

    type: ClassVar[str] = "skill.search"
    actor: ClassVar[Actor] = "agent"
    words: ClassVar[tuple[str, ...]] = ("query",)

    query: Words
    results_count: int
    result_skill_ids: tuple[str, ...]


class MemoryUpdated(SessionEvent, frozen=True):
    """A memory file was changed."""

    type: ClassVar[str] = "memory.updated"
    actor: ClassVar[Actor] = "agent"

    file: str
    operation: Literal["add", "replace", "consolidate"]
    hash_before: str
    hash_after: str
    size_before: int
    size_after: int


class MemoryEviction(SessionEvent, frozen=True):
    """Old memory entries were removed to make room."""

    type: ClassVar[str] = "memory.eviction"

    file: str
    trigger: str
    entries_evicted: int
    size_before: int
    size_after: int


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


TurnStop = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "error", "loop_limit",
    "privacy", "over_budget",
]  # fmt: skip
Disposition = Literal["completed", "abandoned", "error"]
CancelReason = Literal["user_cancel", "client_disconnect", "timeout"]


class SessionCreated(SessionEvent, frozen=True):
    """A session began."""

    type: ClassVar[str] = "session.created"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"

    workspace_path: str | None
    workspace_hash: str
    initial_active_model: str | None
    routing_policy_version: str


class SessionResumed(SessionEvent, frozen=True):
    """A session was opened again."""

    type: ClassVar[str] = "session.resumed"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"

    workspace_hash: str
    last_event_id_at_resume: str | None


class SessionEnded(SessionEvent, frozen=True):
    """A session was closed."""

    type: ClassVar[str] = "session.ended"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"

    disposition: Disposition
    turn_count: int
    total_cost_usd: str
    duration_seconds: str


class TurnStarted(SessionEvent, frozen=True):
    """A user's message began a turn; of its text only the keyed digest is told."""

    type: ClassVar[str] = "turn.started"
    actor: ClassVar[Actor] = "user"
    words: ClassVar[tuple[str, ...]] = ("user_message_hash",)

    user_message_hash: Words
    estimated_input_tokens: int
    has_images: bool
    has_tool_calls_in_history: bool


class TurnCompleted(SessionEvent, frozen=True):
    """A turn ended by itself."""

    type: ClassVar[str] = "turn.completed"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"

    stop_reason: TurnStop
    llm_call_count: int
    tool_call_count: int
    total_input_tokens: int
    total_output_tokens: int
    total_cost_usd: str
    wall_time_seconds: str


class TurnCancelled(SessionEvent, frozen=True):
    """A turn was ended from outside; it never goes on."""

    type: ClassVar[str] = "turn.cancelled"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    actor: ClassVar[Actor] = "user"

    reason: CancelReason
    partial_llm_calls: int
    partial_tool_calls: int


class FeedbackExplicit(SessionEvent, frozen=True):
    """The user rated a turn or session."""

    type: ClassVar[str] = "feedback.explicit"
    sensitivity: ClassVar[Sensitivity] = "aggregatable"
    actor: ClassVar[Actor] = "user"
    words: ClassVar[tuple[str, ...]] = ("comment",)

    scope: Literal["turn", "session"]
    rating: Literal["thumbs_up", "thumbs_down"]
    comment: Words | None
    subject_turn_id: str | None
    subject_session_id: str


class FeedbackImplicit(SessionEvent, frozen=True):
    """The user's next action rated a turn."""

    type: ClassVar[str] = "feedback.implicit"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    actor: ClassVar[Actor] = "user"

    signal: Literal["retry", "manual_swap", "edit_followup", "abandon", "accept"]
    confidence: str
    subject_turn_id: str | None
    context: str
