"""An event of a session with everything round its payload, and as an entry of the ledger.

The ledger holds no words: those a payload brings are sealed first, and kept as texts are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from pointsman.errors import IntegrityFailure
from pointsman.kernel.canonical import Form
from pointsman.kernel.content import Sealed, Texts
from pointsman.kernel.entry import Draft, Entry
from pointsman.kernel.instant import Instant
from pointsman.sessions.catalogue import CATALOGUE, Payload
from pointsman.sessions.events.event import Actor, Sensitivity

KIND: Final = "event."

_KINDS: dict[str, type[Payload]] = {each.type: each for each in CATALOGUE}


class Envelope(Struct, frozen=True):
    """One event: its payload, place and time, and the event it follows from."""

    id: str
    at: Instant
    session_id: str
    turn_id: str
    parent_event_id: str
    parent_session_id: str
    payload: Payload

    @property
    def type(self) -> str:
        """The type of the event, `domain.verb`."""
        return self.payload.type


class _Recorded(Struct, frozen=True, forbid_unknown_fields=True):
    session_id: str
    turn_id: str
    parent_event_id: str
    parent_session_id: str
    actor: Actor
    sensitivity: Sensitivity
    payload: Raw


_FORM = Form(_Recorded)


@cache
def _form(name: str) -> Form[Payload]:
    return Form(_KINDS[name])


def sealed_payload(payload: Payload, seal: Callable[[str], Sealed]) -> Payload:
    """Return a payload with its words sealed."""
    return _replace_words(payload, lambda words: seal(words) if isinstance(words, str) else words)


def opened_payload(payload: Payload, texts: Texts) -> Payload:
    """Return a payload with its words restored."""
    return _replace_words(
        payload, lambda words: texts(words) if isinstance(words, Sealed) else words
    )


def event_draft(event: Envelope) -> Draft:
    """Return the entry of an event whose words are sealed; `ref` is the session."""
    payload = event.payload
    recorded = _Recorded(
        event.session_id,
        event.turn_id,
        event.parent_event_id,
        event.parent_session_id,
        payload.actor,
        payload.sensitivity,
        Raw(_form(payload.type).encode(payload)),
    )
    return Draft(KIND + payload.type, event.id, event.session_id, event.at, _FORM.encode(recorded))


def is_event(entry: Entry) -> bool:
    """Return whether an entry is an event of a session."""
    return entry.kind.removeprefix(KIND) in _KINDS and entry.kind.startswith(KIND)


def read_event(entry: Entry) -> Envelope:
    """Read an event back from its entry."""
    if not is_event(entry):
        raise IntegrityFailure(f"`{entry.kind}` is no event of a session")
    form = _form(entry.kind.removeprefix(KIND))
    found = _FORM.read(entry.payload)
    return Envelope(
        entry.id,
        entry.at,
        found.session_id,
        found.turn_id,
        found.parent_event_id,
        found.parent_session_id,
        form.decode(bytes(found.payload)),
    )


def _replace_words(payload: Payload, change: Callable[[object], object]) -> Payload:
    new: dict[str, object] = {}
    for name in payload.words:
        value = getattr(payload, name)
        new[name] = tuple(map(change, value)) if isinstance(value, tuple) else change(value)
    return replace(payload, **new) if new else payload
