"""`pointsman demo`: the day happens on the real engine, and stands in a home like any other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from pointsman.cli.main import main
from pointsman.demo.town import open_town
from pointsman.storage.policies.secrets import ADMIN_TOKEN


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, object]]]:
    """Live through the day once; return its home and what each step told."""
    home = tmp_path_factory.mktemp("demo") / "home"
    done = CliRunner().invoke(main, ["--json", "demo", "--home", str(home)])
    assert done.exit_code == 0, done.output
    return home, json.loads(done.output)["steps"]


def told(day: tuple[Path, list[dict[str, object]]], title: str) -> str:
    """Return the lines of the step whose title begins so."""
    (step,) = [each for each in day[1] if str(each["title"]).startswith(title)]
    return "\n".join(map(str, step["lines"]))  # type: ignore[arg-type] # a list of JSON


def test_first_turn_is_explained_with_its_call(day: tuple[Path, list[dict[str, object]]]) -> None:
    screen = told(day, "A turn is decided")
    assert "model: auto was served by north:large" in screen
    assert re.search(r"call 1: north:large done", screen)


def test_outage_is_bridged_and_told(day: tuple[Path, list[dict[str, object]]]) -> None:
    lines = told(day, "A provider is out")
    assert "south:medium took 4; no caller got an error" in lines
    assert "x-pointsman-fallback-from: north:large" in lines


def test_card_number_reaches_no_cloud(day: tuple[Path, list[dict[str, object]]]) -> None:
    lines = told(day, "A card number")
    assert "auto: house:llama; the next turn of that conversation: house:llama" in lines
    assert "in the cloud meanwhile: 0" in lines
    assert "a caller who names north:large for it: 403" in lines


def test_budget_refuses_before_it_is_passed(day: tuple[Path, list[dict[str, object]]]) -> None:
    lines = told(day, "A budget ends")
    assert re.search(r"\d+ answers, then 402", lines)
    assert re.search(r"has \$0\.\d+ left, north:large may need \$0\.01", lines)


def test_store_learned_what_the_small_model_can_do(
    day: tuple[Path, list[dict[str, object]]],
) -> None:
    lines = told(day, "After 48 judged turns")
    assert "hard tasks: 6 by north:large" in lines
    assert "easy tasks: 6 by north:small" in lines


def test_day_replays_and_its_ledger_is_intact(day: tuple[Path, list[dict[str, object]]]) -> None:
    identical, total = re.findall(r"\d+", told(day, "Every decision"))
    assert int(identical) == int(total) > 100
    assert "ledger.entry_changed" in told(day, "One byte")
    done = CliRunner().invoke(main, ["verify", "--home", str(day[0])])
    assert done.exit_code == 0, done.output


def test_receipt_is_verified_by_a_program_of_its_own(
    day: tuple[Path, list[dict[str, object]]],
) -> None:
    lines = told(day, "A receipt")
    assert "accepted" in lines
    assert lines.count("derived again, byte for byte") == 2


def test_each_step_names_a_command_that_works(day: tuple[Path, list[dict[str, object]]]) -> None:
    commands = [str(step["command"]).split()[1:] for step in day[1]]
    assert len(commands) == 9
    for words in commands:
        done = CliRunner().invoke(main, [*words, "--home", str(day[0])])
        assert done.exit_code == 0, (words, done.output)


def test_home_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "routing.yaml").write_text("mine")
    done = CliRunner().invoke(main, ["demo", "--home", str(tmp_path)])
    assert done.exit_code == 2
    assert f"{tmp_path} is in use" in done.output
    assert [each.name for each in tmp_path.iterdir()] == ["routing.yaml"]


def test_admin_token_of_the_environment_is_the_demos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ADMIN_TOKEN, "pa_a-token-that-the-operator-chose-before")
    with open_town(tmp_path / "home") as town:
        assert town.act("/api/keys", {"name": "intern", "scopes": ["models"]}).status == 201


def test_dashboard_is_served_on_that_day(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("pointsman")), "demo", "--serve"]
    running = subprocess.Popen(
        [*command, "--home", str(tmp_path / "home")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert running.stdout is not None
        lines = iter(running.stdout.readline, "")
        address = next(line.split()[1] for line in lines if line.startswith("dashboard"))
        with urlopen(address, timeout=30) as page:
            assert b"<title>" in page.read()
        running.terminate()
        assert running.wait(60) == 0
    finally:
        running.kill()
        running.wait()
        if running.stdout is not None:
            running.stdout.close()
