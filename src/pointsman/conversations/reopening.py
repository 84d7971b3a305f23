"""Opening a session whose process went away: its workers are closed first, then its turn.

The ledger says what was left open; the rows beside it may lack what was not synced in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pointsman.calls.flow import Record
from pointsman.conversations.conversation_house import House
from pointsman.conversations.driver import Desires, Driver, Seat
from pointsman.conversations.event_stream import Event, events_of
from pointsman.conversations.kept_messages import kept_messages
from pointsman.sessions.delegate_call import DelegateResult, Delegation
from pointsman.sessions.effects import AskEgress, AskRoute, RouteAnswer, Steps
from pointsman.sessions.envelope import Envelope
from pointsman.sessions.events.calls import LlmCallCompleted, LlmCallFailed, LlmCallStarted
from pointsman.sessions.events.session import TurnCancelled, TurnCompleted, TurnStarted
from pointsman.sessions.message import SessionMessage
from pointsman.sessions.recovery import Unfinished, closed, closed_worker
from pointsman.sessions.tool import DenyAll, NoTools
from pointsman.sessions.update import Update
from pointsman.storage.stores.conversations import SessionRow, TurnClose


class Reopening:
    """Closes what a process left open."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def closed(self, row: SessionRow, events: Sequence[Event]) -> None:
        """Close the workers and the turn that were left open, if any."""
        turn_id = _open_turn(events)
        for each in self._house.store.workers(row.id):
            if each.ended_at is None:
                await self._close_worker(each, turn_id)
        if turn_id:
            seat = Seat(row.id, turn_id, row.workspace)
            await self._driven(seat, closed(self._unfinished(seat, events)))
        await self._end_turns(row.id)

    async def _close_worker(self, row: SessionRow, parent_turn_id: str) -> None:
        events = events_of(self._house.ground.home, row.id)
        turn_id = _open_turn(events)
        names = (row.id, turn_id, row.workspace, row.parent_session_id, parent_turn_id)
        seat = Seat(*names)
        unfinished = self._unfinished(seat, events) if turn_id else None
        await self._driven(seat, closed_worker(unfinished, row.parent_tool_use_id, row.id))
        await self._end_turns(row.id)
        now = self._house.ground.clock.now()
        await asyncio.wrap_future(self._house.store.end(row.id, now, now))

    def _unfinished(self, seat: Seat, events: Sequence[Event]) -> Unfinished:
        own = [each for each in _told(events) if each.turn_id == seat.turn_id]
        return Unfinished(self._said(seat), own[-1].id if own else "", _open_call(own))

    def _said(self, seat: Seat) -> tuple[SessionMessage, ...]:
        messages = kept_messages(self._house.store.messages(seat.session_id))
        return tuple(each for each in messages if each.turn_id == seat.turn_id)

    async def _driven(self, seat: Seat, steps: Steps[None]) -> None:
        in_force = self._house.ground.files.in_force()
        begun = self._said(seat)
        await Driver(self._house, seat, in_force, _silent()).run(steps, begun)

    async def _end_turns(self, session_id: str) -> None:
        """Close the rows of turns that nobody will go on with."""
        now = self._house.ground.clock.now()
        for each in self._house.store.turns(session_id):
            if each.status == "open":
                close = TurnClose(each.id, "cancelled", each.model, each.decision_id, now)
                await asyncio.wrap_future(self._house.store.end_turn(close))


def _told(events: Sequence[Event]) -> list[Envelope]:
    return [each for each in events if isinstance(each, Envelope)]


def _open_turn(events: Sequence[Event]) -> str:
    """Name the turn that began and did not end; empty where there is none."""
    ended = {
        each.turn_id
        for each in _told(events)
        if isinstance(each.payload, TurnCompleted | TurnCancelled)
    }
    begun = [each.turn_id for each in _told(events) if isinstance(each.payload, TurnStarted)]
    return next((name for name in begun if name not in ended), "")


def _open_call(events: Sequence[Envelope]) -> Envelope | None:
    """Give the call of a model that nobody ended."""
    ended = {
        each.parent_event_id
        for each in events
        if isinstance(each.payload, LlmCallCompleted | LlmCallFailed)
    }
    calls = [each for each in events if isinstance(each.payload, LlmCallStarted)]
    return next((each for each in calls if each.id not in ended), None)


def _silent() -> Desires:
    """Nobody follows, nobody is asked, nothing is run."""

    def show(_update: Update) -> None:
        return None

    def decided(_effect: Record, _decision_id: str) -> None:
        return None

    async def no_route(_effect: AskRoute) -> RouteAnswer:
        return "none"

    async def no_egress(_effect: AskEgress) -> bool:
        return False

    async def no_workers(_work: Sequence[Delegation]) -> tuple[DelegateResult, ...]:
        return ()

    return Desires(show, no_route, no_egress, DenyAll(), NoTools(), no_workers, decided)
