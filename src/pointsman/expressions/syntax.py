"""The tree of an expression, and the refusal of a text that is none.

The tree holds what the text says and where; it knows nothing of values or of Python code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal as OneOf
from typing import TypeAlias

from msgspec import Struct

from pointsman.errors import InputError
from pointsman.kernel.document import Json, path_text, printable

MAX_CHARACTERS = 4_096
MAX_DEPTH = 64
MAX_NODES = 1_000

Key: TypeAlias = str | int
LogicWord = OneOf["and", "or"]
CompareSign = OneOf["==", "!=", "<", "<=", ">", ">="]
TestWord = OneOf["in", "not in", "contains", "starts_with", "ends_with", "matches"]
ArithmeticSign = OneOf["+", "-", "*", "/", "%"]


class ExpressionRefused(InputError):
    """this is not an expression"""

    code = "input.expression"

    def __init__(
        self,
        message: str = "",
        *,
        text: str = "",
        at: int = 0,
        where: str = "",
        hint: str = "",
    ) -> None:
        self.text = text
        self.at = at
        super().__init__(message, where=where or f"column {at + 1}", hint=hint)

    def __reduce__(self) -> tuple[object, ...]:
        return (_refusal, (self.message, self.text, self.at, self.where, self.hint))

    @property
    def column(self) -> int:
        """The column of the error, counted from 1."""
        return self.at + 1

    def caret(self) -> str:
        """Show the line of the text that is wrong, and a caret below the place."""
        start = self.text.rfind("\n", 0, self.at) + 1
        line = self.text[start:].partition("\n")[0]
        return f"{printable(line)}\n{' ' * len(printable(line[: self.at - start]))}^"


def _refusal(message: str, text: str, at: int, where: str, hint: str) -> ExpressionRefused:
    return ExpressionRefused(message, text=text, at=at, where=where, hint=hint)


class Literal(Struct, frozen=True):
    """A null, truth value, number or text as it is written."""

    at: int
    value: Json


class Path(Struct, frozen=True):
    """A value of the context, by its name and the fixed keys that lead on from there."""

    at: int
    root: str
    steps: tuple[Key, ...] = ()

    @property
    def keys(self) -> tuple[Key, ...]:
        """The name and the keys."""
        return (self.root, *self.steps)

    @property
    def text(self) -> str:
        """The path as people write it."""
        return path_text(self.keys)


class Item(Struct, frozen=True):
    """A member of a computed value, or by a computed key."""

    at: int
    of: Node
    key: Node


class ListOf(Struct, frozen=True):
    """A list as it is written."""

    at: int
    items: tuple[Node, ...]


class MapOf(Struct, frozen=True):
    """A mapping as it is written."""

    at: int
    keys: tuple[str, ...]
    values: tuple[Node, ...]


class Not(Struct, frozen=True):
    """The opposite of a truth value."""

    at: int
    of: Node


class Minus(Struct, frozen=True):
    """A number with the other sign."""

    at: int
    of: Node


class Logic(Struct, frozen=True):
    """Truth values joined by one word, however many."""

    at: int
    word: LogicWord
    parts: tuple[Node, ...]


class Compare(Struct, frozen=True):
    """An equality or an order."""

    at: int
    sign: CompareSign
    left: Node
    right: Node


class Test(Struct, frozen=True):
    """A membership or a match of texts."""

    at: int
    word: TestWord
    left: Node
    right: Node


class Arithmetic(Struct, frozen=True):
    """Two numbers made one, or two texts joined."""

    at: int
    sign: ArithmeticSign
    left: Node
    right: Node


class Choice(Struct, frozen=True):
    """One of two values: `condition ? yes : no`."""

    at: int
    condition: Node
    yes: Node
    no: Node


class FunctionCall(Struct, frozen=True):
    """A function of the table, called."""

    at: int
    name: str
    arguments: tuple[Node, ...]


Node: TypeAlias = (
    Literal | Path | Item | ListOf | MapOf | Not | Minus | Logic | Compare | Test | Arithmetic
    | Choice | FunctionCall
)  # fmt: skip


def inner(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly inside a node, as they stand in the text."""
    match node:
        case Not() | Minus():
            return (node.of,)
        case Item():
            return (node.of, node.key)
        case Compare() | Test() | Arithmetic():
            return (node.left, node.right)
        case Choice():
            return (node.condition, node.yes, node.no)
    return _children(node)


def _children(node: Node) -> tuple[Node, ...]:
    match node:
        case Logic():
            return node.parts
        case FunctionCall():
            return node.arguments
        case ListOf():
            return node.items
        case MapOf():
            return node.values
    return ()


def every(node: Node) -> Iterator[Node]:
    """Return a node and all inside it, from left to right."""
    yield node
    for each in inner(node):
        yield from every(each)


def paths(node: Node) -> tuple[Path, ...]:
    """Return the values of the context that an expression reads, each once, as they first stand."""
    found = {each.keys: each for each in reversed(list(every(node))) if isinstance(each, Path)}
    return tuple(reversed(found.values()))
