"""What the bench wrote down last is what is promised."""

import json
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "bench" / "results"


def _results(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


@pytest.mark.req(107)
def test_a_decision_at_100_rules_with_its_neighbours_stays_far_below_five_milliseconds():
    found = _results("decide")
    assert found["hundred_rules"]["p99_us"] < 5_000
    assert found["with_gathering"]["p99_us"] < 5_000
    assert max(each["p99_us"] for each in found["hostile"].values()) < 5_000


def test_the_ratios_of_the_ledger_are_those_that_were_asked_for():
    found = _results("ledger")
    assert found["canonical"]["record_times_rfc8785"] >= 20
    assert found["appends_slow_disk"]["in_flight_times_single"] >= 30
    assert found["verification"]["entries_per_s_a_core"] >= 100_000
    assert found["replay"]["per_s_a_core"] >= 20_000
    assert found["conditions"]["sync_ms"] > 0


def test_a_placement_takes_at_most_fifteen_microseconds():
    found = _results("placement")
    assert found["bare_table"]["p50_us"] <= 15
    assert found["bare_table"]["p99_us"] <= 15
    assert max(each["p50_us"] for each in found["ways"].values()) <= 15
    assert found["share"]["placement_of_ruling"] < 0.25
    assert found["times_bare_table"]["100"] < 15
