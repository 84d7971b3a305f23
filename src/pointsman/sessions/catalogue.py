"""The events of a session: every payload, its actor, its class of privacy.

The closed list of companion §2.3. Money, seconds and fractions are decimal texts; words of the
conversation stand in fields that `words` names, and are sealed before they reach the ledger.
`route.decided` is not among them: the recorded decision itself is that event.
"""

from __future__ import annotations

from pointsman.sessions.events.calls import (
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    ToolCalled,
    ToolCompleted,
    ToolConfirmationRequested,
    ToolConfirmationResolved,
    ToolFailed,
    ToolInputInvalid,
)
from pointsman.sessions.events.delegation import DelegateCompleted, DelegateFailed, DelegateStarted
from pointsman.sessions.events.routing import (
    PatternMatched,
    PatternOverrideDismissed,
    PatternRecorded,
    RouteOverridden,
)
from pointsman.sessions.events.session import (
    FeedbackExplicit,
    FeedbackImplicit,
    SessionCreated,
    SessionEnded,
    SessionResumed,
    TurnCancelled,
    TurnCompleted,
    TurnStarted,
)
from pointsman.sessions.events.state import (
    MemoryEviction,
    MemoryUpdated,
    SkillCreated,
    SkillLoaded,
    SkillModified,
    SkillSearch,
)

Payload = (
    SessionCreated | SessionResumed | SessionEnded
    | TurnStarted | TurnCompleted | TurnCancelled
    | LlmCallStarted | LlmCallCompleted | LlmCallFailed
    | ToolCalled | ToolCompleted | ToolFailed | ToolInputInvalid
    | ToolConfirmationRequested | ToolConfirmationResolved
    | RouteOverridden | PatternOverrideDismissed | PatternRecorded | PatternMatched
    | SkillLoaded | SkillCreated | SkillModified | SkillSearch
    | MemoryUpdated | MemoryEviction
    | DelegateStarted | DelegateCompleted | DelegateFailed
    | FeedbackExplicit | FeedbackImplicit
)  # fmt: skip

CATALOGUE: tuple[type[Payload], ...] = (
    SessionCreated, SessionResumed, SessionEnded,
    TurnStarted, TurnCompleted, TurnCancelled,
    LlmCallStarted, LlmCallCompleted, LlmCallFailed,
    ToolCalled, ToolCompleted, ToolFailed, ToolInputInvalid,
    ToolConfirmationRequested, ToolConfirmationResolved,
    RouteOverridden, PatternOverrideDismissed, PatternRecorded, PatternMatched,
    SkillLoaded, SkillCreated, SkillModified, SkillSearch,
    MemoryUpdated, MemoryEviction,
    DelegateStarted, DelegateCompleted, DelegateFailed,
    FeedbackExplicit, FeedbackImplicit,
)  # fmt: skip
"""Every event of a session, in the order of the catalogue."""
