"""The starter home: the commented files that `pointsman init` writes."""

from __future__ import annotations

from pathlib import Path

from pointsman.storage.files import write_new
from pointsman.storage.home import Home

NAMES = ("pointsman.yaml", "models.yaml", "routing.yaml", "placement.yaml", "agents.yaml")


def starter_text(name: str) -> bytes:
    """Return a starter file's content."""
    return (Path(__file__).parent / "starter_home" / name).read_bytes()


def write_starter(home: Home) -> tuple[list[str], list[str]]:
    """Write the files that are not there yet; return the names written and the names kept."""
    written: list[str] = []
    kept: list[str] = []
    for name in NAMES:
        is_new = write_new(home.path / name, starter_text(name))
        (written if is_new else kept).append(name)
    return written, kept
