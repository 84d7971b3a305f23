"""The rows and the table of `pointsman providers`."""

import pytest

from pointsman.kernel.instant import SECOND, Instant
from pointsman.operations.providers import provider_rows, provider_table
from pointsman.turns.registry.availability import Report

START = Instant(1_800_000_000 * SECOND)
HEALTHY = Report("openai", "openai:gpt-5", "healthy")
OUT = Report(
    "anthropic",
    None,
    "unavailable",
    "auth_error",
    START,
    Instant(START + 300 * SECOND),
    ("anthropic:claude-opus-4-7",),
)


def test_a_healthy_model_has_no_cause_and_no_times() -> None:
    (row,) = provider_rows([HEALTHY], START)
    assert (row.provider, row.model, row.state) == ("openai", "openai:gpt-5", "healthy")
    assert (row.cause, row.since, row.clears_at, row.clears_in_s) == (None, None, None, None)


def test_a_provider_as_a_whole_is_shown_with_a_star() -> None:
    (row,) = provider_rows([OUT], Instant(START + 48 * SECOND))
    assert row.model == "*"
    assert row.cause == "auth_error"
    assert row.since == "2027-01-15T08:00:00.000000Z"
    assert row.clears_at == "2027-01-15T08:05:00.000000Z"
    assert row.clears_in_s == 252
    assert row.models_affected == ("anthropic:claude-opus-4-7",)


@pytest.mark.parametrize(
    ("after_us", "left"), [(0, 300), (1, 300), (SECOND, 299), (400 * SECOND, 0)]
)
def test_the_time_left_is_rounded_up_and_never_negative(after_us: int, left: int) -> None:
    (row,) = provider_rows([OUT], Instant(START + after_us))
    assert row.clears_in_s == left


def test_the_table_has_a_line_for_each_row_in_their_order() -> None:
    rows = provider_rows([OUT, HEALTHY], Instant(START + 48 * SECOND))
    assert provider_table(rows).splitlines() == [
        "PROVIDER   MODEL  STATE        CAUSE        SINCE                CLEARS",
        "anthropic  *      unavailable  key refused  2027-01-15T08:00:00  in 4 min 12 s",
        "openai     gpt-5  healthy      -            -                    -",
    ]


def test_less_than_a_minute_is_told_in_seconds() -> None:
    rows = provider_rows([OUT], Instant(START + 299 * SECOND))
    assert provider_table(rows).endswith("  in 1 s")


def test_without_rows_the_table_says_so() -> None:
    assert provider_table([]) == "no providers configured"


def test_a_name_cannot_move_the_cursor() -> None:
    rows = provider_rows([Report("p", "p:a\x1b[2J\nb", "healthy")], START)
    table = provider_table(rows)
    assert "\x1b" not in table
    assert len(table.splitlines()) == 2
    assert "a\\u001b[2J\\u000ab" in table
