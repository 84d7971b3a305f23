"""Telling an event outside a turn: recorded, its words sealed, durable when it returns."""

from __future__ import annotations

from msgspec.structs import replace

from pointsman.conversations.conversation_house import House
from pointsman.recording.waiting import Awaited
from pointsman.sessions.catalogue import Payload
from pointsman.sessions.envelope import Envelope, event_draft, sealed_payload

Where = tuple[str, str, str]
"""The session, the turn and the planner's session that an event belongs to."""


class Telling:
    """Tells events of the sessions of one house."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def tell(self, payload: Payload, where: Where, parent: str = "") -> str:
        """Record an event and give its id."""
        durable = Awaited()
        event = handed_in(self._house, payload, where, parent, durable)
        await durable.wait()
        return event.id


def handed_in(
    house: House, payload: Payload, where: Where, parent: str, durable: Awaited
) -> Envelope:
    """Hand an event in, its words sealed and kept as texts are; gives it with its words."""
    ground = house.ground
    recorder = ground.desk.recorder()
    session_id, turn_id, parent_session_id = where
    event = Envelope(
        ground.ids.new_id(),
        ground.clock.now(),
        session_id,
        turn_id,
        parent,
        parent_session_id,
        payload,
    )
    bare = sealed_payload(payload, lambda text: recorder.hand_in_text(text, durable))
    recorder.hand_in(event_draft(replace(event, payload=bare)), durable.expect())
    return event
