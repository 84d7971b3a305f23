"""What is loaded when it is first asked for, and by nobody before."""

import subprocess
import sys
from pathlib import Path

import pytest

from pointsman.gateway.api.models import CALLS
from pointsman.gateway.api.workflows.hooks import SENSORS
from pointsman.gateway.route_table import ROUTES
from pointsman.gateway.serving.route import Route, load_name
from pointsman.storage.policies import decision_files

_LOADED = """
import sys
from pathlib import Path
from pointsman.gateway.server import open_gateway
with open_gateway(Path(sys.argv[1])):
    print(*sorted(sys.modules))
"""


@pytest.mark.parametrize("route", ROUTES.values(), ids=lambda route: " ".join(route.key))
def test_what_a_route_names_can_be_loaded(route: Route) -> None:
    for name in (route.answer, route.body):
        assert name in {"", "str"} or isinstance(load_name(name), type)
    if route not in CALLS:
        handlers, _, method = route.handler.rpartition(".")
        assert callable(getattr(load_name(handlers), method))


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
