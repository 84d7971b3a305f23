"""The one assertion every test of a deciding program should end with."""

from __future__ import annotations

from pointsman.app import Pointsman


def assert_replays(pointsman: Pointsman) -> int:
    """Assert that every recorded decision re-runs to the same bytes; give how many there are."""
    report = pointsman.replay_all()
    lines = [f"{each.decision_id}: {each.code} {each.reason}" for each in report.others]
    assert report.is_clean, "\n".join(["not every decision replays:", *lines])  # noqa: S101 - an assertion is the purpose
    return report.total
