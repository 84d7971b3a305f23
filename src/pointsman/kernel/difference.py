"""Where two values differ, field by field: what a replay shows when its bytes are not equal."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pointsman.kernel.document import Json


class Difference(Struct, frozen=True):
    """One place where the recorded and the found value differ; None stands for absent, too."""

    path: str
    recorded: Json
    found: Json


def differences(recorded: Json, found: Json, path: str = "") -> list[Difference]:
    """List where two values differ, in the recorded value's order."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        return _member_differences(recorded, found, path)
    if isinstance(recorded, list) and isinstance(found, list):
        return _member_differences(_by_index(recorded), _by_index(found), path)
    same = type(recorded) is type(found) and recorded == found
    return [] if same else [Difference(path or "$", recorded, found)]


def _by_index(items: list[Json]) -> dict[str, Json]:
    return {f"[{index}]": item for index, item in enumerate(items)}


def _member_differences(
    recorded: Mapping[str, Json], found: Mapping[str, Json], path: str
) -> list[Difference]:
    rows: list[Difference] = []
    for key in dict.fromkeys([*recorded, *found]):
        inner = path + key if key.startswith("[") else f"{path}.{key}".removeprefix(".")
        rows += differences(recorded.get(key), found.get(key), inner)
    return rows
