"""The time of day that rules look at is that of the machine's zone; the day of money is UTC's."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pointsman.kernel.instant import read_instant
from pointsman.recording import gathering


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()
    gathering._minutes_of.cache_clear()


@pytest.mark.req(173)
@pytest.mark.parametrize(
    ("name", "minutes"),
    [("UTC0", 23 * 60 + 30), ("CET-1", 30), ("EST+5", 18 * 60 + 30), ("IST-5:30", 5 * 60)],
)
def test_the_time_of_day_is_that_of_the_machines_zone(
    zone: pytest.MonkeyPatch, name: str, minutes: int
) -> None:
    zone.setenv("TZ", name)
    time.tzset()
    gathering._minutes_of.cache_clear()
    assert gathering.local_minutes(read_instant("2026-11-15T23:30:59Z")) == minutes
