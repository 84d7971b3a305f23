"""A command loads what it needs: each module costs every run of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from pointsman import Pointsman
from pointsman.cli.main import COMMANDS, main
from pointsman.operations.starter import write_starter

LOADED = """
import sys
import click
before = set(sys.modules)
sys.argv = ["pointsman", *sys.argv[1:]]
from pointsman.cli.main import main
try:
    main()
except SystemExit:
    pass
print("\\n".join(sorted(set(sys.modules) - before)), file=sys.stderr)
"""


def loaded(*command: str) -> list[str]:
    """Return the modules that a command loads beside the interpreter's and click's."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOADED, *command],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.split()


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_version_and_the_help_load_no_command(option: str) -> None:
    found = loaded(option)
    assert len(found) <= 20
    own = [name for name in found if name.startswith("pointsman")]
    assert own == [
        "pointsman",
        "pointsman.cli",
        "pointsman.cli.groups",
        "pointsman.cli.main",
        "pointsman.version",
    ]


@pytest.mark.parametrize(("command", "most"), [(("why",), 235), (("rules", "check"), 268)])
def test_reading_commands_load_no_provider_tokenizer_or_event_loop(
    tmp_path: Path, command: tuple[str, ...], most: int
) -> None:
    with Pointsman(tmp_path / "home") as home:
        write_starter(home.home)
        home.route(home.facts("hello"))
    found = loaded(*command, "--home", str(tmp_path / "home"))
    assert len(found) <= most
    for name in ("asyncio", "splintr", "pointsman.app", "pointsman.providers.port", "numpy"):
        assert name not in found


def test_the_help_tells_of_each_command_what_the_command_tells() -> None:
    context = click.Context(main)
    for name, (_, summary) in COMMANDS.items():
        command = main.get_command(context, name)
        assert command is not None
        assert command.get_short_help_str(1_000) == summary
