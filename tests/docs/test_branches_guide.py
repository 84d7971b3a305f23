"""Every decision of the guide can be read, has no surprises, and the shares of wb1 are as told."""

import re
from pathlib import Path
from typing import get_args

import pytest

from pointsman.branches.policy import branch_policy, read_policy
from pointsman.branches.rules.review import BranchConcern, review
from pointsman.kernel.wb1 import Salted, ends, pick_weight, unit_bytes
from pointsman.storage.policies.sensor_file import SensorType, read_sensors
from pointsman.storage.policies.settings import read_settings
from pointsman.storage.policies.workflow_file import read_workflow
from pointsman.workflows.actions import check_allowed

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "guide" / "branches.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml decisions\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
ROW = re.compile(
    r"^\| ([0-9/]+) to ([0-9/]+) \| .*? \| ([0-9.]+) % \| ([0-9.]+) % \|$", re.MULTILINE
)
IDS = 20_000


def test_the_guide_has_examples() -> None:
    assert len(EXAMPLES) == 5
    assert "yaml\n" not in GUIDE


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda text: text.split()[2])
def test_an_example_of_the_guide_is_read_and_has_no_faults(text: str) -> None:
    policy = branch_policy([read_policy(text.encode(), "guide")])
    harmless = {BranchConcern.GAP, BranchConcern.OVERLAP}
    assert [each for each in review(policy) if each.code not in harmless] == []


def blocks(kind: str) -> list[bytes]:
    page = (DOCS / "guide" / "workflows.md").read_text(encoding="utf-8")
    found = re.findall(rf"^```yaml {kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [each.encode() for each in found]


def test_the_examples_of_workflows_and_sensors_are_read() -> None:
    (workflow,), (sensor,), (settings,) = map(blocks, ("workflow", "sensor", "settings"))
    stages = read_workflow(workflow, "guide").stages
    allowed = read_settings(settings, "guide").workflow
    for stage in stages:
        assert stage.run is not None
        check_allowed(stage.run, allowed)
    assert len(read_sensors(sensor, "guide").every) == 1


def test_the_guide_names_every_type_of_sensor() -> None:
    page = (DOCS / "guide" / "workflows.md").read_text(encoding="utf-8")
    for each in get_args(SensorType):
        assert f"| `{each}` |" in page


def test_the_shares_that_move_are_as_told() -> None:
    page = (DOCS / "reference" / "wb1.md").read_text(encoding="utf-8")
    rows = ROW.findall(page)
    assert len(rows) == 4
    units = [unit_bytes(f"id-{number}") or b"" for number in range(IDS)]
    slots = [Salted("exp").slot(unit, 100) for unit in units]
    for before, after, told, _ in rows:
        bounds = [ends(list(map(int, each.split("/")))) for each in (before, after)]
        moved = sum(pick_weight(slot, bounds[0]) != pick_weight(slot, bounds[1]) for slot in slots)
        assert abs(100 * moved / IDS - float(told)) < 1
