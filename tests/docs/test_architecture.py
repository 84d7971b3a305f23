"""ARCHITECTURE.md names every part of the house."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pointsman"
NAMED = set(re.findall(r"`(?:\w+/)?(\w+)`", (ROOT / "ARCHITECTURE.md").read_text("utf-8")))
PARTS = sorted(each.parent for each in SOURCE.glob("*/__init__.py"))
HOUSES = ("gateway", "storage", "turns", "agents", "branches")
ROOMS = sorted(each.parent for name in HOUSES for each in SOURCE.glob(f"{name}/*/__init__.py"))


@pytest.mark.parametrize("part", [*PARTS, *ROOMS], ids=lambda part: part.name)
def test_every_part_is_named(part: Path) -> None:
    assert part.name in NAMED


@pytest.mark.parametrize("part", [*PARTS, *ROOMS], ids=lambda part: part.name)
def test_every_part_says_what_it_is_for(part: Path) -> None:
    assert re.match(r'"""[A-Z].+\.', (part / "__init__.py").read_text("utf-8"))
