"""Whole lives of the product in simulated time: promises hold, and a seed gives the same bytes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from campaigns.planted import search
from campaigns.planted_faults import FAULTS
from tests.simulation.script import Script, draw_script
from tests.simulation.shrinking import shrink

ROOT = Path(__file__).parents[2]
FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))
WORDS = ("--seeds", "3-4", "--length", "40")


def lives(*words: str, hash_seed: int = 0) -> list[dict[str, Any]]:
    """Live lives in a process of their own: it changes the standard library."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *words],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"seed"')]


def test_lives_keep_every_promise_and_a_seed_gives_the_same_bytes() -> None:
    first, second = lives(*WORDS), lives(*WORDS, hash_seed=7)

    assert [each["findings"] for each in first] == [[], []]
    assert [each["digest"] for each in first] == [each["digest"] for each in second]
    assert first[0]["digest"] != first[1]["digest"]


def test_lives_that_failed_once_fail_no_more() -> None:
    told = lives("--script", *map(str, FOUND))

    findings = zip([each.stem for each in FOUND], [each["findings"] for each in told], strict=True)
    assert {name: found for name, found in findings if found} == {}


def test_every_planted_fault_fits_the_source() -> None:
    for fault in FAULTS:
        text = (ROOT / "src" / "pointsman" / fault.path).read_text()
        assert text.count(fault.old) == 1, fault.name
    assert len({each.name for each in FAULTS}) == len(FAULTS)


def test_a_life_finds_an_answer_that_was_out_too_early() -> None:
    fault = next(each for each in FAULTS if each.name.startswith("an answer leaves"))

    assert "durable" in str(search(fault, 1, 5, 60)["found_by"])


def test_a_script_is_made_short_while_it_still_fails() -> None:
    drawn = draw_script(12, 40)
    needed = {drawn["actions"][at]["n"] for at in (5, 30)}

    def fails(script: Script) -> bool:
        return needed <= {each["n"] for each in script["actions"]}

    short = shrink(drawn, fails)

    assert {each["n"] for each in short["actions"]} == needed
    assert short["settings"]["faulty"] == 0
