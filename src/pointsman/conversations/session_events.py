"""The events of a session: recorded in the ledger, and read back in their order.

A recorded decision about a turn shows as its `route.decided`: one record a decision, and one event.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from pointsman.conversations.services import ConversationServices
from pointsman.errors import MissingSnapshot
from pointsman.kernel.canonical import content_id
from pointsman.kernel.content import Sealed
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import Instant
from pointsman.kernel.record import DECISION
from pointsman.recording.waiting import AsyncWaiter
from pointsman.sessions.catalogue import Payload
from pointsman.sessions.envelope import (
    Envelope,
    event_draft,
    is_event,
    opened_payload,
    read_event,
    sealed_payload,
)
from pointsman.sessions.events.session import SessionCreated
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import ContentReader, LedgerReader, Stored

DecisionType = Literal["route.decided", "turn.fallback", "turn.override", "turn.opinion"]

_DECISIONS: dict[str, DecisionType] = {
    f"{DECISION}turn": "route.decided",
    f"{DECISION}turn.fallback": "turn.fallback",
    f"{DECISION}turn.override": "turn.override",
    f"{DECISION}turn.opinion": "turn.opinion",
}


class DecisionEvent(Struct, frozen=True):
    """A decision in the stream of events: its id is that of the recorded decision."""

    id: str
    at: Instant
    type: DecisionType
    session_id: str
    turn_id: str


Event = Envelope | DecisionEvent


def read_session_events(home: Home, session_id: str, *, words: bool = False) -> list[Event]:
    """Return the events of one session; `words` restores the texts that are still stored."""
    with told_errors(home.database), closing(LedgerReader(home.database)) as ledger:
        own = [each for each in ledger.with_ref(session_id) if is_event(each.entry)]
        found: list[tuple[Stored, Event]] = [(each, read_event(each.entry)) for each in own]
        turns = dict.fromkeys(event.turn_id for _, event in found if event.turn_id)
        for turn_id in turns:
            found += [
                (each, _decision_event(each.entry, session_id))
                for each in ledger.with_ref(turn_id)
                if each.entry.kind in _DECISIONS
            ]
    # DETERMINISM: several processes may write at one instant; then the chain and place decide.
    found.sort(key=lambda each: (each[0].entry.at, each[0].chain, each[0].entry.seq))
    events = [event for _, event in found]
    return _with_words(home, events) if words else events


def _decision_event(entry: Entry, session_id: str) -> DecisionEvent:
    return DecisionEvent(entry.id, entry.at, _DECISIONS[entry.kind], session_id, entry.ref)


def _with_words(home: Home, events: Iterable[Event]) -> list[Event]:
    with closing(ContentReader(home.content, home.content_key())) as reader:

        def restore(seal: Sealed) -> str:
            with suppress(MissingSnapshot):
                return reader.displayed_text(seal)
            return ""

        return [
            replace(each, payload=opened_payload(each.payload, restore))
            if isinstance(each, Envelope)
            else each
            for each in events
        ]


EventScope = tuple[str, str, str]
"""The session, the turn and the planner's session that an event belongs to."""


class SessionEventRecorder:
    """Records session events outside a turn; each is durable when `record` returns."""

    def __init__(self, services: ConversationServices) -> None:
        self._services = services

    async def record(self, payload: Payload, where: EventScope, parent: str = "") -> str:
        """Record an event and return its id."""
        durable = AsyncWaiter()
        event = hand_in_event(self._services, payload, where, parent, durable)
        await durable.wait()
        return event.id


def hand_in_event(
    services: ConversationServices,
    payload: Payload,
    where: EventScope,
    parent: str,
    durable: AsyncWaiter,
) -> Envelope:
    """Hand in an event with its words sealed; return it with its words."""
    opened = services.opened
    recorder = opened.decision_recorder.recorder()
    session_id, turn_id, parent_session_id = where
    event = Envelope(
        opened.ids.new_id(),
        opened.clock.now(),
        session_id,
        turn_id,
        parent,
        parent_session_id,
        payload,
    )
    bare = sealed_payload(payload, lambda text: recorder.hand_in_text(text, durable))
    recorder.hand_in(event_draft(replace(event, payload=bare)), durable.expect())
    return event


def session_created(workspace: str | None, model: str | None, policy_id: str) -> SessionCreated:
    """Return the event of a session that begins."""
    return SessionCreated(workspace, workspace_hash(workspace), model, policy_id)


def workspace_hash(workspace: str | None) -> str:
    """Return an id of a workspace that does not reveal its path."""
    return "" if workspace is None else content_id(workspace.encode("utf-8", "surrogatepass"))
