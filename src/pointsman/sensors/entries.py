"""The ledger entries of sensors: events that fired, runs of targets, notices and dead letters."""

from __future__ import annotations

from msgspec import Struct

from pointsman.kernel.canonical import Form, canonical_json
from pointsman.kernel.entry import Draft
from pointsman.kernel.record import Names
from pointsman.sensors.event import SensorEvent

FIRED = "event.sensor.fired"
ACTED = "event.sensor.acted"
DEAD_LETTER = "event.sensor.dead_letter"
ALERT = "event.sensor.alert"
DISABLED = "event.sensor.disabled"


class SensorFired(Struct, frozen=True, forbid_unknown_fields=True):
    """An event passed filter, debounce and duplicates; the event itself is attached."""

    sensor_id: str
    event: str
    fingerprint: str


class TargetRun(Struct, frozen=True, forbid_unknown_fields=True):
    """The result of one run of a target."""

    sensor_id: str
    event: str
    target: str
    evaluation_id: str
    attempt: int
    status: str
    message: str


class SensorNotice(Struct, frozen=True, forbid_unknown_fields=True):
    """A notice for the operator about a sensor."""

    sensor_id: str
    failures: int
    message: str


FIRED_FORM = Form(SensorFired)
TARGET_RUN_FORM = Form(TargetRun)
NOTICE_FORM = Form(SensorNotice)


def fired_draft(names: Names, event: SensorEvent) -> Draft:
    """Make the entry of an event that fires; `ref` is the event's name."""
    payload = FIRED_FORM.encode(SensorFired(event.sensor_id, event.name, event.fingerprint))
    attached = (canonical_json(event.context),)
    return Draft(FIRED, names.id, names.ref, names.at, payload, attached)


def target_run_draft(names: Names, acted: TargetRun) -> Draft:
    """Make the entry of a target that ran."""
    return Draft(ACTED, names.id, names.ref, names.at, TARGET_RUN_FORM.encode(acted))


def dead_letter_draft(names: Names, acted: TargetRun, event: SensorEvent) -> Draft:
    """Make the entry of an abandoned event; the event itself is attached."""
    attached = (canonical_json(event.context),)
    return Draft(
        DEAD_LETTER, names.id, names.ref, names.at, TARGET_RUN_FORM.encode(acted), attached
    )


def notice_draft(kind: str, names: Names, told: SensorNotice) -> Draft:
    """Make the entry of a notice."""
    return Draft(kind, names.id, names.ref, names.at, NOTICE_FORM.encode(told))
