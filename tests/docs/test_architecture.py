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


WHERE = re.findall(
    r"^\| [^|]+ \| \[`([^`]+)`\]\(\1\) \| `(\w+)` \|$",
    (ROOT / "CONTRIBUTING.md").read_text("utf-8"),
    re.MULTILINE,
)


def test_the_places_a_newcomer_looks_for_are_listed() -> None:
    assert len(WHERE) >= 10


@pytest.mark.parametrize(("path", "name"), WHERE)
def test_a_listed_place_holds_what_it_is_listed_for(path: str, name: str) -> None:
    text = (ROOT / path).read_text("utf-8")
    assert re.search(rf"^ *(?:async def|def|class) {name}\b|^{name}\b", text, re.MULTILINE)
