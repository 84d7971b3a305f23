"""What sensors leave in the ledger: events that fired, what came of them, and dead letters."""

from __future__ import annotations

from msgspec import Struct

from pointsman.kernel.canonical import Form, canonical_json
from pointsman.kernel.entry import Draft
from pointsman.kernel.record import Names
from pointsman.sensors.event import Event

FIRED = "event.sensor.fired"
ACTED = "event.sensor.acted"
DEAD_LETTER = "event.sensor.dead_letter"
ALERT = "event.sensor.alert"
DISABLED = "event.sensor.disabled"


class Fired(Struct, frozen=True, forbid_unknown_fields=True):
    """An event passed filter, debounce and duplicates; the event itself is attached."""

    sensor_id: str
    event: str
    fingerprint: str


class Acted(Struct, frozen=True, forbid_unknown_fields=True):
    """What a target came to, in which attempt."""

    sensor_id: str
    event: str
    target: str
    evaluation_id: str
    attempt: int
    status: str
    message: str


class Told(Struct, frozen=True, forbid_unknown_fields=True):
    """What somebody should know about a sensor."""

    sensor_id: str
    failures: int
    message: str


FIRED_FORM = Form(Fired)
ACTED_FORM = Form(Acted)
TOLD_FORM = Form(Told)


def fired_draft(names: Names, event: Event) -> Draft:
    """Make the entry of an event that fires; `ref` is the event's name."""
    payload = FIRED_FORM.encode(Fired(event.sensor_id, event.name, event.fingerprint))
    attached = (canonical_json(event.context),)
    return Draft(FIRED, names.id, names.ref, names.at, payload, attached)


def acted_draft(names: Names, acted: Acted) -> Draft:
    """Make the entry of a target that ran."""
    return Draft(ACTED, names.id, names.ref, names.at, ACTED_FORM.encode(acted))


def dead_letter_draft(names: Names, acted: Acted, event: Event) -> Draft:
    """Make the entry of an event that is given up; the event itself is attached."""
    attached = (canonical_json(event.context),)
    return Draft(DEAD_LETTER, names.id, names.ref, names.at, ACTED_FORM.encode(acted), attached)


def told_draft(kind: str, names: Names, told: Told) -> Draft:
    """Make the entry of something that somebody should know."""
    return Draft(kind, names.id, names.ref, names.at, TOLD_FORM.encode(told))
