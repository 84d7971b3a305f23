"""What the bench of branches wrote down last is what is promised: ratios of one run."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_branches_are_as_many_times_faster_than_zen_as_was_asked_for() -> None:
    found = json.loads((ROOT / "bench" / "results" / "branches.json").read_text())
    assert found["single"]["zen_times_compiled"] >= 60
    assert found["table"]["zen_times_one_code_object"] >= 20
    assert found["table"]["zen_times_indexed"] >= 100
    assert found["table"]["zen_trace_times_decide_full_trace"] >= 4
    assert found["weighted"]["document_times_wb1"] >= 5


def test_the_campaign_found_no_expression_that_differs() -> None:
    found = json.loads((ROOT / "evidence" / "expressions.json").read_text())
    assert found["different"] == found["zen_different"] == 0
    assert found["never_occurred"] == []
    assert found["expressions"] >= 200_000
    assert all(abs(sigma) <= 3 for sigma in found["wb1"]["sigma"].values())
