"""Marked secrets and texts everywhere: found in nothing that must not hold them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gateway.canaries import IN_THE_RECORD, RETAINS, SLOTS, TEXTS, Tally, attack, cells

FEW = 97
"""Every so-manieth fault of a provider; `make campaign-canaries` meets all."""


@pytest.mark.slow
@pytest.mark.parametrize("retain", RETAINS)
def test_no_canary_is_where_it_must_not_be(tmp_path: Path, retain: str) -> None:
    tally = Tally()
    seen = attack(tmp_path, retain, cells(FEW), tally)
    assert tally.faults == []
    assert {400, 401, 402, 403, 404, 413, 429, 502} <= set(tally.answers), tally.answers
    # The slots were in use, and the look finds what it looks for.
    assert all(seen[kind] for kind in SLOTS)
    kept = {kind for kind in TEXTS if seen[kind]}
    assert kept >= ({"message", "comment", "memory", "goal", "job"} if retain == "full" else set())
    assert retain == "full" or kept <= {*IN_THE_RECORD}
