"""A sensor's event, and whether and when it fires: filter, debounce, duplicates. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from pointsman.branches.policy import milliseconds
from pointsman.expressions.evaluate import EvaluationScope
from pointsman.expressions.expression import Expression, condition
from pointsman.expressions.values import Value
from pointsman.kernel.canonical import Form, canonical_json, content_id
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Instant, instant_text
from pointsman.kernel.record import Names
from pointsman.storage.policies.sensor_file import Sensor

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


MILLISECOND = 1_000

_NEVER_DUPLICATES = frozenset({"schedule", "manual"})
"""Sensors whose events are never duplicates: each is intended."""


class Observation(Struct, frozen=True):
    """A change a source saw. A later one with the same `key` replaces it while it is debounced."""

    event_type: str
    data: dict[str, Value]
    key: str = ""


class SensorEvent(Struct, frozen=True):
    """An observation as decisions see it, as `event`."""

    sensor_id: str
    sensor_type: str
    event_type: str
    seq: int
    occurred_at: Instant
    data: dict[str, Value]

    @property
    def name(self) -> str:
        """The event's own name: that of its sensor, and its number."""
        return f"{self.sensor_id}-{self.seq}"

    @property
    def context(self) -> dict[str, Value]:
        """The context of the event's decision."""
        event: dict[str, Value] = {
            "id": self.name,
            "sensor_id": self.sensor_id,
            "sensor_type": self.sensor_type,
            "event_type": self.event_type,
            "seq": self.seq,
            "occurred_at": instant_text(self.occurred_at),
            "data": self.data,
        }
        return {"event": event}

    @property
    def fingerprint(self) -> str:
        """The content id of type and data: equal for duplicates."""
        what: list[Value] = [self.event_type, self.data]
        return content_id(canonical_json(what))


def passes(sensor: Sensor, event: SensorEvent) -> bool:
    """Tell whether a sensor's filter lets an event pass: only true does."""
    if sensor.trigger.filter is None:
        return True
    return _condition(sensor.trigger.filter).answer(EvaluationScope(event.context)).value is True


def fire_time(sensor: Sensor, event: SensorEvent) -> Instant:
    """Return when an event fires, if no other replaces it before."""
    return Instant(event.occurred_at + milliseconds(sensor.trigger.debounce) * MILLISECOND)


def is_duplicate(
    sensor: Sensor, event: SensorEvent, fired: Mapping[str, int], now: Instant
) -> bool:
    """Tell whether an equal event fired within the sensor's window."""
    last = None if sensor.type in _NEVER_DUPLICATES else fired.get(event.fingerprint)
    return last is not None and now - last < window(sensor)


def forget_old(sensor: Sensor, fired: Mapping[str, int], now: Instant) -> dict[str, int]:
    """Return the fired events within the window; the rest would grow for ever."""
    return {name: at for name, at in fired.items() if now - at < window(sensor)}


def window(sensor: Sensor) -> int:
    """Return how long an equal event counts as a duplicate, in microseconds."""
    return milliseconds(sensor.trigger.dedup) * MILLISECOND


@lru_cache(maxsize=256)
def _condition(text: str) -> Expression:
    return condition(text)
