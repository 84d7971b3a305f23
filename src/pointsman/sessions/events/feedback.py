"""What people think of a turn, said or shown."""

from __future__ import annotations

from typing import ClassVar, Literal

from pointsman.sessions.events.event import Actor, Sensitivity, SessionEvent, Words


class FeedbackExplicit(SessionEvent, frozen=True):
    """Somebody said how good something was."""

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
    """What somebody did says how good something was."""

    type: ClassVar[str] = "feedback.implicit"
    sensitivity: ClassVar[Sensitivity] = "pseudonymous"
    actor: ClassVar[Actor] = "user"

    signal: Literal["retry", "manual_swap", "edit_followup", "abandon", "accept"]
    confidence: str
    subject_turn_id: str | None
    context: str
