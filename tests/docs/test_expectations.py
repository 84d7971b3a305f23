"""The page of expectations: each mark rests on a test that is there, and the sums are right."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGE = (FOLDER / "expectations.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| (?P<name>.+?) \| (?P<mark>full|half|missing) \| (?P<far>.*?) ?\| (?P<shown>.*?) ?\|$",
    PAGE,
    re.MULTILINE,
)
LEAST_FULL = 43


def test_the_sums_are_those_of_the_rows() -> None:
    marks = Counter(mark for _name, mark, _far, _shown in ROWS)
    assert len(ROWS) == len({row[0] for row in ROWS}) == 59
    told = f"{marks['full']} are full, {marks['half']} half, {marks['missing']} missing."
    assert told in PAGE
    assert marks["full"] >= LEAST_FULL


@pytest.mark.parametrize(("name", "mark", "far", "shown"), ROWS, ids=[row[0] for row in ROWS])
def test_a_mark_rests_on_tests_and_pages_that_are_there(
    name: str, mark: str, far: str, shown: str
) -> None:
    links = re.findall(r"\[`?([^\]`]+)`?\]\(([^)]+)\)", shown)
    tests = [(test, path) for test, path in links if path.endswith(".py")]
    assert bool(tests) == (mark != "missing")
    assert mark == "full" or far, f"`{name}` does not say what is missing"
    for test, path in tests:
        text = (FOLDER / path).resolve().read_text(encoding="utf-8")
        assert re.search(rf"^(?:async )?def {test}\(", text, re.MULTILINE), test
    for _test, path in links:
        assert (FOLDER / path).resolve().exists(), path
