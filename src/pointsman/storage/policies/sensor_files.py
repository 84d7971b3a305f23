"""The folder `sensors/` of a home: each file with its last good content."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from pointsman.errors import InputError, Problem
from pointsman.kernel.nearest import nearest
from pointsman.storage.policies.decision_files import SENSORS, YamlFolder
from pointsman.storage.policies.policies import InvalidFile
from pointsman.storage.policies.sensor_file import NO_SENSORS, Sensor, SensorsFile, read_sensors


class SensorsInForce(Struct, frozen=True):
    """The sensors there are, and what is wrong with their files."""

    sensors: tuple[Sensor, ...]
    invalid: tuple[InvalidFile, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that is wrong, file by file."""
        return tuple(problem for file in self.invalid for problem in file.problems)

    def sensor(self, name: str) -> Sensor:
        """Return a sensor by its id."""
        found = next((each for each in self.sensors if each.id == name), None)
        if found is None:
            near = nearest(name, [each.id for each in self.sensors])
            hint = f"did you mean `{near}`?" if near else ""
            raise InputError(f"there is no sensor `{name}`", hint=hint)
        return found


class SensorFiles:
    """The folder `sensors/` of a home."""

    def __init__(self, home: Path, *, is_kept: bool = True) -> None:
        self._folder: YamlFolder[SensorsFile] = YamlFolder(home, SENSORS, is_kept=is_kept)

    def current(self) -> SensorsInForce:
        """Return the sensors in force; of two with one id the first counts."""
        found: dict[str, Sensor] = {}
        invalid: list[InvalidFile] = []
        for name in self._folder.names():
            loaded = self._folder.load(name, (), read_sensors, NO_SENSORS)
            if loaded.problems:
                stands_in = loaded.using_last_known_good
                invalid.append(InvalidFile(f"{SENSORS}/{name}", loaded.problems, stands_in))
            for each in loaded.value.every:
                found.setdefault(each.id, each)
        return SensorsInForce(tuple(found.values()), tuple(invalid))
