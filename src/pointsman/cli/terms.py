"""The base of every command: the home folder, printing answers, ending a run by an error."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, NoReturn, ParamSpec, TextIO

import click
import msgspec

from pointsman.cli.main import GlobalOptions
from pointsman.errors import DocumentError, HomeError, InputError, PointsmanError, Problem
from pointsman.kernel.document import printable
from pointsman.storage.home import home_path
from pointsman.storage.sqlite.database import sqlite_errors_told

if TYPE_CHECKING:
    from pointsman.app import Pointsman

P = ParamSpec("P")

MOST_INPUT = 16 * 1024 * 1024
QUIET_S = 2.0
"""How long a command runs before it names its work: a reader waits that long unasked."""
EVERY_S = 1.0
_CLEAR = "\r\x1b[K"


class WaitingLine:
    """Counts the seconds on a terminal until it is ended; on anything else it writes nothing."""

    def __init__(self, what: str, stream: TextIO, quiet_s: float = QUIET_S) -> None:
        self._what = what
        self._stream = stream
        self._quiet_s = quiet_s
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start to wait; the line appears after the delay."""
        if self._stream.isatty():
            self._thread = threading.Thread(target=self._count, daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Take the line away, before anything else is written. May be called again."""
        self._ended.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def _count(self) -> None:
        waited_s = self._quiet_s
        if self._ended.wait(self._quiet_s):
            return
        while True:
            self._stream.write(f"{_CLEAR}{self._what}, {waited_s:.0f} s")
            self._stream.flush()
            if self._ended.wait(EVERY_S):
                break
            waited_s += EVERY_S
        self._stream.write(_CLEAR)
        self._stream.flush()


class Session:
    """One run of one command."""

    def __init__(self, given: str | None, *, as_json: bool, store: str = "") -> None:
        self.home = home_path(given)
        self.store = store
        self.is_home_given = given is not None
        self.is_home_named = given is not None or bool(os.environ.get("POINTSMAN_HOME"))
        self.as_json = as_json
        self._waiting: WaitingLine | None = None

    def begin_waiting(self, what: str) -> None:
        """Name the work on a terminal, once it takes past two seconds."""
        if not self.as_json:
            self._waiting = WaitingLine(what, sys.stderr)
            self._waiting.begin()

    def end_waiting(self) -> None:
        """Take that line away; whatever prints does so first."""
        if self._waiting is not None:
            self._waiting.end()

    def open(self, *, create: bool = False) -> Pointsman:
        """Open the home; only commands that write make one where there is none."""
        # Imported here: a command that only reads does without most of it.
        from pointsman.app import Pointsman  # noqa: PLC0415 - see above

        return Pointsman(self.home, create=create, store=self.store)

    def show(self, text: str, value: object) -> None:
        """Print an answer: text for people, one JSON document for programs."""
        self.end_waiting()
        if self.as_json:
            click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
        else:
            click.echo(text)

    def warn(self, problems: Iterable[Problem | str]) -> None:
        """Tell about broken configuration without changing how the run ends."""
        self.end_waiting()
        for problem in problems:
            click.echo(f"warning: {printable(str(problem))}", err=True)

    def fail(self, error: PointsmanError) -> NoReturn:
        """Print an error once, clearly, and end the run."""
        self.end_waiting()
        if self.as_json:
            click.echo(msgspec.json.format(msgspec.json.encode(_error_value(error)), indent=2))
        else:
            for line in str(error).splitlines():
                click.echo(f"error: {printable(line)}", err=True)
            if error.hint:
                click.echo(f"  next: {printable(error.hint)}", err=True)
        sys.exit(error.exit_code)


def command(
    function: Callable[Concatenate[Session, P], None],
) -> Callable[..., None]:
    """Add `--home` and `--json` to a command, and turn errors into one clear line."""

    @click.option("--home", metavar="DIR", help="The home folder [POINTSMAN_HOME, ~/.pointsman].")
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
    @wraps(function)
    def run(home: str | None, as_json: bool, *args: P.args, **kwargs: P.kwargs) -> None:  # noqa: FBT001 - click passes flags so
        shared = click.get_current_context().find_object(GlobalOptions) or GlobalOptions(
            None, as_json=False
        )
        session = Session(
            home or shared.home, as_json=as_json or shared.as_json, store=shared.store
        )
        try:
            with sqlite_errors_told(session.home):
                function(session, *args, **kwargs)
        except PointsmanError as error:
            session.fail(error)
        except BrokenPipeError:
            raise
        except OSError as error:
            cause, where = error.strerror or str(error), error.filename or session.home
            session.fail(HomeError(f"it cannot be used: {cause}", where=str(where)))
        finally:
            session.end_waiting()

    return run


def waits(
    what: str,
) -> Callable[[Callable[Concatenate[Session, P], None]], Callable[Concatenate[Session, P], None]]:
    """Have a command that may take past two seconds say so on a terminal: `comparing, 3 s`."""

    def decorate(
        function: Callable[Concatenate[Session, P], None],
    ) -> Callable[Concatenate[Session, P], None]:
        def run(session: Session, /, *args: P.args, **kwargs: P.kwargs) -> None:
            session.begin_waiting(what)
            function(session, *args, **kwargs)

        # click takes the help of a command from its function.
        run.__doc__, run.__name__ = function.__doc__, function.__name__
        return run

    return decorate


def count_text(count: int, one: str, many: str = "") -> str:
    """Write a number of things in words: `1 chain`, `2 chains`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def read_input(name: str) -> tuple[bytes, str]:
    """Read a file, or standard input for `-`; return the bytes and the name to show."""
    try:
        stream = click.open_file(name, "rb")
        with stream:
            data = stream.read(MOST_INPUT + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=name) from error
    if len(data) > MOST_INPUT:
        raise InputError(f"is larger than {MOST_INPUT} bytes", where=name)
    return data, "standard input" if name == "-" else name


def _error_value(error: PointsmanError) -> dict[str, object]:
    problems = error.problems if isinstance(error, DocumentError) else ()
    return {
        "error_code": error.code,
        "message": error.message,
        "where": error.where,
        "hint": error.hint,
        "problems": [
            {
                "place": str(each.place),
                "code": each.code,
                "message": each.message,
                "hint": each.hint,
            }
            for each in problems
        ],
    }
