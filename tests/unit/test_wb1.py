"""The weighted choice wb1: its vectors, in Python and in JavaScript, and what it promises."""

import json
import re
import shutil
import subprocess
from collections import Counter
from decimal import Decimal
from math import sqrt
from pathlib import Path

import pytest

from pointsman.errors import NumberError
from pointsman.kernel.wb1 import MAX_TOTAL, Salted, ends, pick_weight, unit_bytes, whole_weights

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
VECTORS = json.loads((REFERENCE / "wb1-vectors.json").read_text())

RUNNER = """
import { readFileSync } from "node:fs";
const { vectors, refused } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const sum = (weights) => weights.reduce((a, b) => a + b, 0);
const wrong = vectors.filter((v) => slot(v.salt, v.unit, sum(v.weights)) !== v.slot
  || choose(v.salt, v.unit, v.weights) !== v.case);
const taken = refused.filter((unit) => choose("s", unit, [1]) !== null);
console.log(JSON.stringify({ checked: vectors.length, wrong, taken }));
"""


def choose(salt: str, unit: object, weights: list[int]) -> int:
    placed = unit_bytes(unit)
    assert placed is not None
    bounds = ends(weights)
    return pick_weight(Salted(salt).slot(placed, bounds[-1]), bounds)


@pytest.mark.req(312)
def test_python_gives_every_vector() -> None:
    assert VECTORS["method"] == "wb1"
    assert len(VECTORS["vectors"]) > 500
    for each in VECTORS["vectors"]:
        unit = unit_bytes(each["unit"])
        total = sum(each["weights"])
        assert Salted(each["salt"]).slot(unit, total) == each["slot"]
        assert choose(each["salt"], each["unit"], each["weights"]) == each["case"]


def test_javascript_as_published_gives_every_vector(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not on this machine")
    page = (REFERENCE / "wb1.md").read_text()
    (code,) = re.findall(r"```javascript\n(.*?)```", page, re.DOTALL)
    script = tmp_path / "wb1.mjs"
    script.write_text(code + RUNNER)
    done = subprocess.run(
        [node, str(script), str(REFERENCE / "wb1-vectors.json")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found == {"checked": len(VECTORS["vectors"]), "wrong": [], "taken": []}


@pytest.mark.parametrize("value", [None, Decimal("1.5"), [], {}, 2**53, -(2**53), "\ud800",
                                   Decimal("1e40")])  # fmt: skip
def test_what_cannot_be_placed_is_refused(value: object) -> None:
    assert unit_bytes(value) is None


def test_the_kind_is_part_of_the_unit_and_a_fraction_of_zero_is_not() -> None:
    units = [1, "1", True, "true", "i:1", False, 0, ""]
    assert len({unit_bytes(each) for each in units}) == len(units)
    assert unit_bytes(Decimal("5.0")) == unit_bytes(5) == b"i:5"


def test_salt_and_unit_never_run_together() -> None:
    assert Salted("ab").slot(b"s:c", 10**6) != Salted("a").slot(b"s:bc", 10**6)


@pytest.mark.req(313)
def test_shares_come_out_as_weighted() -> None:
    """10,000 ids here, within 4 sigma; 1,000,000 within 3 in the campaign."""
    count = 10_000
    found = Counter(
        choose("decision-ab-prompt-variant", f"r{n}", [70, 20, 10]) for n in range(count)
    )
    for case, share in enumerate((0.7, 0.2, 0.1)):
        assert abs(found[case] - count * share) < 4 * sqrt(count * share * (1 - share))


def test_two_decisions_place_independently() -> None:
    count = 10_000
    same = sum(choose("one", n, [1, 1]) == choose("two", n, [1, 1]) for n in range(count))
    assert abs(same - count / 2) < 4 * sqrt(count / 4)


def test_a_shift_between_neighbours_moves_only_the_difference() -> None:
    before = [choose("s", n, [70, 20, 10]) for n in range(10_000)]
    after = [choose("s", n, [60, 30, 10]) for n in range(10_000)]
    moved = {(b, a) for b, a in zip(before, after, strict=True) if a != b}
    assert moved == {(0, 1)}


@pytest.mark.req(315)
def test_a_weight_of_zero_is_never_picked() -> None:
    assert {choose("s", n, [0, 1, 0, 1, 0]) for n in range(1_000)} == {1, 3}


@pytest.mark.parametrize(
    ("weights", "wanted"),
    [
        (["33.3", "33.3", "33.4"], [333, 333, 334]),
        (["70", "20", "10"], [70, 20, 10]),
        (["0.5", "1", "1e2"], [5, 10, 1000]),
        (["1.50", "2.00"], [15, 20]),
        (["0", "0.0"], [0, 0]),
        (["1000", "2000"], [1000, 2000]),
        ([], []),
    ],
)
def test_decimal_weights_are_scaled_exactly(weights: list[str], wanted: list[int]) -> None:
    assert whole_weights([Decimal(each) for each in weights]) == wanted


@pytest.mark.parametrize("weights", [["-1"], [str(MAX_TOTAL), "1"], ["0.0000000001", "1"]])
def test_weights_below_zero_or_too_large_are_refused(weights: list[str]) -> None:
    with pytest.raises(NumberError):
        whole_weights([Decimal(each) for each in weights])
