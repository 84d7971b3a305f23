"""The events of a session: every payload, its actor, its class of privacy.

The closed list of companion §2.3. Money, seconds and fractions are decimal texts; words of the
conversation stand in fields that `words` names, and are sealed before they reach the ledger.
`route.decided` is not among them: the recorded decision itself is that event.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import inspect

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
from pointsman.sessions.events.session import (
    FeedbackExplicit,
    FeedbackImplicit,
    MemoryEviction,
    MemoryUpdated,
    PatternMatched,
    PatternOverrideDismissed,
    PatternRecorded,
    RouteOverridden,
    SessionCreated,
    SessionEnded,
    SessionResumed,
    SkillCreated,
    SkillLoaded,
    SkillModified,
    SkillSearch,
    TurnCancelled,
    TurnCompleted,
    TurnStarted,
)

_INTRODUCTION = """\
# Events of a session

Every event is an entry of the ledger of kind `event.<type>`; its `ref` is the session. Round the
payload stand `session_id`, `turn_id`, `parent_event_id`, `parent_session_id` (of a worker),
`actor` and `sensitivity`. Money, seconds and fractions are decimal texts. Words of the
conversation are sealed: the ledger holds their keyed digest, the text itself can be erased.

The decision about a turn is its `route.decided`: it is recorded once, as `decision.turn`, and shown
in the stream of events under that name. A model that takes over is `decision.turn.fallback`, the
choice of a pattern that the user took `decision.turn.override`, a step of a second opinion
`decision.turn.opinion`. A run beside the answer, made to
learn from it, is `decision.turn.shadow`, a judge's question about an answer `decision.turn.judge`;
`event.turn.shadowed` and `event.turn.judged`, whose `ref` is the turn, tell what came of them.

Two events are of no session. `event.policy.published`, whose `ref` is the publication, makes a
policy known: `number`, `previous`, `publication_id`, `policy_id`, `placement_id`, `by` and
`changed`, the files whose text is another than before. `event.policy.refused`, whose `ref` is such
an entry, says that it is not followed: `publication` and `errors`. The
[live feed](http.md#the-live-feed) tells both.
"""

_NAMES: dict[type[inspect.Type], str] = {
    inspect.NoneType: "nothing",
    inspect.BoolType: "true or false",
    inspect.IntType: "whole number",
}


def catalogue_page() -> str:
    """Write the page."""
    return "\n".join([_INTRODUCTION, *(_section(each) for each in CATALOGUE)])


def _section(kind: type[Payload]) -> str:
    head = f"## `{kind.type}`\n\n{kind.__doc__}\n\n{kind.sensitivity}; caused by: {kind.actor}.\n"
    rows = "\n".join(_rows(kind))
    return f"{head}\n| field | is |\n|---|---|\n{rows}\n"


def _rows(kind: type[Payload]) -> Iterator[str]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)  # noqa: S101 - payloads are structs
    for field in info.fields:
        words = " (words, sealed)" if field.name in kind.words else ""
        yield f"| `{field.name}` | {_type_text(field.type)}{words} |"


def _type_text(kind: inspect.Type) -> str:
    match kind:
        case inspect.LiteralType():
            return " or ".join(f"`{each}`" for each in kind.values)
        case inspect.UnionType():
            shown = [_type_text(each) for each in kind.types if not _is_seal(each)]
            return " or ".join(dict.fromkeys(shown))
        case inspect.VarTupleType():
            return f"list of {_type_text(kind.item_type)}"
        case _:
            return _NAMES.get(type(kind), "text")


def _is_seal(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.StructType)


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
