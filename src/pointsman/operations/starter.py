"""The starter home: the commented files that `pointsman init` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pointsman.errors import InputError
from pointsman.operations.services import models_text, routing_text
from pointsman.storage.files import replace_file, write_new
from pointsman.storage.home import Home
from pointsman.turns.registry.services import ModelService

FIRST_NAMES = ("pointsman.yaml", "models.yaml", "routing.yaml", "placement.yaml")
"""The files a newcomer edits."""

NAMES = (*FIRST_NAMES, "agents.yaml")


def starter_text(name: str) -> bytes:
    """Return a starter file's content."""
    return (Path(__file__).parent / "starter_home" / name).read_bytes()


def write_starter(
    home: Home, names: Sequence[str] = NAMES, texts: Mapping[str, bytes] | None = None
) -> tuple[list[str], list[str]]:
    """Write the files that are not there yet; return the names written and the names kept.

    `texts` are written instead of the starter files of their names.
    """
    written: list[str] = []
    kept: list[str] = []
    for name in names:
        text = (texts or {}).get(name)
        is_new = write_new(home.path / name, starter_text(name) if text is None else text)
        (written if is_new else kept).append(name)
    return written, kept


def replace_starter(home: Home, texts: Mapping[str, bytes]) -> list[str]:
    """Write files over starter files that were never edited; refused where one was."""
    for name in texts:
        path = home.path / name
        if path.exists() and path.read_bytes() != starter_text(name):
            hint = "name an empty --home, move it away, or copy from the report's --json"
            raise InputError("was edited and is never overwritten", where=name, hint=hint)
    for name, text in texts.items():
        replace_file(home.path / name, text)
    return [*texts]


def service_texts(
    home: Home, services: Sequence[ModelService], environment: Mapping[str, str]
) -> dict[str, bytes]:
    """Return the files of a home that uses these services; refused where they are there already."""
    if not services:
        return {}
    texts = {
        "models.yaml": models_text(services, environment).encode(),
        "routing.yaml": routing_text(services).encode(),
    }
    for name in texts:
        if (home.path / name).exists():
            hint = "name an empty --home, move it away, or add the provider to it"
            raise InputError("is there already and is never overwritten", where=name, hint=hint)
    return texts
