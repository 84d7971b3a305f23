"""Writes what a campaign found to evidence/<name>.json, with the conditions it ran under."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FOLDER = Path(__file__).parents[1] / "evidence"


def commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=FOLDER.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def write(name: str, found: dict[str, object]) -> Path:
    FOLDER.mkdir(exist_ok=True)
    target = FOLDER / f"{name}.json"
    value = {"commit": commit(), "python": platform.python_version(), **found}
    target.write_text(json.dumps(value, indent=2) + "\n")
    return target


def sum_tallies(tallies: Sequence[DataclassInstance]) -> dict[str, object]:
    """Add up each count, and join each list, of several tallies of one kind."""
    parts = [asdict(tally) for tally in tallies]
    return {
        name: sum((part[name] for part in parts), type(first)()) for name, first in parts[0].items()
    }
