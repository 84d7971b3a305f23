"""The page about detection names every kind, and the bench kept what is promised."""

import json
from pathlib import Path

from pointsman.signals.detectors import DETECTOR, KINDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "detection.md").read_text(encoding="utf-8")
RESULTS = json.loads((ROOT / "bench" / "results" / "detection.json").read_text(encoding="utf-8"))


def test_the_page_describes_every_kind_as_the_code_does() -> None:
    rows = [
        f"| `{kind.name}` | {kind.group} | {'yes' if kind.has_checksum else 'no'} |"
        f" {kind.description} |"
        for kind in KINDS
    ]
    assert [line for line in PAGE.splitlines() if line.startswith("| `")] == rows
    assert f"`{DETECTOR}`" in PAGE


def test_the_last_measurement_is_of_this_detector_and_keeps_the_promises() -> None:
    assert RESULTS["conditions"]["detector"] == DETECTOR
    for kind in KINDS:
        least = 0.95 if kind.has_checksum else 0.90
        found = RESULTS["ours"][kind.name]
        assert min(found["precision"], found["recall"]) >= least, kind.name
    speed = RESULTS["speed"]["ours"]
    assert all(speed[name]["p50_us"] <= 1_000 for name in ("prose_4k", "code_4k", "log_4k"))
    assert all(each["times_an_eighth"] < 24 for each in RESULTS["hostile_1_000_000_chars"].values())
