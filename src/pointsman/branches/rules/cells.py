"""The inputs that tell the conditions of a decision apart: a few values for every path.

Conditions that only compare paths with literals cannot tell two values between the same literals
apart, so one value of each kind stands for all of them, and the findings of a review are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from math import prod
from typing import TypeAlias

from msgspec import Struct

from pointsman.branches.compiled import CompiledDecision, plain
from pointsman.expressions.checking import Declared
from pointsman.expressions.evaluate import INPUT, EvaluationScope
from pointsman.expressions.syntax import (
    Compare,
    Key,
    ListOf,
    Literal,
    Logic,
    Node,
    Not,
    Path,
    Test,
)
from pointsman.expressions.values import EXACT, MISSING, Missing, Value, follow_path, kind_of

Keys: TypeAlias = tuple[Key, ...]

MOST_CELLS = 20_000
OTHER = "other"


class LiteralComparison(Struct, frozen=True):
    """A path, and a literal it is compared with; `is_ordered` where it is more than equality."""

    keys: Keys
    value: Value
    is_ordered: bool


class Cells:
    """Every combination of the values that matter, or some of them where there are too many."""

    def __init__(self, ready: CompiledDecision, rows: Sequence[int]) -> None:
        self._ready = ready
        asked = [each for row in rows for each in asked_by(ready, row) or ()]
        declared = _declared_values(ready)
        self._keys = list(dict.fromkeys(each.keys for each in asked))
        self._domains = [
            declared.get(keys) or _domain([each for each in asked if each.keys == keys])
            for keys in self._keys
        ]
        self._open = {
            each.keys for each in asked if isinstance(each.value, str) and each.keys not in declared
        }
        self.count = prod(map(len, self._domains))
        self.is_complete = self.count <= MOST_CELLS

    def __iter__(self) -> Iterator[Cell]:
        """Return the cells; of too many, some spread over all of them."""
        taken = min(self.count, MOST_CELLS)
        # DETERMINISM: a stride without a common divisor reaches far without chance.
        stride = 1 if self.is_complete else self.count // MOST_CELLS * 2 + 1
        for number in range(taken):
            yield self._cell(number * stride % self.count)

    def _cell(self, number: int) -> Cell:
        values: list[tuple[Keys, Value]] = []
        is_open = False
        for keys, domain in zip(self._keys, self._domains, strict=True):
            number, at = divmod(number, len(domain))
            values.append((keys, domain[at]))
            is_open = is_open or (at == 0 and keys in self._open)
        return Cell(_context(values), is_open)


class Cell(Struct, frozen=True):
    """One input; `is_open` where some text in it is named by no condition."""

    context: dict[str, Value]
    is_open: bool

    def scope(self, ready: CompiledDecision) -> EvaluationScope:
        """Return the scope that the conditions read."""
        return EvaluationScope(self.context, self._input(ready))

    def _input(self, ready: CompiledDecision) -> Value | Missing:
        if ready.declared.input_keys is None:
            return self.context.get(INPUT, MISSING)
        return follow_path(self.context, ready.declared.input_keys)


def asked_by(ready: CompiledDecision, row: int) -> tuple[LiteralComparison, ...] | None:
    """Return the comparisons of a condition; None where it does more than compare with literals."""
    found: list[LiteralComparison] = []
    tree = ready.conditions[row].tree
    return tuple(found) if _collect(tree, ready.declared, found) else None


def _collect(node: Node, declared: Declared, found: list[LiteralComparison]) -> bool:
    match node:
        case Literal():
            return isinstance(node.value, bool)
        case Path():
            return _add_question(node, [True], declared, found, is_ordered=False)
        case Not():
            return _collect(node.of, declared, found)
        case Logic():
            return all(_collect(each, declared, found) for each in node.parts)
    return _collect_comparison(node, declared, found)


def _collect_comparison(node: Node, declared: Declared, found: list[LiteralComparison]) -> bool:
    if isinstance(node, Compare):
        is_ordered = node.sign not in {"==", "!="}
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, Path) and isinstance(other, Literal):
                return _add_question(one, [other.value], declared, found, is_ordered=is_ordered)
    if isinstance(node, Test) and node.word in {"in", "not in"} and isinstance(node.left, Path):
        members = node.right.items if isinstance(node.right, ListOf) else ()
        values = [each.value for each in members if isinstance(each, Literal)]
        if values and len(values) == len(members):
            return _add_question(node.left, values, declared, found, is_ordered=False)
    return False


def _add_question(
    path: Path,
    values: list[Value],
    declared: Declared,
    found: list[LiteralComparison],
    *,
    is_ordered: bool,
) -> bool:
    keys = declared.resolve(path.keys) if declared.input_keys is not None else path.keys
    if not keys or not all(isinstance(key, str) for key in keys):
        return False
    found += [LiteralComparison(keys, each, is_ordered) for each in values]
    return True


def fits_together(asked: Sequence[LiteralComparison]) -> bool:
    """Tell whether all paths can be in one context: none leads through another's value."""
    keys = {each.keys for each in asked}
    return not any(each[:end] in keys for each in keys for end in range(1, len(each)))


def _declared_values(ready: CompiledDecision) -> Mapping[Keys, list[Value]]:
    found: dict[Keys, list[Value]] = {}
    for each in ready.decision.variables:
        if each.values:
            found[each.path] = [plain(raw) for raw in each.values]
        elif each.kind == "boolean":
            found[each.path] = [False, True]
    return found


def _domain(asked: Sequence[LiteralComparison]) -> list[Value]:
    """Return one value for each way in which literals can tell values of a path apart."""
    kinds = {kind_of(each.value) for each in asked}
    found: list[Value] = []
    if "text" in kinds:
        found += _texts([each for each in asked if isinstance(each.value, str)])
    if "number" in kinds:
        found += _numbers([each.value for each in asked if kind_of(each.value) == "number"])
    if "boolean" in kinds:
        found += [False, True]
    if "null" in kinds:
        found += [None] if len(kinds) > 1 else [None, OTHER]
    return found


def _texts(asked: Sequence[LiteralComparison]) -> list[Value]:
    literals = sorted({str(each.value) for each in asked})
    other = OTHER
    while other in literals:
        other += "_"
    between = [f"{each}\u0001" for each in literals] if any(e.is_ordered for e in asked) else []
    before = [""] if between and "" not in literals else []
    # The value that no condition names comes first: `Cells` knows it by its place.
    return [other, *before, *literals, *between]


def _numbers(values: Sequence[Value]) -> list[Value]:
    literals: list[Decimal] = sorted({Decimal(str(each)) for each in values})
    found = [EXACT.subtract(literals[0], Decimal(1))]
    for one, other in pairwise(literals):
        found += [one, EXACT.divide(EXACT.add(one, other), Decimal(2))]
    found += [literals[-1], EXACT.add(literals[-1], Decimal(1))]
    return [int(each) if each == each.to_integral_value() else each for each in found]


def _context(values: Sequence[tuple[Keys, Value]]) -> dict[str, Value]:
    context: dict[str, Value] = {}
    for keys, value in values:
        inner = context
        for key in keys[:-1]:
            step = inner.setdefault(str(key), {})
            assert isinstance(step, dict)  # noqa: S101 - see `fits_together`
            inner = step
        inner[str(keys[-1])] = value
    return context
