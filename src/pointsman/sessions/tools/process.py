"""One command in a process group of its own, with an end: by itself, by time, or by a wish to stop.

Nothing that it started outlives the call: the group is killed, and on Linux also what left the
group, found by a mark in its environment.
"""

from __future__ import annotations

import codecs
import os
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from pointsman.kernel.document import escape
from pointsman.sessions.tool import ToolDefinition
from pointsman.sessions.tools.excerpt import Excerpt
from pointsman.sessions.tools.failure import CallFailed, invalid_input
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


MARK = "POINTSMAN_TOOL_CALL"
"""The environment variable that marks the processes of a call."""

_PIECE: Final = 64 * 1024
_LOOK_S: Final = 0.05
"""How often to look whether a process ended, where the system cannot tell by itself."""


class Timeouts(Struct, frozen=True):
    """Timeouts: of the command, after SIGTERM, after SIGKILL, and of its remaining output."""

    command_s: float = 120
    term_s: float = 5
    kill_s: float = 5
    drain_s: float = 1


class CommandResult(Struct, frozen=True):
    """How a command ended: by itself with a code, too late, or on request.

    `code` is negative for a signal, as in `subprocess`; None where not even force ended it.
    """

    how: Literal["itself", "timeout", "wish"]
    code: int | None
    output: str


class Command(Struct, frozen=True):
    """A command: its words, folder, environment and mark."""

    words: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    mark: str


def run(command: Command, timeouts: Timeouts, stop: Stop) -> CommandResult:
    """Run a command to its end; raises `OSError` where it cannot be started."""
    process = subprocess.Popen(  # noqa: S603 - the caller has had it confirmed
        list(command.words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=command.folder,
        env={**command.environment, MARK: command.mark},
        start_new_session=True,
    )
    running = _RunningCommand(process, command.mark, timeouts)
    stop.on_request(running.wake)
    try:
        return running.wait_for_end(stop)
    finally:
        stop.forget(running.wake)
        running.close()


class _RunningCommand:
    """A running command and its output."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str, timeouts: Timeouts) -> None:
        self._process = process
        self._mark = mark
        self._timeouts = timeouts
        self._excerpt = Excerpt()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._woken, self._waker = os.pipe()
        self._pidfd = _pidfd(process.pid)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        if self._pidfd is not None:
            self._selector.register(self._pidfd, selectors.EVENT_READ)
        assert process.stdout is not None  # noqa: S101 - asked for above
        self._output = process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._selector.register(self._output, selectors.EVENT_READ)
        self._is_open = True

    def wake(self) -> None:
        """Wake the waiting thread."""
        os.write(self._waker, b"x")

    def close(self) -> None:
        """Close all descriptors."""
        self._selector.close()
        self._output.close()
        for descriptor in (self._woken, self._waker, self._pidfd):
            if descriptor is not None:
                os.close(descriptor)

    def wait_for_end(self, stop: Stop) -> CommandResult:
        """Wait for the end, or force it."""
        how: Literal["itself", "timeout", "wish"] = "itself"
        if not self._wait(self._timeouts.command_s, stop):
            how = "wish" if stop.is_requested else "timeout"
            self._signal(signal.SIGTERM)
            self._wait(self._timeouts.term_s)
        # INVARIANT: the leader is not reaped yet, so the number is still that of its group.
        self._signal(signal.SIGKILL)
        has_ended = self._wait(self._timeouts.kill_s)
        self._drain()
        code = self._process.wait() if has_ended else None
        kill_marked(self._mark)
        self._excerpt.write(self._decoder.decode(b"", final=True))
        return CommandResult(how, code, self._excerpt.text())

    def _wait(self, seconds: float, stop: Stop | None = None) -> bool:
        """Read output until the command has ended; return False on timeout or request."""
        until = time.monotonic() + seconds
        while not self._has_ended():
            left = until - time.monotonic()
            if left <= 0 or (stop is not None and stop.is_requested):
                return False
            self._take(left if self._pidfd is not None else min(left, _LOOK_S))
        return True

    def _has_ended(self) -> bool:
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, options) is not None

    def _drain(self) -> None:
        """Read the rest of the output; a process out of reach may hold the pipe open."""
        until = time.monotonic() + self._timeouts.drain_s
        while self._is_open and (left := until - time.monotonic()) > 0:
            if self._pidfd is not None and self._pidfd in self._selector.get_map():
                # It stays readable, so it would wake us for nothing.
                self._selector.unregister(self._pidfd)
            self._take(left)

    def _take(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._output:
                self._read()
            elif key.fileobj == self._woken:
                os.read(self._woken, 1)

    def _read(self) -> None:
        with suppress(BlockingIOError):
            piece = os.read(self._output.fileno(), _PIECE)
            self._excerpt.write(self._decoder.decode(piece))
            if not piece:
                self._selector.unregister(self._output)
                self._is_open = False

    def _signal(self, number: signal.Signals) -> None:
        # On some systems a group of which only the dead leader is left may not be signalled.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def kill_marked(mark: str) -> int:
    """Kill the processes that carry the mark of a call; return how many there were."""
    wanted, killed = f"{MARK}={mark}".encode(), 0
    for each in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in each.read_bytes().split(b"\0"):
                os.kill(int(each.parent.name), signal.SIGKILL)
                killed += 1
        except OSError:
            # Gone meanwhile, or another user's.
            continue
    return killed


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
