"""What is loaded when it is first asked for, and by nobody before."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from pointsman.gateway.api.workflows.hooks import SENSORS
from pointsman.gateway.later import LATER
from pointsman.gateway.server import opened
from pointsman.storage.policies import decision_files

_LOADED = """
import sys
from pathlib import Path
from pointsman.gateway.server import opened
with opened(Path(sys.argv[1])):
    print(*sorted(sys.modules))
"""


@pytest.mark.parametrize("name", sorted(LATER))
def test_what_is_loaded_later_serves_what_it_is_told_to(name: str, tmp_path: Path) -> None:
    module, _, kind = name.rpartition(".")
    with opened(tmp_path / "home") as (parts, _gateway):
        made = getattr(import_module(f"pointsman.gateway.api.{module}"), kind)(parts)
        assert set(made.routes()) == set(LATER[name])


def test_a_gateway_that_serves_models_alone_loads_neither_agents_nor_workflows(
    tmp_path: Path,
) -> None:
    told = subprocess.run(
        [sys.executable, "-c", _LOADED, str(tmp_path / "home")],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    loaded = set(told.stdout.split())
    assert "pointsman.gateway.turns.endpoints" in loaded
    unwanted = {
        "numpy",
        "pointsman.jobs.agency",
        "pointsman.approvals.approvals",
        "pointsman.workflows.branching",
        "pointsman.conversations.conversations",
        "pointsman.jobs.jobs",
        "pointsman.audit.replay",
        "pointsman.sensors.sensors",
        "pointsman.agents.decide",
        "pointsman.branches.decide",
    }
    assert not loaded & unwanted


def test_hooks_look_for_sensors_where_they_are_kept() -> None:
    assert SENSORS == decision_files.SENSORS
