"""The table of outcomes: what a caller gets for each choice of a model and each thing wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gateway.outcome_cells import WAYS, cases, wanted, world

CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_every_cell_has_its_outcome(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    with world(case, tmp_path / "home") as found:
        results = found.results()
    wrong = [
        f"{run}: {seen} is not {wanted(case, run.way)}"
        for run, seen, _ in results
        if seen != wanted(case, run.way)
    ]
    assert not wrong, "\n".join(wrong)
    silent = [f"{run}: {slots}" for run, seen, slots in results
              if seen["entries"] and WAYS[run.way].slot not in slots]  # fmt: skip
    assert not silent, "\n".join(silent)


@pytest.mark.parametrize("name", CASES)
def test_every_file_says_what_becomes_of_each_way(name: str) -> None:
    assert [way for row in CASES[name]["cells"] for way in row["ways"]] == [*WAYS]
