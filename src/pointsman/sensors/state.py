"""The state of a sensor between two polls: one small file a sensor, replaced as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.expressions.values import Value
from pointsman.kernel.canonical import canonical_json
from pointsman.kernel.instant import Instant
from pointsman.sensors.event import SensorEvent
from pointsman.storage.files import make_folder, replace_file
from pointsman.workflows.record import read_mapping, read_value

FOLDER = "sensor-state"

SensorStatus = Literal["active", "disabled", "error"]


class StoredEvent(Struct, frozen=True, forbid_unknown_fields=True):
    """An event as it is stored; its data may hold exact decimals."""

    sensor_id: str
    sensor_type: str
    event_type: str
    seq: int
    occurred_at: int
    data: Raw

    def to_event(self) -> SensorEvent:
        """Return the event."""
        return SensorEvent(
            self.sensor_id,
            self.sensor_type,
            self.event_type,
            self.seq,
            Instant(self.occurred_at),
            read_mapping(bytes(self.data)),
        )


class Pending(Struct, frozen=True, forbid_unknown_fields=True):
    """An event that waits for its debounce; a later one with the same key replaces it."""

    key: str
    until: int
    event: StoredEvent


class TargetWork(Struct, frozen=True, forbid_unknown_fields=True):
    """A target that must still run for an event; `attempt` counts those made."""

    event: StoredEvent
    target: str
    evaluation_id: str
    attempt: int
    due: int


class SensorState(Struct, forbid_unknown_fields=True):
    """The whole state of one sensor."""

    seq: int = 0
    cursor: Raw = Raw(b"null")
    fired: dict[str, int] = {}
    pending: list[Pending] = []
    undecided: list[StoredEvent] = []
    work: list[TargetWork] = []
    status: SensorStatus = "active"
    message: str = ""
    last_triggered: int = 0
    last_evaluated: int = 0
    trigger_count: int = 0
    error_count: int = 0
    consecutive_failures: int = 0

    def cursor_value(self) -> Value:
        """Return the cursor; None where the source was never read."""
        return read_value(self.cursor)

    def next_due(self) -> Instant | None:
        """Return when the next work is due."""
        times = [each.until for each in self.pending] + [each.due for each in self.work]
        return Instant(0 if self.undecided else min(times)) if times or self.undecided else None


def to_stored(event: SensorEvent) -> StoredEvent:
    """Return an event as it is stored."""
    return StoredEvent(
        event.sensor_id,
        event.sensor_type,
        event.event_type,
        event.seq,
        event.occurred_at,
        Raw(canonical_json(event.data)),
    )


def offers(home: Path, sensor_id: str) -> list[Path]:
    """Return the events left for a sensor, in the order in which they came."""
    return sorted((home / FOLDER / f"{sensor_id}.offers").glob("*.json"))


class SensorStates:
    """The states of one home."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    def load(self, sensor_id: str) -> SensorState:
        """Read the state of a sensor."""
        path = self._folder / f"{sensor_id}.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=SensorState)
        except FileNotFoundError:
            return SensorState()
        except (OSError, msgspec.MsgspecError) as error:
            hint = "move it away to begin anew"
            raise InputError(f"cannot be read: {error}", where=str(path), hint=hint) from None

    def save(self, sensor_id: str, state: SensorState) -> None:
        """Store the state of a sensor; the file is the old one or the new one, never half of it."""
        make_folder(self._folder)
        replace_file(self._folder / f"{sensor_id}.json", msgspec.json.encode(state))

    def leave_offer(self, sensor_id: str, name: str, data: Mapping[str, Value]) -> None:
        """Leave an event for the process that runs the sensors."""
        folder = self._folder / f"{sensor_id}.offers"
        make_folder(self._folder)
        make_folder(folder)
        replace_file(folder / f"{name}.json", canonical_json(dict(data)))
