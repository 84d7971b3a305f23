"""The page of the lives says what its figures say, and the figures what they promise."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
FOUND = json.loads((BENCH / "results" / "lives.json").read_text())


def lives_page() -> Any:
    spec = importlib.util.spec_from_file_location("lives_page", BENCH / "lives_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_written_from_its_figures() -> None:
    assert (ROOT / "docs" / "reference" / "lives.md").read_text() == lives_page().page(FOUND)


def test_a_pair_picked_on_one_half_holds_on_the_other() -> None:
    picked = FOUND["pairs"]["picked"]
    assert len(picked) == 10
    assert sum(each["cost_share"] for each in picked) / 10 < 0.30
    assert sum(each["points_over_strong"] for each in picked) / 10 > -1
    assert all(each["right_where_agreed"] > 0.93 for each in picked)
