"""`workflow` and `sensor`, as a person or a script uses them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.decision_home import GATE, GOOD, Home

from pointsman import Pointsman
from pointsman.cli.sensor import service_of
from pointsman.sensors.state import offers

EXAMPLE = Path(__file__).parents[2] / "examples" / "content-pipeline"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


class TestWorkflow:
    """`workflow run` and `workflow graph`."""

    FLOW = """
workflow:
  id: w
  stages:
    - {id: start, run: {shell: [cat], parse: json}, decision: quality-gate}
    - {id: stage-deploy}
    - {id: stage-rework, run: {shell: [sh, -c, "exit 3"]}}
"""

    def test_a_run_is_told_step_by_step_and_can_be_asked_for_again(
        self, home: Home, tmp_path: Path
    ) -> None:
        (tmp_path / "w.yaml").write_text(self.FLOW)
        words = ("workflow", "run", str(tmp_path / "w.yaml"), "--id", "r1")
        refused = home.run(*words, "--input", GOOD)
        assert (refused.exit_code, "the program `cat` is not listed" in refused.stderr) == (2, True)
        (home.path / "pointsman.yaml").write_text("workflow: {commands: [cat, sh]}")
        done = home.run(*words, "--input", GOOD)
        assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "run r1 of w: done")
        assert home.json(*words)["is_resumed"] is True
        assert home.run("workflow", "run", "nowhere.yaml").exit_code == 2
        assert home.run("workflow", "run", str(tmp_path / "w.yaml"), "--id", "a b").exit_code == 2
        bad = home.run("workflow", "run", str(tmp_path / "w.yaml"), "--input", "{}")
        assert (bad.exit_code, "ended with 3" in bad.stdout) == (1, True)
        assert len(home.json("decision", "log", "--workflow-id", "r1")) == 1

    def test_what_stages_can_lead_to_is_drawn(self, home: Home, tmp_path: Path) -> None:
        (tmp_path / "w.yaml").write_text(self.FLOW)
        done = home.run("workflow", "graph", str(tmp_path / "w.yaml"))
        assert done.stdout.startswith("flowchart TD")
        value = home.json("workflow", "graph", str(tmp_path / "w.yaml"))
        assert len(value["nodes"]) == 5


class TestSensor:
    """`sensor list` and `sensor run`."""

    def test_a_person_can_fire_a_manual_sensor(self, home: Home) -> None:
        (home.path / "sensors").mkdir()
        (home.path / "sensors" / "s.yaml").write_text(
            "sensor: {id: button, type: manual, decision: quality-gate, targets: "
            "{stage-deploy: {run: {shell: [sh, -c, 'cat > out.json']}}, "
            "stage-rework: {run: {shell: [sh, -c, 'exit 1']}}}}"
        )
        (home.path / "pointsman.yaml").write_text("workflow: {commands: [sh]}")
        (home.path / "decisions" / "gate.yaml").write_text(
            GATE.replace("artifact.quality_score", "event.data.score")
        )
        assert home.json("sensor", "list")[0]["trigger_count"] == 0
        value = home.json("sensor", "run", "button", "--event", '{"score": 0.8}')
        assert [each["status"] for each in value["acted"]] == ["done"]
        assert json.loads((home.path / "out.json").read_text())["event"]["data"] == {"score": 0.8}
        assert home.json("sensor", "list")[0]["trigger_count"] == 1
        assert "button" in home.run("sensor", "list").stdout
        assert home.run("sensor", "run", "buton", "--once").exit_code == 2
        assert home.run("sensor", "run", "--event", "{}").exit_code == 2

    def test_an_event_is_left_for_the_process_that_runs_the_sensors(self, home: Home) -> None:
        (home.path / "sensors").mkdir()
        (home.path / "sensors" / "s.yaml").write_text(
            "sensor: {id: button, type: manual, target: {run: {shell: [sh, -c, 'cat > out.json']}}}"
        )
        (home.path / "pointsman.yaml").write_text("workflow: {commands: [sh]}")
        with Pointsman(home.path) as runner:
            lease = runner.home.lease("sensors")
            value = home.json("sensor", "run", "button", "--event", '{"score": 0.8}')
            assert value == {"acted": [], "failed": 0, "left_for_runner": True}
            assert home.run("sensor", "run", "--once").exit_code == 2, "it runs elsewhere"
            service = service_of(runner)
            for _ in range(3):
                service.tick()
            lease.release()
        seen = json.loads((home.path / "out.json").read_text())["event"]
        assert (seen["data"], seen["seq"]) == ({"score": 0.8}, 1)
        assert offers(home.path, "button") == [], "an event that was taken is gone"
        assert home.json("sensor", "list")[0]["trigger_count"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_sensors_watch_files_until_they_are_told_to_end(home: Home, told: signal.Signals) -> None:
    for name in ("sensors", "in"):
        (home.path / name).mkdir()
    (home.path / "sensors" / "s.yaml").write_text(
        "sensor: {id: files, type: file_change, trigger: {paths: [in], debounce: 50ms}, "
        "target: {run: {shell: [sh, -c, 'cat > out.json']}}}"
    )
    (home.path / "pointsman.yaml").write_text("workflow: {commands: [sh]}")
    command = str(Path(sys.executable).parent / "pointsman")
    words = [command, "sensor", "run", "--home", str(home.path)]
    with _started(words) as one:
        state = home.path / "sensor-state" / "files.json"
        _waited(state.exists)
        (home.path / "in" / "new.md").write_text("hello")
        _waited((home.path / "out.json").exists)
        second = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (second.returncode, "another process runs" in second.stderr) == (2, True)
        one.send_signal(told)
        out, err = one.communicate(timeout=60)
    assert "files  files-1  files  done" in out
    assert (one.returncode, "stopped" in err) == (0, True)


@contextmanager
def _started(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    # Whoever is started in the background may be told to take no notice of Ctrl+C; this one is not.
    code = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL)"
    words = [sys.executable, "-c", f"{code}; os.execv(sys.argv[1], sys.argv[1:])", *words]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as one:
        try:
            yield one
        finally:
            one.kill()


def _waited(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.req(347, 348)
def test_the_example_runs_by_one_command(tmp_path: Path) -> None:
    command = shutil.which("pointsman", path=str(Path(sys.executable).parent)) or ""
    target = tmp_path / "example"
    done = subprocess.run(
        [str(EXAMPLE / "run.sh"), str(target)],
        env={**os.environ, "POINTSMAN": command},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "4 targets run, 0 failed" in done.stdout
    assert "10 of 10 decisions identical" in done.stdout
    assert "intact" in done.stdout
    announced = {each.name for each in (target / "announced").iterdir()}
    handed = {each.stem: each.read_text().strip() for each in (target / "handed-on").iterdir()}
    assert announced == {"release-notes.txt"}
    assert handed == {"advisory": "human", "idea": "full-rework"}
