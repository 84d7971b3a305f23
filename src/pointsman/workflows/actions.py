"""Runs the action of a stage or of a sensor's target: a program, an HTTP call, a function.

Only actions that `pointsman.yaml` lists may run. There is no shell: words go to the program as they
are. Every action has a timeout, and a limit on the size of its output.
"""

from __future__ import annotations

import http.client
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from pointsman.branches.policy import milliseconds
from pointsman.errors import InputError, PointsmanError
from pointsman.expressions.values import Value
from pointsman.kernel.document import DocumentLimits, escape
from pointsman.kernel.json_text import read_json
from pointsman.storage.policies.action_written import Action, HttpCall
from pointsman.storage.policies.settings import WorkflowSettings
from pointsman.version import VERSION
from pointsman.workflows.templates import fill, fill_text

_USUAL = {"http": 80, "https": 443}
_PART = 16 * 1024


def host_of(url: str) -> str:
    """Return the host of an address, with its port where it is not the usual one."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise InputError("this is no address", where=url) from None
    if not host or "@" in parts.netloc:
        raise InputError("an address names a host, and no password", where=url)
    return host if port in {None, _USUAL.get(parts.scheme)} else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Tell whether a host, with or without a port, is this machine."""
    name = host if host.count(":") > 1 else host.partition(":")[0]
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def send_http_call(
    call: HttpCall, context: Mapping[str, Value], seconds: float, most: int
) -> tuple[int, bytes]:
    """Make the call; return the status and the body, which may not be larger than `most`.

    Raises TimeoutError where it takes longer than `seconds`.
    """
    body = b"" if call.json is None else _NUMBERS.encode(fill(call.json, context))
    headers = {"user-agent": f"pointsman/{VERSION}", "accept": "application/json"}
    headers |= {"content-type": "application/json"} if body else {}
    headers |= {name.lower(): text for name, text in call.headers.items()}
    parts = urlsplit(call.url)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    deadline = time.monotonic() + seconds
    connection = _connection(call.url, seconds)
    try:
        connection.request(call.method, path, body or None, headers)
        answer = connection.getresponse()
        return answer.status, _body(answer, connection, deadline, most)
    except TimeoutError:
        raise
    except (http.client.HTTPException, OSError) as error:
        raise InputError(f"the call failed: {str(error).lower() or type(error).__name__}") from None
    finally:
        connection.close()


def _connection(url: str, seconds: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, parts.port, timeout=seconds, context=context)
    return http.client.HTTPConnection(host, parts.port, timeout=seconds)


def _body(
    answer: http.client.HTTPResponse,
    connection: http.client.HTTPConnection,
    deadline: float,
    most: int,
) -> bytes:
    """Read the body until the deadline; a trickle must not keep a run waiting."""
    parts: list[bytes] = []
    size = 0
    while part := answer.read1(_PART):
        size += len(part)
        parts.append(part)
        left = deadline - time.monotonic()
        if size > most:
            raise InputError(f"the answer is larger than {most} bytes")
        if left <= 0:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(left)
    return b"".join(parts)


MOST_OUTPUT = 256 * 1024
MOST_STDERR = 2_000
WORKER = "pointsman.workflows.call_worker"

_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "SYSTEMROOT")
_LIMITS = DocumentLimits(bytes=MOST_OUTPUT, depth=40, nodes=50_000)
_NUMBERS = msgspec.json.Encoder(decimal_format="number")


class ActionResult(Struct, frozen=True):
    """How an action ended, and its output."""

    is_done: bool
    output: Value
    message: str = ""
    is_late: bool = False
    """Whether it exceeded its timeout."""


class ActionRunner(Struct, frozen=True):
    """Runs actions: the settings that allow them, their folder, and their environment variables."""

    settings: WorkflowSettings
    folder: Path
    names: Mapping[str, str] = {}

    def perform(self, action: Action, context: Mapping[str, Value]) -> ActionResult:
        """Run an allowed action; a failure on the way is a result, not an exception."""
        check_allowed(action, self.settings)
        try:
            return self._perform_allowed(action, context)
        except PointsmanError as error:
            return ActionResult(is_done=False, output=None, message=str(error))
        except TimeoutError:
            message = "the answer took too long"
            return ActionResult(is_done=False, output=None, message=message, is_late=True)
        except OSError as error:
            return ActionResult(
                is_done=False, output=None, message=(error.strerror or str(error)).lower()
            )

    def _perform_allowed(self, action: Action, context: Mapping[str, Value]) -> ActionResult:
        seconds: float = self.settings.timeout_s
        if action.timeout is not None:
            seconds = min(seconds, max(milliseconds(action.timeout), 1) / 1000)
        if action.http is not None:
            status, body = send_http_call(action.http, context, seconds, MOST_OUTPUT)
            if 200 <= status < 300:
                return ActionResult(is_done=True, output=_output(body, action))
            return ActionResult(is_done=False, output=None, message=f"the answer was {status}")
        if action.python is not None:
            words: Sequence[str] = [
                *(sys.executable, "-m", WORKER),
                *(action.python, str(os.getpid())),
            ]
            return self._run(words, context, seconds, msgspec.structs.replace(action, parse="json"))
        words = [fill_text(each, context) for each in action.shell or ()]
        return self._run(words, context, seconds, action)

    def _run(
        self, words: Sequence[str], context: Mapping[str, Value], seconds: float, action: Action
    ) -> ActionResult:
        """Run a program, the context as JSON on its standard input."""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as errors,
        ):
            given.write(_NUMBERS.encode(context))
            given.seek(0)
            code = _run_process(
                words, (given, out, errors), self._folder_and_environment(), seconds
            )
            printed, told = _start_of(out, MOST_OUTPUT + 1), _end_of(errors, MOST_STDERR)
        if code is None:
            message = f"took longer than {seconds:g} seconds"
            return ActionResult(is_done=False, output=None, message=message, is_late=True)
        if code != 0:
            return ActionResult(
                is_done=False, output=None, message=f"ended with {code}{_last_line(told)}"
            )
        return ActionResult(is_done=True, output=_output(printed, action))

    def _folder_and_environment(self) -> tuple[Path, dict[str, str]]:
        kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return self.folder, kept | dict(self.names)


def check_allowed(action: Action, settings: WorkflowSettings) -> None:
    """Raise unless the settings list an action."""
    if action.shell is not None and action.shell[0] not in settings.commands:
        raise _not_listed(f"the program `{escape(action.shell[0])}`", "commands", action.shell[0])
    if action.python is not None:
        module = action.python.partition(":")[0]
        if module not in settings.python:
            raise _not_listed(f"the module `{escape(module)}`", "python", module)
    if action.http is not None:
        host = host_of(action.http.url)
        if not is_loopback(host) and host not in settings.hosts:
            raise _not_listed(f"the host `{escape(host)}`", "hosts", host)


def _not_listed(what: str, key: str, name: str) -> InputError:
    hint = f"add it to pointsman.yaml: workflow: {{{key}: [{escape(name)}]}}"
    return InputError(f"{what} is not listed in pointsman.yaml", hint=hint)


def _run_process(
    words: Sequence[str],
    files: tuple[IO[bytes], IO[bytes], IO[bytes]],
    surroundings: tuple[Path, dict[str, str]],
    seconds: float,
) -> int | None:
    """Run a program in a group of its own; None where it, and its group, had to be killed."""
    folder, names = surroundings
    given, out, errors = files
    process = subprocess.Popen(  # noqa: S603 - the program is listed, and no shell reads the words
        list(words),
        stdin=given,
        stdout=out,
        stderr=errors,
        cwd=folder,
        env=names,
        start_new_session=True,
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.returncode is None:
            # Not reaped yet, so the number is still its own.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start_of(file: IO[bytes], most: int) -> bytes:
    file.seek(0)
    return file.read(most)


def _end_of(file: IO[bytes], most: int) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - most, 0))
    return file.read(most)


def _last_line(told: bytes) -> str:
    lines = told.decode("utf-8", "replace").strip().splitlines()
    return f": {escape(lines[-1].strip(), 200)}" if lines else ""


def _output(printed: bytes, action: Action) -> Value:
    if len(printed) > MOST_OUTPUT:
        raise InputError(f"gave more than {MOST_OUTPUT} bytes")
    if action.parse == "json":
        return read_json(printed, "the answer", _LIMITS).value
    return printed.decode("utf-8", "replace")
