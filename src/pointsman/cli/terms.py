"""The base of every command: the home folder, printing answers, ending a run by an error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, NoReturn, ParamSpec

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


class Session:
    """One run of one command."""

    def __init__(self, given: str | None, *, as_json: bool, store: str = "") -> None:
        self.home = home_path(given)
        self.store = store
        self.is_home_given = given is not None
        self.is_home_named = given is not None or bool(os.environ.get("POINTSMAN_HOME"))
        self.as_json = as_json

    def open(self, *, create: bool = False) -> Pointsman:
        """Open the home; only commands that write make one where there is none."""
        # Imported here: a command that only reads does without most of it.
        from pointsman.app import Pointsman  # noqa: PLC0415 - see above

        return Pointsman(self.home, create=create, store=self.store)

    def show(self, text: str, value: object) -> None:
        """Print an answer: text for people, one JSON document for programs."""
        if self.as_json:
            click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
        else:
            click.echo(text)

    def warn(self, problems: Iterable[Problem | str]) -> None:
        """Tell about broken configuration without changing how the run ends."""
        for problem in problems:
            click.echo(f"warning: {printable(str(problem))}", err=True)

    def fail(self, error: PointsmanError) -> NoReturn:
        """Print an error once, clearly, and end the run."""
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

    return run


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
