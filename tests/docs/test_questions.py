"""The twenty questions: each is answered by one command that runs, or by at most three clicks."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from pointsman.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "questions.md"


def questions() -> list[tuple[str, str, str]]:
    """Return each question, its command and its clicks."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines]
    return [(row[0], row[1].strip("`"), row[2]) for row in rows if row[0] != "question"]


def pages() -> set[str]:
    """Return the names of the dashboard's pages."""
    keys = (ROOT / "web" / "src" / "keys.ts").read_text()
    table = keys[keys.index("PAGES") : keys.index("];")]
    return {row[2] for row in re.findall(r'\["(.)", "(\w*)", "(\w+)"\]', table)}


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("questions") / "home"
    done = CliRunner().invoke(main, ["--json", "demo", "--home", str(home)])
    assert done.exit_code == 0, done.output
    return home


def test_twenty_questions_are_asked_and_each_is_answered() -> None:
    rows = questions()
    assert len(rows) == 20
    assert [question for question, command, clicks in rows if not command and not clicks] == []


def test_clicks_begin_at_a_page_there_is_and_are_at_most_three() -> None:
    for question, _, clicks in questions():
        if clicks:
            steps = clicks.split(" → ")
            assert steps[0] in pages(), question
            # Opening the page is one.
            assert len(steps) <= 3, question


def test_every_command_runs_on_the_day_of_the_demo(
    day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for question, line, _ in questions():
        if not line:
            continue
        program, *words = shlex.split(line)
        assert program == "pointsman"
        done = CliRunner().invoke(main, [*words, "--home", str(day)])
        assert done.exit_code == 0, (question, line, done.output)
        assert done.output.strip(), question
