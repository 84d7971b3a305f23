"""Instants and their text."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.errors import InputError
from pointsman.kernel.instant import LATEST, Instant, instant_text, read_instant


def test_the_epoch_is_zero() -> None:
    assert instant_text(Instant(0)) == "1970-01-01T00:00:00.000000Z"
    assert read_instant("1970-01-01T00:00:00Z") == 0


@settings(max_examples=500, derandomize=True, deadline=None)
@given(st.integers(0, LATEST))
def test_text_agrees_with_the_calendar_of_the_standard_library(value: int) -> None:
    expected = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
    text = instant_text(Instant(value))
    assert text == expected.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")
    assert read_instant(text) == value


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2026-11-15T14:05:00+01:00", "2026-11-15T13:05:00Z"),
        ("2026-11-15T14:05:00-00:30", "2026-11-15T14:35:00Z"),
        ("2026-11-15t14:05:00.5z", "2026-11-15T14:05:00.500000Z"),
        ("2026-11-15T14:05:00.1234567Z", "2026-11-15T14:05:00.123456Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00.0Z"),
        ("2000-02-29T00:00:00Z", "2000-02-28T23:59:59.999999Z"),
    ],
)
def test_instants_are_compared_as_instants(text: str, same: str) -> None:
    assert abs(read_instant(text) - read_instant(same)) <= 1


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "2026-11-15",
        "2026-11-15T14:05:00",
        "2026-11-15 14:05:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-11-15T24:00:00Z",
        "2026-11-15T14:60:00Z",
        "2026-11-15T14:05:60Z",
        "2026-11-15T14:05:00+24:00",
        "2026-11-15T14:05:00+00:60",
        "1969-12-31T23:59:59Z",
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_an_instant_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="`"):
        read_instant(text)
