"""No byte of an answer leaves before its decision is on disk: gateways are killed to find out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gateway.house import upstream
from tests.gateway.mortal import POINTS, Reaper

DEATHS = 3
"""The campaign `campaigns.gateway_crash` has fifty a point."""


@pytest.mark.slow
def test_whatever_was_answered_is_recorded_wherever_the_gateway_dies(tmp_path: Path) -> None:
    with upstream() as provider, Reaper(tmp_path / "home", provider, seed=7) as reaper:
        for point in POINTS:
            for _ in range(DEATHS):
                reaper.reap(point)
        reaper.check_all()
    tally = reaper.tally
    assert tally.unrecorded == []
    assert tally.broken == []
    assert tally.survived == []
    assert tally.deaths == DEATHS * len(POINTS)
    assert tally.answered > tally.deaths


def test_there_are_at_least_twelve_points() -> None:
    assert len(POINTS) >= 12
