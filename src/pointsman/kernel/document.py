"""A parsed JSON or YAML text that still knows where each of its values was written.

It is not typed: `pointsman.kernel.schema` makes typed values out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TypeAlias

import msgspec

from pointsman.errors import DocumentError, Place, Problem

Json: TypeAlias = "bool | int | str | Decimal | list[Json] | dict[str, Json] | None"
"""A plain tree; `Decimal` is every number written with a fraction or an exponent, exactly."""

Path: TypeAlias = tuple[str | int, ...]
"""The keys and list indexes that lead from the whole document to one value."""

Position: TypeAlias = tuple[int, int]
"""Line and column, both counted from 1; a column is one code point."""

START: Position = (1, 1)


class Limits(msgspec.Struct, frozen=True):
    """How large a text may be: in bytes, in nested containers, and in values (keys not counted)."""

    bytes: int = 256 * 1024
    depth: int = 32
    nodes: int = 20_000


DEFAULT_LIMITS = Limits()


class Document(msgspec.Struct, frozen=True):
    """A text as a tree of values, with the position of each value and of each mapping key.

    `source` is the name shown in problems. `values` and `keys` hold positions by path.
    """

    source: str
    value: Json
    values: Mapping[Path, Position]
    keys: Mapping[Path, Position]

    def place(self, path: Path = (), *, key: bool = False) -> Place:
        """Return where the value at `path` or its key stands, or else its nearest parent."""
        marks = self.keys if key else self.values
        while path and path not in marks:
            path, marks = path[:-1], self.values
        line, column = marks.get(path, START)
        return Place(self.source, line, column)

    def problem(
        self, path: Path, code: str, message: str, hint: str = "", *, key: bool = False
    ) -> Problem:
        """Return a problem with the value at `path`, or with its key."""
        return Problem(self.place(path, key=key), code, message, hint)


def refuse(problems: Iterable[Problem]) -> None:
    """Raise all problems at once in the order of the text; do nothing when there are none."""
    ordered = in_order(problems)
    if ordered:
        raise DocumentError(ordered)


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems as they stand in the text, from its top, each only once."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda problem: _order(problem.place)))


def _order(place: Place) -> tuple[int, int]:
    return (place.line, place.column)


def path_text(path: Path) -> str:
    """Return a path as people write it: `rules[1].use`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _is_plain(step):
            text += f".{step}" if text else step
        else:
            text += f"[{quoted(step)}]"
    return text


def _is_plain(key: str) -> bool:
    return key.replace("-", "_").isidentifier()


def quoted(text: str) -> str:
    """Return text in double quotes on one line, with what cannot be shown escaped."""
    return '"' + escaped(text).replace('"', '\\"') + '"'


def escaped(text: str, most: int = 60) -> str:
    """Return text cut to `most` characters, on one line, with what cannot be shown escaped."""
    return printable(text if len(text) <= most else text[: most - 1] + "…")


def printable(text: str) -> str:
    """Return text with controls and direction marks escaped, so that it cannot move a cursor."""
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)
