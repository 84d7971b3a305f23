"""From a checked tree to one Python code object. User text never reaches Python's parser.

It builds Python syntax nodes of a few kinds, with user text only inside constants.
There is no attribute access, and calls go to the functions bound in `_Code.bound` alone.
Compiled code only ever gives an answer that the careful way would give too, or raises one of
`LACKS`: then the careful way is asked.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from types import CodeType, FunctionType
from typing import TypeAlias, cast

from pointsman.expressions import values
from pointsman.expressions.evaluate import INPUT, WHOLE
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
from pointsman.expressions.values import MISSING, NAMES, NotKnown, Value, kind_of

Python: TypeAlias = ast.expr
Bound: TypeAlias = dict[str, object]

ARGUMENTS = "context, whole, input, meter"

_HELPERS: Mapping[str, object] = {
    "same": values.same,
    "less": values.less,
    "less_or_same": values.less_or_same,
    "more": values.more,
    "more_or_same": values.more_or_same,
    "add": values.add,
    "subtract": values.subtract,
    "multiply": values.multiply,
    "divide": values.divide,
    "remainder": values.remainder,
    "negate": values.negate,
    "item": values.item,
    "is_member": values.is_member,
    "contains": values.contains,
    "starts_with": values.starts_with,
    "ends_with": values.ends_with,
    "present": values.present,
    "MISSING": MISSING,
    "LACKS": values.LACKS,
}
_ARITHMETIC = {"-": "subtract", "*": "multiply", "/": "divide", "%": "remainder"}
_ORDERS: dict[str, type[ast.cmpop]] = {"<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE}
_ORDER_HELPERS = {"<": "less", "<=": "less_or_same", ">": "more", ">=": "more_or_same"}
_BOOLEAN_CALLS = frozenset({"starts_with", "ends_with", "contains", "matches"})
_SMALL = 8
_TRUE = ast.Constant(value=True)
_FALSE = ast.Constant(value=False)


def _not_boolean(value: object) -> bool:
    raise NotKnown(f"{NAMES[kind_of(value)]} is not true or false")


def _soft(start: object, steps: tuple[str | int, ...]) -> Value:
    found = values.follow_path(start, steps)
    return None if found is MISSING else cast("Value", found)


class CodeBuilder:
    """Builds Python expressions out of trees, and keeps the values they are bound to.

    `hoisted` names the variables that hold a path's value, or `MISSING`; the second of the two
    names holds `MISSING` for truth values too, for comparisons with numbers.
    """

    def __init__(self, *, has_input: bool = True) -> None:
        self.bound: Bound = {
            **_HELPERS, "__builtins__": {}, "not_boolean": _not_boolean, "soft": _soft
        }  # fmt: skip
        self.hoisted: dict[tuple[str | int, ...], tuple[str, str]] = {}
        self.is_metered = False
        self._has_input = has_input
        self._temporaries = 0

    def truth(self, node: Node) -> Python:
        """Return code for a truth value, which raises for anything else."""
        if _is_boolean(node):
            return self.value(node)
        name = self.temporary()
        first = _compare(_assign(name, self.value(node)), ast.Is(), _TRUE)
        second = _compare(_load(name), ast.Is(), _FALSE)
        refused = _call("not_boolean", _load(name))
        both = ast.BoolOp(ast.Or(), [first, second])
        return ast.IfExp(both, _load(name), refused)

    def value(self, node: Node) -> Python:
        """Return code for a value."""
        return _WAYS[type(node)](self, node)

    def temporary(self) -> str:
        """Return a name that is not used yet."""
        self._temporaries += 1
        return f"t{self._temporaries}"

    def constant(self, value: object) -> Python:
        """Return code for a value that is known now."""
        if value is None or isinstance(value, bool | int | str):
            return ast.Constant(value)
        name = f"k{len(self.bound)}"
        self.bound[name] = value
        return _load(name)

    def literal(self, node: Literal) -> Python:
        """Return code for a literal."""
        return self.constant(node.value)

    def path(self, node: Path) -> Python:
        """Return code for a path."""
        if node.keys in self.hoisted:
            return _load(self.hoisted[node.keys][0])
        return self.path_code(node)

    def path_code(self, node: Path) -> Python:
        """Return code that follows a path, whatever is hoisted."""
        found = self._start(node.root)
        for step in node.steps:
            if isinstance(step, str):
                found = ast.Subscript(found, ast.Constant(step), ast.Load())
            else:
                found = _call("item", found, ast.Constant(step))
        return found

    def _start(self, root: str) -> Python:
        if root == WHOLE or (root == INPUT and self._has_input):
            return _load("whole" if root == WHOLE else "input")
        return ast.Subscript(_load("context"), ast.Constant(root), ast.Load())

    def item(self, node: Item) -> Python:
        """Return code for a member."""
        return _call("item", self.value(node.of), self.value(node.key))

    def list_of(self, node: ListOf) -> Python:
        """Return code for a list."""
        return ast.List([self._present_value(each) for each in node.items], ast.Load())

    def map_of(self, node: MapOf) -> Python:
        """Return code for a mapping."""
        keys: list[Python | None] = [ast.Constant(key) for key in node.keys]
        return ast.Dict(keys, [self._present_value(each) for each in node.values])

    def _present_value(self, node: Node) -> Python:
        """Return code for a value that is stored unread: a missing one must raise."""
        found = self.value(node)
        if isinstance(node, Path) and (node.keys in self.hoisted or not node.steps):
            return _call("present", found)
        return found

    def not_(self, node: Not) -> Python:
        """Return code for an opposite."""
        return ast.UnaryOp(ast.Not(), self.truth(node.of))

    def minus(self, node: Minus) -> Python:
        """Return code for a number with the other sign."""
        return _call("negate", self.value(node.of))

    def logic(self, node: Logic) -> Python:
        """Return code for truth values joined."""
        word = ast.And() if node.word == "and" else ast.Or()
        return ast.BoolOp(word, [self.truth(each) for each in node.parts])

    def compare(self, node: Compare) -> Python:
        """Return code for a comparison."""
        if node.sign in _ORDERS:
            return self._order(node)
        is_equal = node.sign == "=="
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(other, Literal):
                return self._equal(one, other.value, is_equal=is_equal)
        found = _call("same", self.value(node.left), self.value(node.right))
        return found if is_equal else ast.UnaryOp(ast.Not(), found)

    def _equal(self, node: Node, value: Value, *, is_equal: bool) -> Python:
        found = self.value(node)
        if value is None:
            return self._is_null(node, found, is_null=is_equal)
        if isinstance(value, bool) or value in (0, 1):
            # Python takes true for 1; a helper does not.
            same = _call("same", found, self.constant(value))
            return same if is_equal else ast.UnaryOp(ast.Not(), same)
        return _compare(found, ast.Eq() if is_equal else ast.NotEq(), self.constant(value))

    def _is_null(self, node: Node, found: Python, *, is_null: bool) -> Python:
        if isinstance(node, Literal):
            return ast.Constant((node.value is None) is is_null)
        if isinstance(node, Path):
            found = self._path_or_null(node)
        return _compare(found, ast.Is() if is_null else ast.IsNot(), ast.Constant(None))

    def _path_or_null(self, node: Path) -> Python:
        """Return code for a path that is null where it is missing."""
        if node.keys in self.hoisted:
            name = self.hoisted[node.keys][0]
            is_missing = _compare(_load(name), ast.Is(), _load("MISSING"))
            return ast.IfExp(is_missing, ast.Constant(None), _load(name))
        start: Python = _load("context")
        steps = node.keys
        if node.root == WHOLE or (node.root == INPUT and self._has_input):
            start, steps = self._start(node.root), node.steps
        return _call("soft", start, self.constant(steps))

    def _order(self, node: Compare) -> Python:
        left, right = node.left, node.right
        if isinstance(right, Literal) and _is_ordered(right.value):
            return _compare(self._beside(left, right), _ORDERS[node.sign](), self.value(right))
        if isinstance(left, Literal) and _is_ordered(left.value):
            return _compare(self.value(left), _ORDERS[node.sign](), self._beside(right, left))
        helper = _ORDER_HELPERS[node.sign]
        return _call(helper, self.value(left), self.value(right))

    def _beside(self, node: Node, literal: Literal) -> Python:
        """Return code for an operand ordered with a literal: a truth value is no number."""
        if isinstance(literal.value, str) or not _may_be_boolean(node):
            return self.value(node)
        if isinstance(node, Path) and node.keys in self.hoisted:
            return _load(self.hoisted[node.keys][1])
        name = self.temporary()
        first = _compare(_assign(name, self.value(node)), ast.IsNot(), _TRUE)
        second = _compare(_load(name), ast.IsNot(), _FALSE)
        both = ast.BoolOp(ast.And(), [first, second])
        return ast.IfExp(both, _load(name), _load("MISSING"))

    def test(self, node: Test) -> Python:
        """Return code for a membership or match."""
        if node.word == "matches":
            return self._matches(node.left, node.right)
        if node.word in {"starts_with", "ends_with"}:
            return _call(node.word, self.value(node.left), self.value(node.right))
        if node.word == "contains":
            self.is_metered = True
            return _call(
                "contains", self.value(node.left), self.value(node.right), _load("meter")
            )  # fmt: skip
        found = self._member(node.left, node.right)
        return found if node.word == "in" else ast.UnaryOp(ast.Not(), found)

    def _member(self, value: Node, members: Node) -> Python:
        listed = _plain_members(members)
        if listed is not None and all(isinstance(each, str) for each in listed):
            known = frozenset(listed) if len(listed) > _SMALL else tuple(listed)
            return _compare(self._present_value(value), ast.In(), self.constant(known))
        self.is_metered = True
        return _call("is_member", self.value(value), self.value(members), _load("meter"))

    def _matches(self, text: Node, pattern: Node) -> Python:
        self.is_metered = True
        assert isinstance(pattern, Literal)  # noqa: S101 - checked when the text was read
        is_in = CompiledPattern(str(pattern.value)).is_in
        return ast.Call(self.constant(is_in), [self.value(text), _load("meter")], [])

    def arithmetic(self, node: Arithmetic) -> Python:
        """Return code for a sum, product and their like."""
        left, right = self.value(node.left), self.value(node.right)
        if node.sign == "+":
            self.is_metered = True
            return _call("add", left, right, _load("meter"))
        return _call(_ARITHMETIC[node.sign], left, right)

    def choice(self, node: Choice) -> Python:
        """Return code for one of two values."""
        return self._chosen(node.condition, node.yes, node.no)

    def _chosen(self, condition: Node, yes: Node, no: Node) -> Python:
        return ast.IfExp(self.truth(condition), self._present_value(yes), self._present_value(no))

    def call(self, node: FunctionCall) -> Python:
        """Return code for a function of the table."""
        match node.name:
            case "if":
                return self._chosen(*node.arguments)
            case "switch":
                return self._switch(node.arguments)
            case "coalesce" | "default":
                return self._first_known(node.arguments)
            case "matches":
                return self._matches(*node.arguments)
        self.is_metered = True
        name = f"call_{node.name}"
        self.bound[name] = make_call(FUNCTIONS[node.name])
        return _call(name, _load("meter"), *(self.value(each) for each in node.arguments))

    def _switch(self, arguments: Sequence[Node]) -> Python:
        name = self.temporary()
        cases = arguments[1:]
        otherwise = self._present_value(cases[-1]) if len(cases) % 2 else ast.Constant(None)
        pairs = list(zip(cases[::2], cases[1::2], strict=False))
        found = otherwise
        for index, (key, result) in reversed(list(enumerate(pairs))):
            value = _load(name) if index else _assign(name, self.value(arguments[0]))
            same = _call("same", value, self.value(key))
            found = ast.IfExp(same, self._present_value(result), found)
        return found

    def _first_known(self, arguments: Sequence[Node]) -> Python:
        found: Python = ast.Constant(None)
        for each in reversed(arguments):
            value = self._path_or_null(each) if isinstance(each, Path) else self.value(each)
            name = self.temporary()
            known = _compare(_assign(name, value), ast.IsNot(), ast.Constant(None))
            found = ast.IfExp(known, _load(name), found)
        return found


def function(body: Sequence[ast.stmt], bound: Bound, arguments: str) -> Callable[..., Value]:
    """Make one function out of statements, bound to these names and to nothing else."""
    module = ast.parse(f"def made({arguments}): pass")
    cast("ast.FunctionDef", module.body[0]).body = list(body)
    code = compile(ast.fix_missing_locations(module), "<expression>", "exec")
    inner = next(each for each in code.co_consts if isinstance(each, CodeType))
    return FunctionType(inner, bound)


def _load(name: str) -> Python:
    return ast.Name(name, ast.Load())


def _assign(name: str, value: Python) -> Python:
    return ast.NamedExpr(ast.Name(name, ast.Store()), value)


def _call(name: str, *arguments: Python) -> Python:
    return ast.Call(_load(name), list(arguments), [])


def _compare(left: Python, sign: ast.cmpop, right: Python) -> Python:
    return ast.Compare(left, [sign], [right])


def _is_ordered(value: Value) -> bool:
    return isinstance(value, int | Decimal | str) and not isinstance(value, bool)


def _is_boolean(node: Node) -> bool:
    if isinstance(node, FunctionCall):
        return node.name in _BOOLEAN_CALLS
    is_truth = isinstance(node, Literal) and isinstance(node.value, bool)
    return is_truth or isinstance(node, Not | Logic | Compare | Test)


def _may_be_boolean(node: Node) -> bool:
    return not isinstance(node, Arithmetic | Minus | Literal)


def _plain_members(node: Node) -> list[Value] | None:
    """Return the members of a list whose members are all literals."""
    if not isinstance(node, ListOf):
        return None
    found = [each.value for each in node.items if isinstance(each, Literal)]
    return found if len(found) == len(node.items) else None


_WAYS: Mapping[type, Callable[..., Python]] = {
    Literal: CodeBuilder.literal,
    Path: CodeBuilder.path,
    Item: CodeBuilder.item,
    ListOf: CodeBuilder.list_of,
    MapOf: CodeBuilder.map_of,
    Not: CodeBuilder.not_,
    Minus: CodeBuilder.minus,
    Logic: CodeBuilder.logic,
    Compare: CodeBuilder.compare,
    Test: CodeBuilder.test,
    Arithmetic: CodeBuilder.arithmetic,
    Choice: CodeBuilder.choice,
    FunctionCall: CodeBuilder.call,
}
