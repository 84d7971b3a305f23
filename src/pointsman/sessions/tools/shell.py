"""`run_shell`: a command line in the workspace's folder.

The workspace does not bound it: a command may reach whatever its user may. That is why its class
is `execute`, and why it is confirmed unless the settings say otherwise.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from pointsman.kernel.document import escape
from pointsman.sessions.tool import ToolDefinition
from pointsman.sessions.tools.failure import CallFailed, invalid_input
from pointsman.sessions.tools.process import Command, CommandResult, Timeouts, run
from pointsman.sessions.tools.schema import Field, object_schema
from pointsman.sessions.tools.stop import Stop

LONGEST_COMMAND = 32_000
MOST_SECONDS = 600

RUN_SHELL = ToolDefinition(
    "run_shell",
    "Run a command line with sh in the workspace's folder and give what it prints and its exit "
    "code. It has no input, and everything it started ends with it. It can reach files outside "
    "the workspace, so the user is asked first.",
    object_schema(
        Field("command", "string", "the command line", required=True),
        Field("timeout_s", "integer", f"seconds it may take, at most {MOST_SECONDS}"),
    ),
    "execute",
)

PASSED_ON: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
    "VIRTUAL_ENV",
)  # fmt: skip
"""The variables that a command gets from our environment; keys and tokens are not among them."""

_SET: Final = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""So that nothing waits for a person who is not there."""


class ShellInput(Struct, frozen=True):
    """The input of `run_shell`."""

    command: str
    timeout_s: int | None = None


def run_shell(folder: Path, asked: ShellInput, timeouts: Timeouts, stop: Stop) -> str:
    """Return the output and the exit code; raises where the command did not end by itself."""
    _check(asked)
    if asked.timeout_s is not None:
        timeouts = Timeouts(asked.timeout_s, timeouts.term_s, timeouts.kill_s, timeouts.drain_s)
    mark = secrets.token_hex(16)
    command = Command(("/bin/sh", "-c", asked.command), folder, environment(), mark)
    try:
        ended = run(command, timeouts, stop)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CallFailed("execution_error", f"the command could not be started: {reason}") from None
    return _result_text(ended, timeouts)


def environment(given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of a command."""
    return {name: given[name] for name in PASSED_ON if name in given} | _SET


def _check(asked: ShellInput) -> None:
    if not asked.command.strip():
        raise invalid_input("`command` is empty")
    if len(asked.command) > LONGEST_COMMAND:
        raise invalid_input(
            f"`command` has at most {LONGEST_COMMAND} characters: write a script first"
        )
    if "\0" in asked.command:
        raise invalid_input("`command` cannot hold a zero character")
    with suppress(UnicodeEncodeError):
        asked.command.encode()
        if asked.timeout_s is None or 1 <= asked.timeout_s <= MOST_SECONDS:
            return
        raise invalid_input(f"`timeout_s` lies between 1 and {MOST_SECONDS}")
    raise invalid_input("`command` holds half of a surrogate pair")


def _result_text(ended: CommandResult, timeouts: Timeouts) -> str:
    printed = ended.output.rstrip("\n")
    last = f"\nit had printed:\n{printed}" if printed else ""
    if ended.how == "wish":
        raise CallFailed("cancelled", f"the command was cancelled{_unless_dead(ended)}{last}")
    if ended.how == "timeout":
        seconds = f"{timeouts.command_s:g}"
        raise CallFailed(
            "timeout", f"the command took longer than {seconds} s{_unless_dead(ended)}{last}"
        )
    return f"{printed}\n[{_code(ended.code)}]" if printed else f"[{_code(ended.code)}]"


def _unless_dead(ended: CommandResult) -> str:
    return "" if ended.code is not None else ", and could not be killed"


def _code(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    names = {each.value: each.name for each in signal.Signals}
    return f"killed by {names.get(-code, f'signal {-code}')}"


def summary(asked: ShellInput) -> str:
    """Return a command as the confirmation shows it."""
    return escape(asked.command, 2_000)
