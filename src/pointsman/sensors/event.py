"""One thing that happened, and whether and when it fires: filter, debounce, duplicates. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from pointsman.branches.policy import milliseconds
from pointsman.expressions.evaluate import Scope
from pointsman.expressions.expression import Expression, condition
from pointsman.expressions.values import Value
from pointsman.kernel.canonical import canonical_json, content_id
from pointsman.kernel.instant import Instant, instant_text
from pointsman.storage.policies.sensor_file import Sensor

MILLISECOND = 1_000

_TOLD_APART = frozenset({"schedule", "manual"})
"""Sensors whose events are never duplicates: each was meant."""


class Happened(Struct, frozen=True):
    """What a source saw. Later ones with the same `key` take its place while it is debounced."""

    event_type: str
    data: dict[str, Value]
    key: str = ""


class Event(Struct, frozen=True):
    """What decisions see of it, as `event`."""

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
        """The same for what happened twice."""
        what: list[Value] = [self.event_type, self.data]
        return content_id(canonical_json(what))


def passes(sensor: Sensor, event: Event) -> bool:
    """Tell whether a sensor's filter lets an event pass: only true does."""
    if sensor.trigger.filter is None:
        return True
    return _condition(sensor.trigger.filter).answer(Scope(event.context)).value is True


def debounced_until(sensor: Sensor, event: Event) -> Instant:
    """Give when an event fires, if no other takes its place before."""
    return Instant(event.occurred_at + milliseconds(sensor.trigger.debounce) * MILLISECOND)


def is_duplicate(sensor: Sensor, event: Event, fired: Mapping[str, int], now: Instant) -> bool:
    """Tell whether the same happened within the sensor's window."""
    last = None if sensor.type in _TOLD_APART else fired.get(event.fingerprint)
    return last is not None and now - last < window(sensor)


def remembered(sensor: Sensor, fired: Mapping[str, int], now: Instant) -> dict[str, int]:
    """Forget what lies behind the window; it would grow for ever otherwise."""
    return {name: at for name, at in fired.items() if now - at < window(sensor)}


def window(sensor: Sensor) -> int:
    """Give how long the same counts as a duplicate, in microseconds."""
    return milliseconds(sensor.trigger.dedup) * MILLISECOND


@lru_cache(maxsize=256)
def _condition(text: str) -> Expression:
    return condition(text)
