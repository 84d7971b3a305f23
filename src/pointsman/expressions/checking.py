"""Checks of an expression before it meets a value: names, kinds, numbers of arguments.

A context may hold anything, so a path is of any kind unless the decision declares its variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn, TypeAlias

from msgspec import Struct

from pointsman.expressions.evaluate import INPUT, WHOLE
from pointsman.expressions.functions import ANY, FUNCTIONS, Kinds
from pointsman.expressions.syntax import (
    Arithmetic,
    Choice,
    Compare,
    ExpressionRefused,
    FunctionCall,
    Item,
    Key,
    ListOf,
    Literal,
    Logic,
    MapOf,
    Minus,
    Node,
    Not,
    Path,
    Test,
)
from pointsman.expressions.values import KINDS, NAMES, Value
from pointsman.kernel.document import escape, path_text
from pointsman.kernel.nearest import nearest
from pointsman.kernel.regex import refusal

Keys: TypeAlias = tuple[Key, ...]

_BOOLEAN: Kinds = ("boolean",)
_NUMBER: Kinds = ("number",)
_TEXT: Kinds = ("text",)
_ORDERED: Kinds = ("number", "text")


class Declared(Struct, frozen=True):
    """The variables a decision declares: paths from the context's root, and their kinds.

    Without any, every name is allowed. `input_keys` is where `input` leads to, if it is a path.
    """

    kinds: Mapping[Keys, Kinds] = {}
    input_keys: Keys | None = None
    input_kinds: Kinds = ANY

    def resolve(self, keys: Keys, *, has_input: bool = True) -> Keys | None:
        """Return a path from the context's root on; None where `input` was computed."""
        if keys[0] == INPUT and has_input:
            return None if self.input_keys is None else (*self.input_keys, *keys[1:])
        return keys[1:] if keys[0] == WHOLE else keys

    def of(self, keys: Keys) -> Kinds | None:
        """Return the kinds of a resolved path; None where it is not declared."""
        if not self.kinds or not keys:
            return ANY
        if keys in self.kinds:
            return self.kinds[keys]
        is_around = any(each[: len(keys)] == keys for each in self.kinds)
        is_inside = any(_opens(self.kinds, keys[:end]) for end in range(1, len(keys)))
        return ANY if is_around or is_inside else None


def _opens(kinds: Mapping[Keys, Kinds], keys: Keys) -> bool:
    """Tell whether a declared variable may have members of its own."""
    return any(kind in {"list", "map"} for kind in kinds.get(keys, ()))


FREE = Declared()


def kinds_of(
    tree: Node, text: str, declared: Declared = FREE, *, has_input: bool = True
) -> Kinds:  # fmt: skip
    """Return the kinds an expression can have; refuse one that cannot be right."""
    return _Check(text, declared, has_input=has_input).kinds(tree)


def check_condition(tree: Node, text: str, declared: Declared = FREE) -> None:
    """Refuse an expression that can never be true or false."""
    kinds = kinds_of(tree, text, declared)
    if "boolean" not in kinds:
        message = f"a condition is true or false, this is {_kind_names(kinds)}"
        raise ExpressionRefused(message, text=text, at=tree.at, hint="compare it with something")


class _Check:
    def __init__(self, text: str, declared: Declared, *, has_input: bool) -> None:
        self._text = text
        self._declared = declared
        self._has_input = has_input

    def kinds(self, node: Node) -> Kinds:
        """Return the kinds a node can have."""
        return _WAYS[type(node)](self, node)

    def literal(self, node: Literal) -> Kinds:
        return (KINDS[type(node.value)],)

    def path(self, node: Path) -> Kinds:
        if node.root == INPUT and self._has_input and not node.steps:
            return self._declared.input_kinds
        keys = self._declared.resolve(node.keys, has_input=self._has_input)
        found = ANY if keys is None else self._declared.of(keys)
        if found is None:
            known = [path_text(each) for each in self._declared.kinds]
            near = nearest(path_text(keys or ()), known)
            hint = f"did you mean `{near}`?" if near else f"declared: {', '.join(known[:8])}"
            self._refuse(node, f"`{escape(node.text)}` is not a declared variable", hint)
        return found

    def item(self, node: Item) -> Kinds:
        self._need(node.of, ("list", "map"), "`[ ]`")
        self._need(node.key, ("text", "number"), "`[ ]`")
        return ANY

    def list_of(self, node: ListOf) -> Kinds:
        for each in node.items:
            self.kinds(each)
        return ("list",)

    def map_of(self, node: MapOf) -> Kinds:
        for each in node.values:
            self.kinds(each)
        return ("map",)

    def not_(self, node: Not) -> Kinds:
        self._need(node.of, _BOOLEAN, "`not`")
        return _BOOLEAN

    def minus(self, node: Minus) -> Kinds:
        self._need(node.of, _NUMBER, "`-`")
        return _NUMBER

    def logic(self, node: Logic) -> Kinds:
        for part in node.parts:
            self._need(part, _BOOLEAN, f"`{node.word}`")
        return _BOOLEAN

    def compare(self, node: Compare) -> Kinds:
        left, right = self.kinds(node.left), self.kinds(node.right)
        if node.sign not in {"==", "!="}:
            self._need(node.left, _ORDERED, f"`{node.sign}`")
            self._need(node.right, _ORDERED, f"`{node.sign}`")
        if "null" not in (*left, *right) and not set(left) & set(right):
            message = (
                f"`{node.sign}` between {_kind_names(left)} and {_kind_names(right)} is never known"
            )
            if node.sign in {"==", "!="}:
                message = f"{_kind_names(left)} is never equal to {_kind_names(right)}"
            self._refuse(node, message, "nothing is converted; write both as one kind")
        return _BOOLEAN

    def test(self, node: Test) -> Kinds:
        sign = f"`{node.word}`"
        match node.word:
            case "in" | "not in":
                self.kinds(node.left)
                self._need(node.right, ("list",), sign)
            case "contains":
                self._need(node.left, ("text", "list"), sign)
                self.kinds(node.right)
            case _:
                self._need(node.left, _TEXT, sign)
                self._need(node.right, _TEXT, sign)
        if node.word == "matches":
            self._pattern(node.right)
        return _BOOLEAN

    def _pattern(self, node: Node) -> None:
        if not isinstance(node, Literal):
            self._refuse(node, "a pattern must be a literal text")
        reason = refusal(str(node.value))
        if reason:
            self._refuse(node, f"the pattern is refused: {reason}")

    def arithmetic(self, node: Arithmetic) -> Kinds:
        sign = f"`{node.sign}`"
        if node.sign != "+":
            self._need(node.left, _NUMBER, sign)
            self._need(node.right, _NUMBER, sign)
            return _NUMBER
        left = self._need(node.left, _ORDERED, sign)
        right = self._need(node.right, _ORDERED, sign)
        both = tuple(kind for kind in _ORDERED if kind in left and kind in right)
        if not both:
            message = f"{_kind_names(left)} and {_kind_names(right)} cannot be added"
            self._refuse(node, message, "use `concat` to write numbers into a text")
        return both

    def choice(self, node: Choice) -> Kinds:
        self._need(node.condition, _BOOLEAN, "`?`")
        return _either(self.kinds(node.yes), self.kinds(node.no))

    def call(self, node: FunctionCall) -> Kinds:
        function = FUNCTIONS.get(node.name)
        if function is None:
            near = nearest(node.name, FUNCTIONS)
            hint = f"did you mean `{near}`?" if near else "see docs/reference/expressions.md"
            self._refuse(node, f"unknown function `{escape(node.name)}`", hint)
        if not function.takes_count(len(node.arguments)):
            message = f"`{node.name}` cannot take {len(node.arguments)} arguments"
            self._refuse(node, message, f"write `{function.usage}`")
        for index, argument in enumerate(node.arguments):
            self._need(argument, function.kinds(index), f"`{node.name}`")
        if node.name == "matches":
            self._pattern(node.arguments[1])
        return function.gives

    def _need(self, node: Node, wanted: Kinds, what: str) -> Kinds:
        found = self.kinds(node)
        if not set(found) & set(wanted):
            self._refuse(node, f"{what} needs {_kind_names(wanted)}, this is {_kind_names(found)}")
        return found

    def _refuse(self, node: Node, message: str, hint: str = "") -> NoReturn:
        raise ExpressionRefused(message, text=self._text, at=node.at, hint=hint)


def value_kinds(value: Value) -> Kinds:
    """Return the kind of a value as kinds."""
    return (KINDS[type(value)],)


def _either(left: Kinds, right: Kinds) -> Kinds:
    return tuple(kind for kind in ANY if kind in left or kind in right)


def _kind_names(kinds: Kinds) -> str:
    return " or ".join(NAMES[kind] for kind in kinds)


_WAYS: Mapping[type, Callable[..., Kinds]] = {
    Literal: _Check.literal,
    Path: _Check.path,
    Item: _Check.item,
    ListOf: _Check.list_of,
    MapOf: _Check.map_of,
    Not: _Check.not_,
    Minus: _Check.minus,
    Logic: _Check.logic,
    Compare: _Check.compare,
    Test: _Check.test,
    Arithmetic: _Check.arithmetic,
    Choice: _Check.choice,
    FunctionCall: _Check.call,
}
