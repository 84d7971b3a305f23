"""The folder `sensors/` of a home: each file with its last good content."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from pointsman.errors import DocumentError, InputError, Problem, ValueRefused
from pointsman.kernel.canonical import canonical_json
from pointsman.kernel.nearest import nearest
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.storage.policies.decision_files import SENSORS, YamlFolder
from pointsman.storage.policies.policies import InvalidFile
from pointsman.storage.policies.sensor_file import NO_SENSORS, Sensor, SensorsFile, read_sensors


class SensorsInForce(Struct, frozen=True):
    """The sensors in force, and the problems of their files."""

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
        self._home = home
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
            every = loaded.value.every
            if loaded.problems and not loaded.using_last_known_good:
                every = self._sound_sensors(name)
            for each in every:
                found.setdefault(each.id, each)
        return SensorsInForce(tuple(found.values()), tuple(invalid))

    def _sound_sensors(self, name: str) -> tuple[Sensor, ...]:
        """Return those sensors of a file that are sound by themselves."""
        source = f"{SENSORS}/{name}"
        try:
            written = parse_yaml((self._home / source).read_bytes(), source).value
        except (OSError, DocumentError):
            return ()
        listed = written.get("sensors") if isinstance(written, dict) else None
        found: list[Sensor] = []
        for each in listed if isinstance(listed, list) else ():
            with suppress(DocumentError, ValueRefused):
                # Canonical JSON is YAML: one sensor is read as a file of its own.
                text = canonical_json({"sensor": each})
                found += read_sensors(text, source).every
        return tuple(found)
