"""The action of a stage or a sensor's target, as written: a program, an HTTP call, a function.

Nothing here runs; `pointsman.yaml` lists the actions that may run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from pointsman.branches.file.decisions_file import AnyValue, Duration
from pointsman.errors import Problem
from pointsman.expressions.expression import value
from pointsman.expressions.syntax import ExpressionRefused
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path

Text = Annotated[str, Meta(min_length=1, max_length=4096)]
PlainName = Annotated[str, Meta(min_length=1, max_length=100, pattern="^[A-Za-z0-9._-]+$")]
"""Letters, digits, `.`, `-` and `_`: a name that an entry of the ledger may have, too."""

Function = Annotated[
    str, Meta(max_length=200, pattern="^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$")
]
Parse = Literal["text", "json"]

_OPENINGS = (("{{", "}}"), ("${", "}"))


class HttpCall(Struct, frozen=True, forbid_unknown_fields=True):
    """One request. The address is fixed text: no value of a context can move it."""

    url: Annotated[str, Meta(max_length=2048, pattern="^https?://")]
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    json: AnyValue = None
    headers: dict[str, str] = {}


class Action(Struct, frozen=True, forbid_unknown_fields=True):
    """One of three things to do; `parse` says what its answer is."""

    shell: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=100)] | None = None
    http: HttpCall | None = None
    python: Function | None = None
    parse: Parse = "text"
    timeout: Duration | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Which of the three are given."""
        return tuple(name for name in ("shell", "http", "python") if getattr(self, name))


def action_problems(action: Action, document: Document, at: Path) -> Iterator[Problem]:
    """Return what a schema cannot say about an action."""
    if len(action.kinds) != 1:
        message = "an action has exactly one of `shell`, `http` and `python`"
        yield document.problem(at, Code.INVALID_VALUE, message)
    for index, word in enumerate(action.shell or ()):
        yield from template_problems(word, document, (*at, "shell", index))
    if action.http is not None:
        yield from value_problems(action.http.json, document, (*at, "http", "json"))


def value_problems(given: object, document: Document, at: Path) -> Iterator[Problem]:
    """Return the problems with the templates inside a value."""
    if isinstance(given, str):
        yield from template_problems(given, document, at)
    elif isinstance(given, list | tuple):
        for index, each in enumerate(given):
            yield from value_problems(each, document, (*at, index))
    elif isinstance(given, dict):
        for key, each in given.items():
            yield from value_problems(each, document, (*at, key))


def template_problems(text: str, document: Document, at: Path) -> Iterator[Problem]:
    """Return the problems with a text that may be a template."""
    if not is_template(text):
        return
    try:
        value(text)
    except ExpressionRefused as refusal:
        message = f"column {refusal.column}: {refusal.message}"
        yield document.problem(at, Code.INVALID_VALUE, message, refusal.hint)


def is_template(text: str) -> bool:
    """Tell whether a text is an expression between `{{ }}` or `${ }`, and not itself."""
    bare = text.strip()
    return any(bare.startswith(opening) and bare.endswith(end) for opening, end in _OPENINGS)
