"""Closing a turn that its process left open: told as cancelled, and never gone on with."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pointsman.providers.messages import Text, ToolResult
from pointsman.sessions import effects
from pointsman.sessions.delegate_call import DELEGATE, DelegateResult, UsageSummary
from pointsman.sessions.effects import Steps
from pointsman.sessions.envelope import Envelope
from pointsman.sessions.events.calls import LlmCallFailed, LlmCallStarted
from pointsman.sessions.events.delegation import DelegateFailed
from pointsman.sessions.events.session import SessionEnded, TurnCancelled
from pointsman.sessions.events.tools import ToolFailed
from pointsman.sessions.message import Metadata, SessionMessage, unanswered

LOST: Final = "the process ended before this did"


class Unfinished(Struct, frozen=True):
    """A turn that was left open: its messages, and the call of a model that nobody ended."""

    messages: tuple[SessionMessage, ...]
    last_event: str
    call: Envelope | None = None


def closed(turn: Unfinished) -> Steps[None]:
    """Close a turn: the call, the tools, then the turn itself; every call is answered."""
    cut_calls = 0
    parent = turn.last_event
    if turn.call is not None and isinstance(turn.call.payload, LlmCallStarted):
        cut_calls = 1
        started = turn.call.payload
        failed = LlmCallFailed(started.model, started.provider, "cancelled", LOST, 0, 0)
        parent = yield from effects.told(failed, turn.call.id)
    uses = unanswered(turn.messages)
    for use in uses:
        text = LOST
        if use.name == DELEGATE:
            mode = "cancelled_by_user"
            text = DelegateResult(False, "", mode, UsageSummary(), "").told().decode()  # noqa: FBT003 - no success
        else:
            parent = yield from effects.told(ToolFailed(use.id, "cancelled", LOST, 0), parent)
        result = ToolResult(use.id, (Text(text),), is_error=True)
        metadata = Metadata("cancelled", parent_tool_use_id=use.id)
        yield from effects.kept("tool", (result,), metadata)
    cancelled = TurnCancelled("client_disconnect", cut_calls, len(uses))
    yield from effects.told(cancelled, parent)


def closed_worker(turn: Unfinished | None, tool_use_id: str, session_id: str) -> Steps[None]:
    """Close a worker whose planner is gone: its turn, its session, then tell the planner's."""
    if turn is not None:
        yield from closed(turn)
    yield from effects.told(SessionEnded("abandoned", 1, "0", "0"))
    failed = DelegateFailed(tool_use_id, session_id, "cancelled_by_user", LOST, "0", "", None)
    yield from effects.told(failed, to_parent=True)
