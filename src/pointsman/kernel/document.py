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


class DocumentLimits(msgspec.Struct, frozen=True):
    """How large a text may be: in bytes, in nested containers, and in values (keys not counted)."""

    bytes: int = 256 * 1024
    depth: int = 32
    nodes: int = 20_000


DEFAULT_LIMITS = DocumentLimits()


UNTOLD = Problem(Place("", 0, 0), "", "")
"""Stands for a problem that only follows from another one; `refuse` passes over it."""


class Document(msgspec.Struct, frozen=True):
    """A text as a tree of values, with the position of each value and of each mapping key.

    `source` is the name shown in problems. `values` and `keys` hold positions by path. `problems`
    are those that reading went on after; `flaws` are the values that these or a schema refuse, and
    `strays` the keys that mean nothing.
    """

    source: str
    value: Json
    values: Mapping[Path, Position]
    keys: Mapping[Path, Position]
    problems: tuple[Problem, ...] = ()
    flaws: frozenset[Path] = frozenset()
    strays: frozenset[Path] = frozenset()

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
        """Return a problem with the value at `path`, or with its key; `UNTOLD` inside of a flaw."""
        if self._follows(path, key=key):
            return UNTOLD
        return Problem(self.place(path, key=key), code, message, hint)

    def is_sound(self, path: Path) -> bool:
        """Tell whether the value at `path` could be read and has no flaw inside of it."""
        inside = (each[: len(path)] == path for each in (*self.flaws, *self.strays))
        return self.is_read(path) and not any(inside)

    def is_read(self, path: Path) -> bool:
        """Tell whether the value at `path` could be read, whatever is wrong inside of it."""
        return not any(path[:depth] in self.flaws for depth in range(len(path) + 1))

    def _follows(self, path: Path, *, key: bool) -> bool:
        """Tell whether a problem at `path` may only follow from another one."""
        if key:
            return path in self.strays or not self.is_read(path[:-1])
        # A misspelled key is missing under its right name: that is said of the mapping itself.
        return not self.is_read(path) or any(each[:-1] == path for each in self.strays)


def refuse(problems: Iterable[Problem]) -> None:
    """Raise all problems at once in the order of the text; do nothing when there are none."""
    ordered = in_order(problems)
    if ordered:
        raise DocumentError(ordered)


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems as they stand in the text, from its top, each only once."""
    told = dict.fromkeys(each for each in problems if each is not UNTOLD)
    return tuple(sorted(told, key=lambda problem: _order(problem.place)))


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
            text += f"[{quote(step)}]"
    return text


def _is_plain(key: str) -> bool:
    return key.replace("-", "_").isidentifier()


def quote(text: str) -> str:
    """Return text in double quotes on one line, with what cannot be shown escaped."""
    return '"' + escape(text).replace('"', '\\"') + '"'


def escape(text: str, most: int = 60) -> str:
    """Return text cut to `most` characters, on one line, with what cannot be shown escaped."""
    return printable(text if len(text) <= most else text[: most - 1] + "…")


def printable(text: str) -> str:
    """Return text with controls and direction marks escaped, so that it cannot move a cursor."""
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)
