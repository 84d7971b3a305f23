"""Every example of the privacy guide is run, and says what the guide says."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from pointsman.cli.main import main
from pointsman.kernel.yaml_text import read_yaml
from pointsman.placement.policy import BUILT_IN

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "privacy.md"
FENCE = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples() -> Iterator[tuple[int, dict[str, Any], str, dict[str, Any]]]:
    """Give each question with its line, the table that stands above it, and what it comes to."""
    text = GUIDE.read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(msgspec.json.encode(BUILT_IN))
    asked, line = "", 0
    for fence in FENCE.finditer(text):
        kind, body = fence[2], fence[3]
        if kind == "placement":
            table = table | read_yaml(body.encode(), "placement.yaml").value  # type: ignore[operator] # a mapping
        if kind == "facts":
            asked, line = body, text.count("\n", 0, fence.start()) + 1
        if kind == "says":
            yield line, table, asked, json.loads(body)


EXAMPLES = list(examples())


def run(home: Path, *words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, [*words, "--home", str(home)], input=text)


def test_every_example_says_what_it_is() -> None:
    kinds = [fence[2] for fence in FENCE.finditer(GUIDE.read_text(encoding="utf-8"))]
    assert set(kinds) == {"placement", "facts", "says"}
    assert kinds.count("facts") == kinds.count("says") == len(EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: f"privacy.md:{each[0]}")
def test_a_question_comes_to_what_the_guide_says(
    tmp_path: Path, example: tuple[int, dict[str, Any], str, dict[str, Any]]
) -> None:
    _, table, asked, says = example
    (tmp_path / "placement.yaml").write_text(json.dumps(table))
    done = run(tmp_path, "place", "--facts", "-", "--json", text=asked)
    value = json.loads(done.stdout)
    assert {name: value.get(name) for name in says} == says
    assert done.exit_code == (1 if "error_code" in says else 0)
    assert run(tmp_path, "rules", "check").exit_code == 0


def test_the_commands_of_the_guide_do_what_it_says(tmp_path: Path) -> None:
    _, table, asked, _ = next(each for each in EXAMPLES if "DE89" in each[2])
    (tmp_path / "placement.yaml").write_text(json.dumps(table))
    run(tmp_path, "place", "--facts", "-", text=asked)
    commands = re.findall(r"^    pointsman (.*)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [each.split()[0] for each in commands] == ["taint", "taint", "audit"]
    assert "s-2" in run(tmp_path, "taint", "list").stdout
    clear = ["taint", "clear", "s-2", "--reason", "the account is closed"]
    assert run(tmp_path, *clear).exit_code == 0
    assert run(tmp_path, "taint", "list").stdout == "no session is held on this machine\n"
    audit = run(tmp_path, *commands[2].split())
    assert audit.exit_code == 0
    assert audit.stdout.startswith("0 of 0 turns left this machine")
