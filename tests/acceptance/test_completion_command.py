"""Completion in a real shell, and the help by question."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from pointsman.cli.main import COMMANDS, GROUPS, main

BIN = Path(sys.executable).parent

COMPLETED = """
source "$1"
COMP_WORDS=(pointsman {word}); COMP_CWORD=1
_pointsman_completion pointsman {word} pointsman
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(script: Path, word: str) -> list[str]:
    """Return what bash offers for the first word behind the program."""
    done = subprocess.run(
        ["bash", "-c", COMPLETED.format(word=word), "bash", str(script)],
        env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.split()


def test_installed_completion_completes_commands_in_bash(tmp_path: Path) -> None:
    variables = {"XDG_DATA_HOME": str(tmp_path)}
    done = CliRunner().invoke(main, ["completion", "bash", "--install"], env=variables)
    script = tmp_path / "bash-completion" / "completions" / "pointsman"
    assert done.exit_code == 0
    assert str(script) in done.output
    assert completed(script, "re") == ["receipt", "replay"]


def test_completion_is_for_the_users_shell_when_none_is_named() -> None:
    done = CliRunner().invoke(main, ["--json", "completion"], env={"SHELL": "/usr/bin/fish"})
    assert json.loads(done.output)["shell"] == "fish"


def test_zsh_is_told_the_line_it_needs(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["completion", "zsh", "--install"], env={"HOME": str(tmp_path)})
    assert "fpath+=~/.zfunc" in done.output
    assert (tmp_path / ".zfunc" / "_pointsman").read_text().startswith("#compdef pointsman")


def test_unknown_shell_is_refused_with_the_nearest_name() -> None:
    done = CliRunner().invoke(main, ["completion", "bsh"])
    assert done.exit_code == 2
    assert "no completion for the shell `bsh`" in done.output
    assert "did you mean `bash`?" in done.output


def test_unwritable_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    variables = {"XDG_DATA_HOME": str(tmp_path / "file")}
    done = CliRunner().invoke(main, ["completion", "bash", "--install"], env=variables)
    assert done.exit_code == 2
    assert str(tmp_path / "file") in done.output


def test_mistyped_command_is_told_the_nearest_one() -> None:
    done = CliRunner().invoke(main, ["replya"])
    assert done.exit_code == 2
    assert "no command `replya` (did you mean `replay`?)" in done.output


def test_word_near_to_no_command_is_told_none() -> None:
    assert "did you mean" not in CliRunner().invoke(main, ["xyzzyxyzzy"]).output


def test_each_command_stands_once_in_the_help_by_question() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(COMMANDS)
    output = CliRunner().invoke(main, ["--help"]).output
    assert [title for title in GROUPS if f"{title}:" not in output] == []
