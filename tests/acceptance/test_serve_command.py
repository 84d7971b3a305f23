"""`serve` starts only under a policy that its owner wrote."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.gateway.house import eventually

from pointsman.cli.main import main
from pointsman.operations.starter import starter_text

BROKEN = {
    "pointsman.yaml": "retain: some\nmood: 1\n",
    "models.yaml": "schema_version: 1\nproviders: {a: {kind: openai, base_url: localhost/v1}}\n",
    "routing.yaml": "schema_version: 1\nglobal_default: no:such\nrules:\n",
    "placement.yaml": "router_version: 1.0.0\n",
    "agents.yaml": "modules: {a: {apt: 9}}\n",
    "decisions/d.yaml": "decision: {id: d}\n",
    "workflows/w.yaml": "workflow: {id: w, stages: []}\n",
    "sensors/s.yaml": "sensor: {id: s, type: manual, target: }\n",
}


NOT_HERE = ("--host", "192.0.2.1")
"""An address of no machine: a gateway that starts in spite of all ends here, and does not serve."""


def _write(home: Path, name: str, text: str) -> None:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(text)
    path.chmod(0o600)


def _run(home: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--home", str(home)])


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_of_which_no_good_version_is_known_stops_it(
    tmp_path: Path, name: str
) -> None:
    _write(tmp_path, name, BROKEN[name])
    done = _run(tmp_path, "serve", *NOT_HERE)
    assert done.exit_code == 2
    assert f"error: {tmp_path / name}:" in done.stderr
    assert "listen" not in done.output


def test_a_local_model_that_models_yaml_does_not_know_is_refused_at_its_place(
    tmp_path: Path,
) -> None:
    models = "schema_version: 1\nproviders: {house: {kind: ollama}}\n"
    _write(tmp_path, "models.yaml", models + "models: {house:llama: {location: local}}\n")
    table = starter_text("placement.yaml").decode()
    _write(tmp_path, "placement.yaml", f"local_model: house:lama\n{table}")
    place = f"{tmp_path / 'placement.yaml'}:1:14: config.unknown_value"
    for words in (("rules", "check"), ("serve", *NOT_HERE), ("doctor",)):
        done = _run(tmp_path, *words)
        assert done.exit_code == (1 if words == ("doctor",) else 2), done.output
        assert place in done.output, done.output
        assert "did you mean `house:llama`?" in done.output
    _write(tmp_path, "placement.yaml", f"local_model: house/llama\n{table}")
    assert _run(tmp_path, "rules", "check").exit_code == 0


def test_every_error_of_every_file_is_listed(tmp_path: Path) -> None:
    for name, text in BROKEN.items():
        _write(tmp_path, name, text)
    done = _run(tmp_path, "serve", *NOT_HERE)
    told = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    checked = _run(tmp_path, "rules", "check").stdout.splitlines()
    listed = [line for line in checked if line.startswith(str(tmp_path))]
    assert [line.removeprefix("error: ") for line in told] == listed
    assert all(any(f"{tmp_path / name}:" in line for line in told) for name in BROKEN)
    assert len([line for line in told if "pointsman.yaml" in line]) == 2


@pytest.mark.req(158)
def test_the_command_line_goes_on_where_the_gateway_does_not(tmp_path: Path) -> None:
    _write(tmp_path, "routing.yaml", BROKEN["routing.yaml"])
    done = _run(tmp_path, "route", "hello")
    assert done.exit_code == 0
    assert f"warning: {tmp_path / 'routing.yaml'}:2:17: config.unknown_value" in done.stderr


@pytest.mark.req(158)
def test_with_a_last_good_version_it_starts_and_says_so(tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "log"
    good = {"routing.yaml": "schema_version: 1\n", "sensors/s.yaml": "sensors: []\n"}
    for name, text in good.items():
        _write(home, name, text)
    first = _served(home, log)
    assert "warning" not in first
    for name in good:
        _write(home, name, BROKEN[name])
    told = _served(home, log)
    for name in good:
        assert f"warning: {home / name}:" in told
        assert f"warning: in force: the last good version of {name}, until it is mended" in told


def _served(home: Path, log: Path) -> str:
    """Start the gateway, give what it says, and stop it."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("pointsman")), "serve", "--port", "0",
             "--home", str(home)],
            stdout=output, stderr=subprocess.STDOUT, env=os.environ,
        )  # fmt: skip
        try:
            eventually(lambda: "listening on" in log.read_text() or process.poll(), seconds=20)
        finally:
            process.terminate()
            process.wait(20)
    told = log.read_text()
    assert "listening on" in told
    return told
