"""Recovery of a session whose process died: its workers are closed first, then its turn.

A turn left open is recorded as cancelled and never continued. The ledger says which turns are open;
the rows beside it may lack the last writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pointsman.conversations.services import ConversationServices
from pointsman.conversations.session_events import Event, read_session_events
from pointsman.conversations.stored_messages import read_messages
from pointsman.conversations.turn_driver import UNATTENDED, TurnDriver, TurnScope
from pointsman.providers.messages import Text, ToolResult
from pointsman.sessions import effects
from pointsman.sessions.delegate_call import DELEGATE, DelegateResult, UsageSummary
from pointsman.sessions.effects import Steps
from pointsman.sessions.envelope import Envelope
from pointsman.sessions.events.calls import (
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    ToolFailed,
)
from pointsman.sessions.events.delegation import DelegateFailed
from pointsman.sessions.events.session import (
    SessionEnded,
    TurnCancelled,
    TurnCompleted,
    TurnStarted,
)
from pointsman.sessions.message import Metadata, SessionMessage, unanswered_calls
from pointsman.storage.stores.conversations import StoredSession, TurnClose


class SessionRecovery:
    """Closes the turns and workers that a dead process left open."""

    def __init__(self, services: ConversationServices) -> None:
        self._services = services

    async def close_left_open(self, row: StoredSession, events: Sequence[Event]) -> None:
        """Close the workers and the turn that were left open, if any."""
        turn_id = _open_turn(events)
        for each in self._services.store.workers(row.id):
            if each.ended_at is None:
                await self._close_worker(each, turn_id)
        if turn_id:
            scope = TurnScope(row.id, turn_id, row.workspace)
            await self._drive(scope, close_turn(self._unfinished_turn(scope, events)))
        await self._end_turns(row.id)

    async def _close_worker(self, row: StoredSession, parent_turn_id: str) -> None:
        events = read_session_events(self._services.opened.home, row.id)
        turn_id = _open_turn(events)
        names = (row.id, turn_id, row.workspace, row.parent_session_id, parent_turn_id)
        scope = TurnScope(*names)
        unfinished = self._unfinished_turn(scope, events) if turn_id else None
        await self._drive(scope, close_worker(unfinished, row.parent_tool_use_id, row.id))
        await self._end_turns(row.id)
        now = self._services.opened.clock.now()
        await asyncio.wrap_future(self._services.store.end(row.id, now, now))

    def _unfinished_turn(self, scope: TurnScope, events: Sequence[Event]) -> UnfinishedTurn:
        own = [each for each in _envelopes(events) if each.turn_id == scope.turn_id]
        return UnfinishedTurn(
            self._turn_messages(scope), own[-1].id if own else "", _open_call(own)
        )

    def _turn_messages(self, scope: TurnScope) -> tuple[SessionMessage, ...]:
        messages = read_messages(self._services.store.messages(scope.session_id))
        return tuple(each for each in messages if each.turn_id == scope.turn_id)

    async def _drive(self, scope: TurnScope, steps: Steps[None]) -> None:
        in_force = self._services.opened.files.in_force()
        begun = self._turn_messages(scope)
        await TurnDriver(self._services, scope, in_force, UNATTENDED).run(steps, begun)

    async def _end_turns(self, session_id: str) -> None:
        """Close the rows of turns that no process will continue."""
        now = self._services.opened.clock.now()
        for each in self._services.store.turns(session_id):
            if each.status == "open":
                close = TurnClose(each.id, "cancelled", each.model, each.decision_id, now)
                await asyncio.wrap_future(self._services.store.end_turn(close))


def _envelopes(events: Sequence[Event]) -> list[Envelope]:
    return [each for each in events if isinstance(each, Envelope)]


def _open_turn(events: Sequence[Event]) -> str:
    """Return the id of the turn that began and did not end; empty where there is none."""
    ended = {
        each.turn_id
        for each in _envelopes(events)
        if isinstance(each.payload, TurnCompleted | TurnCancelled)
    }
    begun = [each.turn_id for each in _envelopes(events) if isinstance(each.payload, TurnStarted)]
    return next((name for name in begun if name not in ended), "")


def _open_call(events: Sequence[Envelope]) -> Envelope | None:
    """Return the model call without an end, if any."""
    ended = {
        each.parent_event_id
        for each in events
        if isinstance(each.payload, LlmCallCompleted | LlmCallFailed)
    }
    calls = [each for each in events if isinstance(each.payload, LlmCallStarted)]
    return next((each for each in calls if each.id not in ended), None)


LOST: Final = "the process ended before this did"


class UnfinishedTurn(Struct, frozen=True):
    """A turn that was left open: its messages, and its model call without an end."""

    messages: tuple[SessionMessage, ...]
    last_event: str
    call: Envelope | None = None


def close_turn(turn: UnfinishedTurn) -> Steps[None]:
    """Close a turn: the call, the tools, then the turn itself; every call is answered."""
    cut_calls = 0
    parent = turn.last_event
    if turn.call is not None and isinstance(turn.call.payload, LlmCallStarted):
        cut_calls = 1
        started = turn.call.payload
        failed = LlmCallFailed(started.model, started.provider, "cancelled", LOST, 0, 0)
        parent = yield from effects.tell(failed, turn.call.id)
    uses = unanswered_calls(turn.messages)
    for use in uses:
        text = LOST
        if use.name == DELEGATE:
            mode = "cancelled_by_user"
            text = DelegateResult(False, "", mode, UsageSummary(), "").to_planner_json().decode()  # noqa: FBT003 - no success
        else:
            parent = yield from effects.tell(ToolFailed(use.id, "cancelled", LOST, 0), parent)
        result = ToolResult(use.id, (Text(text),), is_error=True)
        metadata = Metadata("cancelled", parent_tool_use_id=use.id)
        yield from effects.keep("tool", (result,), metadata)
    cancelled = TurnCancelled("client_disconnect", cut_calls, len(uses))
    yield from effects.tell(cancelled, parent)


def close_worker(turn: UnfinishedTurn | None, tool_use_id: str, session_id: str) -> Steps[None]:
    """Close a worker whose planner is gone: its turn and session, then the delegation."""
    if turn is not None:
        yield from close_turn(turn)
    yield from effects.tell(SessionEnded("abandoned", 1, "0", "0"))
    failed = DelegateFailed(tool_use_id, session_id, "cancelled_by_user", LOST, "0", "", None)
    yield from effects.tell(failed, to_parent=True)
