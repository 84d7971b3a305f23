"""What a sensor remembers between two looks: one small file a sensor, replaced as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.expressions.values import Value
from pointsman.kernel.canonical import canonical_json
from pointsman.kernel.instant import Instant
from pointsman.sensors.event import Event
from pointsman.storage.files import make_folder, replace_file
from pointsman.workflows.record import mapping, read_back

FOLDER = "sensor-state"

SensorStatus = Literal["active", "disabled", "error"]


class KeptEvent(Struct, frozen=True, forbid_unknown_fields=True):
    """An event as it is kept; its data may hold exact decimals."""

    sensor_id: str
    sensor_type: str
    event_type: str
    seq: int
    occurred_at: int
    data: Raw

    def opened(self) -> Event:
        """Give the event."""
        return Event(
            self.sensor_id,
            self.sensor_type,
            self.event_type,
            self.seq,
            Instant(self.occurred_at),
            mapping(bytes(self.data)),
        )


class Pending(Struct, frozen=True, forbid_unknown_fields=True):
    """An event that waits for its debounce; a later one with the same key takes its place."""

    key: str
    until: int
    event: KeptEvent


class Work(Struct, frozen=True, forbid_unknown_fields=True):
    """A target that must still run for an event; `attempt` counts those made."""

    event: KeptEvent
    target: str
    evaluation_id: str
    attempt: int
    due: int


class SensorState(Struct, forbid_unknown_fields=True):
    """Everything that is remembered of one sensor."""

    seq: int = 0
    cursor: Raw = Raw(b"null")
    fired: dict[str, int] = {}
    pending: list[Pending] = []
    undecided: list[KeptEvent] = []
    work: list[Work] = []
    status: SensorStatus = "active"
    message: str = ""
    last_triggered: int = 0
    last_evaluated: int = 0
    trigger_count: int = 0
    error_count: int = 0
    consecutive_failures: int = 0

    def cursor_value(self) -> Value:
        """Give the cursor; None where the source was never looked at."""
        return read_back(self.cursor)

    def next_due(self) -> Instant | None:
        """Give when something must be done next."""
        times = [each.until for each in self.pending] + [each.due for each in self.work]
        return Instant(0 if self.undecided else min(times)) if times or self.undecided else None


def kept_event(event: Event) -> KeptEvent:
    """Give an event as it is kept."""
    return KeptEvent(
        event.sensor_id,
        event.sensor_type,
        event.event_type,
        event.seq,
        event.occurred_at,
        Raw(canonical_json(event.data)),
    )


class SensorStates:
    """The states of one home."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    def load(self, sensor_id: str) -> SensorState:
        """Read what is remembered of a sensor."""
        path = self._folder / f"{sensor_id}.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=SensorState)
        except FileNotFoundError:
            return SensorState()
        except (OSError, msgspec.MsgspecError) as error:
            hint = "move it away to begin anew"
            raise InputError(f"cannot be read: {error}", where=str(path), hint=hint) from None

    def save(self, sensor_id: str, state: SensorState) -> None:
        """Remember a sensor; the file is the old one or the new one, never half of it."""
        make_folder(self._folder)
        replace_file(self._folder / f"{sensor_id}.json", msgspec.json.encode(state))
