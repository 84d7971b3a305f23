"""Sessions and turns: how they begin and end, and how users rate them."""

from __future__ import annotations

from typing import ClassVar, Literal

from pointsman.sessions.events.event import Actor, Sensitivity, SessionEvent, Words

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
