"""The careful way to evaluate an expression: node by node, in three-valued logic.

This is what an expression means. Compiled code gives the same answers faster, and turns to this
wherever something is missing or of another kind than expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from pointsman.expressions import values
from pointsman.expressions.functions import FUNCTIONS, make_call
from pointsman.expressions.patterns import CompiledPattern
from pointsman.expressions.syntax import (
    Arithmetic,
    Choice,
    Compare,
    FunctionCall,
    Item,
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
from pointsman.expressions.values import (
    MISSING,
    STEPS,
    Meter,
    Missing,
    NotKnown,
    StepsExhausted,
    Value,
    follow_path,
)

INPUT = "input"
WHOLE = "context"


class EvaluationScope:
    """What an expression may look at: the context, and the decision's input."""

    __slots__ = ("context", "input", "whole")

    def __init__(self, context: Mapping[str, Value], given: Value | Missing = MISSING) -> None:
        self.context = context
        # `context` names all of it, unless it has a member of that name.
        self.whole: object = context.get(WHOLE, context)
        self.input = given


class Unknown:
    """The third truth value, and the value of whatever cannot be had."""

    __slots__ = ()


UNKNOWN: Final = Unknown()
Found: TypeAlias = "Value | Unknown"


class EvaluationResult(Struct, frozen=True):
    """The result of an expression; where it is unknown, the missing paths and the reason."""

    value: Found
    missing: tuple[str, ...] = ()
    reason: str = ""

    @property
    def is_known(self) -> bool:
        """Whether there is a value."""
        return self.value is not UNKNOWN


class RootNames(Struct, frozen=True):
    """How an expression's names are read: in a condition `input` is the decision's input."""

    has_input: bool = True

    def start(self, root: str, scope: EvaluationScope) -> object:
        """Return the value that a name stands for."""
        if root == INPUT and self.has_input:
            return scope.input
        return scope.whole if root == WHOLE else scope.context.get(root, MISSING)


def evaluate(tree: Node, scope: EvaluationScope, names: RootNames) -> EvaluationResult:
    """Evaluate an expression; whatever goes wrong is an unknown value, never an error."""
    walk = _Walk(scope, names)
    try:
        value = walk.value(tree)
    except StepsExhausted:
        return EvaluationResult(UNKNOWN, (), f"it takes more than {STEPS} steps")
    if isinstance(value, Unknown):
        return EvaluationResult(value, tuple(dict.fromkeys(walk.missing)), walk.reason)
    return EvaluationResult(value)


class _Walk:
    """One evaluation: the steps left, and the paths found missing on the way."""

    def __init__(self, scope: EvaluationScope, names: RootNames) -> None:
        self._scope = scope
        self._names = names
        self._meter: Meter = [STEPS]
        self.missing: list[str] = []
        self.reason = ""

    def value(self, node: Node) -> Found:
        """Return the value of a node."""
        try:
            return _WAYS[type(node)](self, node)
        except NotKnown as refusal:
            return self._unknown(refusal.reason)
        except ArithmeticError:
            return self._unknown("a division by zero, or a number too large or too small")

    def _unknown(self, reason: str) -> Unknown:
        self.reason = self.reason or reason
        return UNKNOWN

    def literal(self, node: Literal) -> Found:
        return node.value

    def path(self, node: Path) -> Found:
        found = follow_path(self._names.start(node.root, self._scope), node.steps)
        if isinstance(found, Missing):
            self.missing.append(node.text)
            return UNKNOWN
        return found

    def item(self, node: Item) -> Found:
        of, key = self._all((node.of, node.key))
        return values.item(of, key)

    def list_of(self, node: ListOf) -> Found:
        return self._all(node.items)

    def map_of(self, node: MapOf) -> Found:
        return dict(zip(node.keys, self._all(node.values), strict=True))

    def not_(self, node: Not) -> Found:
        return not values.boolean(*self._all((node.of,)))

    def minus(self, node: Minus) -> Found:
        return values.negate(*self._all((node.of,)))

    def logic(self, node: Logic) -> Found:
        """Stop at the first part that decides; an unknown one leaves the others to decide."""
        deciding = node.word == "or"
        is_known = True
        for part in node.parts:
            found = self._truth(part)
            if found is deciding:
                return deciding
            is_known = is_known and found is not None
        return not deciding if is_known else UNKNOWN

    def _truth(self, node: Node) -> bool | None:
        found = self.value(node)
        if isinstance(found, Unknown):
            return None
        if not isinstance(found, bool):
            self._unknown(f"{values.NAMES[values.kind_of(found)]} is not true or false")
            return None
        return found

    def compare(self, node: Compare) -> Found:
        if node.sign in {"==", "!="}:
            return self._equal(node) if node.sign == "==" else self._unequal(node)
        left, right = self._all((node.left, node.right))
        return ORDERS[node.sign](left, right)

    def _unequal(self, node: Compare) -> Found:
        found = self._equal(node)
        return found if isinstance(found, Unknown) else not found

    def _equal(self, node: Compare) -> Found:
        """Compare two values; only against `null` is a missing one a value, too."""
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, Literal) and one.value is None:
                return self._is_null(other)
        return values.same(*self._all((node.left, node.right)))

    def _is_null(self, node: Node) -> Found:
        before = len(self.missing), self.reason
        found = self.value(node)
        if isinstance(found, Unknown) and isinstance(node, Path):
            del self.missing[before[0] :]
            self.reason = before[1]
            return True
        return found if isinstance(found, Unknown) else found is None

    def test(self, node: Test) -> Found:
        if node.word == "matches":
            return self._matches(node.left, node.right)
        left, right = self._all((node.left, node.right))
        match node.word:
            case "in":
                return values.is_member(left, right, self._meter)
            case "not in":
                return not values.is_member(left, right, self._meter)
            case "contains":
                return values.contains(left, right, self._meter)
            case "starts_with":
                return values.starts_with(left, right)
        return values.ends_with(left, right)

    def _matches(self, text: Node, pattern: Node) -> Found:
        (found,) = self._all((text,))
        # INVARIANT: checked when the expression was read.
        assert isinstance(pattern, Literal)  # noqa: S101 - said to the type checker
        return CompiledPattern(str(pattern.value)).is_in(found, self._meter)

    def arithmetic(self, node: Arithmetic) -> Found:
        left, right = self._all((node.left, node.right))
        match node.sign:
            case "+":
                return values.add(left, right, self._meter)
            case "-":
                return values.subtract(left, right)
            case "*":
                return values.multiply(left, right)
            case "/":
                return values.divide(left, right)
        return values.remainder(left, right)

    def choice(self, node: Choice) -> Found:
        return self._chosen(node.condition, node.yes, node.no)

    def _chosen(self, condition: Node, yes: Node, no: Node) -> Found:
        found = self._truth(condition)
        return UNKNOWN if found is None else self.value(yes if found else no)

    def call(self, node: FunctionCall) -> Found:
        match node.name:
            case "if":
                return self._chosen(*node.arguments)
            case "switch":
                return self._switch(node.arguments)
            case "coalesce" | "default":
                return self._first_known(node.arguments)
            case "matches":
                return self._matches(*node.arguments)
        return make_call(FUNCTIONS[node.name])(self._meter, *self._all(node.arguments))

    def _switch(self, arguments: tuple[Node, ...]) -> Found:
        (value,) = self._all(arguments[:1])
        cases = arguments[1:]
        for key, result in zip(cases[::2], cases[1::2], strict=False):
            if values.same(value, *self._all((key,))):
                return self.value(result)
        return self.value(cases[-1]) if len(cases) % 2 else None

    def _first_known(self, arguments: tuple[Node, ...]) -> Found:
        before = len(self.missing), self.reason
        for each in arguments:
            found = self.value(each)
            if not isinstance(found, Unknown) and found is not None:
                return found
        del self.missing[before[0] :]
        self.reason = before[1]
        return None

    def _all(self, nodes: tuple[Node, ...]) -> list[Value]:
        """Return the values of all nodes, or collect every missing path among them."""
        found = [self.value(each) for each in nodes]
        known = [each for each in found if not isinstance(each, Unknown)]
        if len(known) < len(found):
            raise NotKnown
        return known


ORDERS: Mapping[str, Callable[[object, object], bool]] = {
    "<": values.less,
    "<=": values.less_or_same,
    ">": values.more,
    ">=": values.more_or_same,
}

_WAYS: Mapping[type, Callable[..., Found]] = {
    Literal: _Walk.literal,
    Path: _Walk.path,
    Item: _Walk.item,
    ListOf: _Walk.list_of,
    MapOf: _Walk.map_of,
    Not: _Walk.not_,
    Minus: _Walk.minus,
    Logic: _Walk.logic,
    Compare: _Walk.compare,
    Test: _Walk.test,
    Arithmetic: _Walk.arithmetic,
    Choice: _Walk.choice,
    FunctionCall: _Walk.call,
}
