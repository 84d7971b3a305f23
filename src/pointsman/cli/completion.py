"""Completion of commands and options in a shell: the script for it, printed or put in its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

import click
from click.shell_completion import get_completion_class

from pointsman.cli.groups import ExampleCommand
from pointsman.cli.main import main
from pointsman.cli.terms import Session, command
from pointsman.errors import InputError
from pointsman.kernel.nearest import nearest

PROGRAM: Final = "pointsman"


class CompletionFile(NamedTuple):
    """Where a shell looks for completions: in the folder of a variable, else below the user's."""

    variable: str
    folder: str
    file: str
    line: str = ""
    """The line that the shell's start file needs to look there."""

    def path(self) -> Path:
        """Return the file."""
        moved = os.environ.get(self.variable, "") if self.variable else ""
        return Path(moved or Path.home() / self.folder) / self.file


COMPLETION_FILES: Final = {
    "bash": CompletionFile(
        "XDG_DATA_HOME", ".local/share", f"bash-completion/completions/{PROGRAM}"
    ),
    "zsh": CompletionFile(
        "", ".zfunc", f"_{PROGRAM}", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"
    ),
    "fish": CompletionFile("XDG_CONFIG_HOME", ".config", f"fish/completions/{PROGRAM}.fish"),
}
"""Bash needs the package bash-completion; fish needs nothing."""


@click.command(cls=ExampleCommand)
@click.argument("shell", required=False, metavar="[bash|zsh|fish]")
@click.option("--install", is_flag=True, help="Write it where the shell looks for it.")
@command
def completion(session: Session, shell: str | None, install: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Print or install the completion of commands for a shell.

    Without a shell, for the one that the variable SHELL names.
    """
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in COMPLETION_FILES:
        near = nearest(name, COMPLETION_FILES)
        hint = f"did you mean `{near}`?" if near else f"name one of {', '.join(COMPLETION_FILES)}"
        raise InputError(f"no completion for the shell `{name}`", hint=hint)
    script, file = _script(name), COMPLETION_FILES[name]
    if not install:
        session.show(script, {"shell": name, "script": script})
        return
    path = file.path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script, encoding="utf-8")
    next_ = f"add to ~/.{name}rc: {file.line}" if file.line else f"start a new {name}"
    session.show(f"written  {path}\nnext     {next_}", {"shell": name, "path": str(path)})


def _script(shell: str) -> str:
    maker = get_completion_class(shell)
    if maker is None:
        raise InputError(f"this version of click has no completion for `{shell}`")
    return maker(main, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source()
