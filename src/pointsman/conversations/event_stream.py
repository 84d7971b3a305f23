"""The events of a session, read back from the ledger in their order.

A recorded decision about a turn shows as its `route.decided`: one record a decision, and one event.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from pointsman.errors import MissingSnapshot
from pointsman.kernel.content import Sealed
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import Instant
from pointsman.kernel.record import DECISION
from pointsman.sessions.envelope import Envelope, is_event, opened_payload, read_event
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import ContentReader, LedgerReader, Stored

_DECISIONS: dict[str, Literal["route.decided", "turn.fallback", "turn.override"]] = {
    f"{DECISION}turn": "route.decided",
    f"{DECISION}turn.fallback": "turn.fallback",
    f"{DECISION}turn.override": "turn.override",
}


class Decided(Struct, frozen=True):
    """A decision in the stream of events: its id is that of the recorded decision."""

    id: str
    at: Instant
    type: Literal["route.decided", "turn.fallback", "turn.override"]
    session_id: str
    turn_id: str


Event = Envelope | Decided


def events_of(home: Home, session_id: str, *, words: bool = False) -> list[Event]:
    """Give the events of one session; with `words`, those that are still kept are put back."""
    with told_errors(home.database), closing(LedgerReader(home.database)) as ledger:
        own = [each for each in ledger.with_ref(session_id) if is_event(each.entry)]
        found: list[tuple[Stored, Event]] = [(each, read_event(each.entry)) for each in own]
        turns = dict.fromkeys(event.turn_id for _, event in found if event.turn_id)
        for turn_id in turns:
            found += [
                (each, _decided(each.entry, session_id))
                for each in ledger.with_ref(turn_id)
                if each.entry.kind in _DECISIONS
            ]
    # DETERMINISM: several processes may write at one instant; then the chain and place decide.
    found.sort(key=lambda each: (each[0].entry.at, each[0].chain, each[0].entry.seq))
    events = [event for _, event in found]
    return _with_words(home, events) if words else events


def _decided(entry: Entry, session_id: str) -> Decided:
    return Decided(entry.id, entry.at, _DECISIONS[entry.kind], session_id, entry.ref)


def _with_words(home: Home, events: Iterable[Event]) -> list[Event]:
    with closing(ContentReader(home.content, home.content_key())) as reader:

        def shown(seal: Sealed) -> str:
            with suppress(MissingSnapshot):
                return reader.shown(seal)
            return ""

        return [
            replace(each, payload=opened_payload(each.payload, shown))
            if isinstance(each, Envelope)
            else each
            for each in events
        ]
