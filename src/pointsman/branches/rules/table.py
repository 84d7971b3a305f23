"""All conditions of a decision as one code object, with an index where many ask for one value.

What several conditions read is read once. A condition that meets something missing is asked again
the careful way; the others stay fast.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple, TypeAlias, cast

from pointsman.expressions.code import ARGUMENTS, CodeBuilder, function
from pointsman.expressions.evaluate import UNKNOWN, EvaluationResult, EvaluationScope
from pointsman.expressions.expression import Expression
from pointsman.expressions.syntax import Compare, Key, ListOf, Literal, Logic, Node, Path, Test
from pointsman.expressions.values import LACKS, STEPS

Keys: TypeAlias = tuple[Key, ...]
IndexKey: TypeAlias = str | int | Decimal

LEAST_INDEXED = 8
"""Conditions that must ask for one value before an index is worth its own look-up."""


class Hits(NamedTuple):
    """Which conditions are true, how many were looked at, and those that are unknown."""

    hits: tuple[int, ...]
    seen: int
    unknown: Mapping[int, EvaluationResult]


_NONE: Mapping[int, EvaluationResult] = {}


class Table:
    """The conditions of one decision, compiled: `first` asks until one is true, else all are.

    An indexed table compiles each condition, to ask single ones; any other is one code object.
    """

    def __init__(self, conditions: Sequence[Expression], *, first: bool) -> None:
        self._conditions = tuple(conditions)
        self._is_first = first
        self._index = _Index.best(self._conditions)
        self._run: Callable[..., int] | None = None
        if self._index is None:
            self._run = _compile(self._conditions, is_first=first)
            return
        for condition in self._conditions:
            condition.compile()

    @property
    def is_indexed(self) -> bool:
        """Whether a value is looked up before conditions are asked."""
        return self._index is not None

    def hits(self, scope: EvaluationScope) -> Hits:
        """Return the conditions that are true; of a `first` table at most one."""
        if self._run is None:
            able = None if self._index is None else self._index.rows(scope)
            rows = range(len(self._conditions)) if able is None else able
            return self._first_of(rows, scope) if self._is_first else self._all_of(rows, scope)
        careful = _Careful(self._conditions, scope)
        if self._is_first:
            found = self._run(scope.context, scope.whole, scope.input, careful, None)
            return Hits((), len(self._conditions), careful.unknown) if found < 0 else Hits(
                (found,), found + 1, careful.unknown
            )  # fmt: skip
        hits: list[int] = []
        self._run(scope.context, scope.whole, scope.input, careful, hits.append)
        return Hits(tuple(hits), len(self._conditions), careful.unknown)

    def _all_of(self, rows: Sequence[int], scope: EvaluationScope) -> Hits:
        careful = _Careful(self._conditions, scope)
        hits = tuple(row for row in rows if careful.is_true(row))
        return Hits(hits, len(self._conditions), careful.unknown)

    def _first_of(self, rows: Sequence[int], scope: EvaluationScope) -> Hits:
        careful: _Careful | None = None
        for row in rows:
            condition = self._conditions[row]
            try:
                meter = [STEPS] if condition.is_metered else None
                found = condition.fast(scope.context, scope.whole, scope.input, meter) is True
            except LACKS:
                careful = careful or _Careful(self._conditions, scope)
                found = careful(row)
            if found:
                return Hits((row,), row + 1, _NONE if careful is None else careful.unknown)
        return Hits((), len(self._conditions), _NONE if careful is None else careful.unknown)


class _Careful:
    """Evaluates single conditions the careful way, and keeps the unknown answers."""

    __slots__ = ("_conditions", "_scope", "unknown")

    def __init__(self, conditions: tuple[Expression, ...], scope: EvaluationScope) -> None:
        self._conditions = conditions
        self._scope = scope
        self.unknown: dict[int, EvaluationResult] = {}

    def __call__(self, row: int) -> bool:
        answer = self._conditions[row].carefully(self._scope)
        if answer.is_known and not isinstance(answer.value, bool):
            answer = EvaluationResult(UNKNOWN, (), "it is neither true nor false")
        if not answer.is_known:
            self.unknown[row] = answer
        return answer.value is True

    def is_true(self, row: int) -> bool:
        """Ask the fast way first."""
        condition, scope = self._conditions[row], self._scope
        try:
            meter = [STEPS] if condition.is_metered else None
            return condition.fast(scope.context, scope.whole, scope.input, meter) is True
        except LACKS:
            return self(row)


def _compile(conditions: Sequence[Expression], *, is_first: bool) -> Callable[..., int]:
    code = CodeBuilder()
    loads = _hoist(conditions, code)
    rows: list[ast.stmt] = []
    for number, condition in enumerate(conditions):
        code.is_metered = False
        test = code.truth(condition.tree)
        hit = _hit(number, is_first=is_first)
        if code.is_metered:
            rows += ast.parse(f"meter = [{STEPS}]").body
        handler = ast.ExceptHandler(
            _name("LACKS"), None, [ast.If(_call("careful", number), [hit], [])]
        )
        rows.append(ast.Try([ast.If(test, [hit], [])], [handler], [], []))
    body = [*loads, *rows, ast.Return(ast.Constant(-1))]
    made = function(body, code.bound, "context, whole, input, careful, hit")
    return cast("Callable[..., int]", made)


def _hit(number: int, *, is_first: bool) -> ast.stmt:
    if is_first:
        return ast.Return(ast.Constant(number))
    return ast.Expr(_call("hit", number))


def _hoist(conditions: Sequence[Expression], code: CodeBuilder) -> list[ast.stmt]:
    """Return statements that read, once, each path several conditions share; tell the code."""
    counts = Counter(path.keys for each in conditions for path in each.reads)
    shared = {
        path.keys: path for each in conditions for path in each.reads if counts[path.keys] > 1
    }
    loads: list[ast.stmt] = []
    for number, (keys, path) in enumerate(shared.items()):
        plain, ordered = f"v{number}", f"n{number}"
        template = (
            f"try:\n    {plain} = None\nexcept LACKS:\n    {plain} = MISSING\n"
            f"{ordered} = MISSING if {plain} is True or {plain} is False else {plain}"
        )
        statements = ast.parse(template).body
        attempt = statements[0]
        assert isinstance(attempt, ast.Try)  # noqa: S101 - as written above
        attempt.body = [ast.Assign([ast.Name(plain, ast.Store())], code.path_code(path))]
        loads += statements
        code.hoisted[keys] = (plain, ordered)
    return loads


def _name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _call(name: str, number: int) -> ast.expr:
    return ast.Call(_name(name), [ast.Constant(number)], [])


class _Index:
    """The conditions by a value that they ask for, so that most need not be asked."""

    def __init__(self, path: Path, wanted: Mapping[int, tuple[IndexKey, ...]], count: int) -> None:
        self._rest = tuple(row for row in range(count) if row not in wanted)
        rows: dict[IndexKey, list[int]] = {}
        for row, values in wanted.items():
            for value in values:
                rows.setdefault(value, []).append(row)
        self._rows = {value: tuple(sorted({*found, *self._rest})) for value, found in rows.items()}
        code = CodeBuilder()
        self._read = function([ast.Return(code.path_code(path))], code.bound, ARGUMENTS)

    @classmethod
    def best(cls, conditions: Sequence[Expression]) -> _Index | None:
        """Make an index on the value that most conditions ask for, if it spares most of them."""
        asked = [_wanted_values(each.tree) for each in conditions]
        counts = Counter(keys for each in asked for keys in each)
        # DETERMINISM: of equal counts the first that stands in the conditions.
        keys = max(counts, key=lambda each: counts[each], default=None)
        if keys is None or counts[keys] < LEAST_INDEXED:
            return None
        path = next(each[keys][0] for each in asked if keys in each)
        wanted = {row: each[keys][1] for row, each in enumerate(asked) if keys in each}
        made = cls(path, wanted, len(conditions))
        return made if made.longest * 4 <= len(conditions) else None

    @property
    def longest(self) -> int:
        """The most conditions that are asked for any one value."""
        return max(map(len, (*self._rows.values(), self._rest)))

    def rows(self, scope: EvaluationScope) -> tuple[int, ...] | None:
        """Return the conditions that can be true; None where the value is not there.

        INVARIANT: keys are texts and numbers other than 0 and 1, so that Python, to which true
        equals 1, finds nothing that the language would not.
        """
        try:
            found = self._read(scope.context, scope.whole, scope.input, None)
            # A value without a hash, such as a list, raises and is left to the conditions.
            return self._rows.get(cast("IndexKey", found), self._rest)
        except LACKS:
            return None


def _wanted_values(tree: Node) -> dict[Keys, tuple[Path, tuple[IndexKey, ...]]]:
    """Return the values that a condition can only be true for, by the path they must stand at."""
    parts = tree.parts if isinstance(tree, Logic) and tree.word == "and" else (tree,)
    found: dict[Keys, tuple[Path, tuple[IndexKey, ...]]] = {}
    for part in parts:
        pair = _equality(part)
        if pair is not None:
            found.setdefault(pair[0].keys, pair)
    return found


def _equality(node: Node) -> tuple[Path, tuple[IndexKey, ...]] | None:
    if isinstance(node, Compare) and node.sign == "==":
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, Path) and isinstance(other, Literal):
                return _index_keys(one, (other,))
    if isinstance(node, Test) and node.word == "in" and isinstance(node.left, Path):
        return _index_keys(node.left, node.right.items) if isinstance(node.right, ListOf) else None
    return None


def _index_keys(path: Path, members: Sequence[Node]) -> tuple[Path, tuple[IndexKey, ...]] | None:
    keys: list[IndexKey] = []
    for each in members:
        value = each.value if isinstance(each, Literal) else None
        if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
            return None
        if value in (0, 1):
            return None
        keys.append(value)
    return path, tuple(dict.fromkeys(keys))
