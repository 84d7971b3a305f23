"""Decisions, compiled: expressions as functions, tables built, slots laid out. Once per policy."""

from __future__ import annotations

from bisect import bisect_right
from decimal import Decimal

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from pointsman.branches.policy import BranchPolicy, Case, Decision
from pointsman.branches.rules.table import Table
from pointsman.branches.trace import CaseResult
from pointsman.errors import NotFound
from pointsman.expressions.checking import Declared
from pointsman.expressions.expression import Expression, condition, value
from pointsman.expressions.functions import ANY
from pointsman.expressions.syntax import Path
from pointsman.expressions.values import KINDS, Value
from pointsman.kernel.canonical import canonical_json, untag
from pointsman.kernel.nearest import nearest
from pointsman.kernel.wb1 import Salted, ends, whole_weights

_SINGLE_TABLES = frozenset({"binary", "switch"})


class CompiledDecisions:
    """A policy of branches with every decision compiled."""

    def __init__(self, policy: BranchPolicy) -> None:
        self.policy = policy
        self._decisions = {each.id: CompiledDecision(each) for each in policy.decisions}

    def decision(self, name: str) -> CompiledDecision:
        """Return a decision by its id."""
        found = self._decisions.get(name)
        if found is None:
            near = nearest(name, self._decisions)
            hint = f"did you mean `{near}`?" if near else ""
            raise NotFound(f"there is no decision `{name}`", hint=hint)
        return found


def compile_policy(policy: BranchPolicy) -> CompiledDecisions:
    """Compile a policy once, for every decision under it."""
    return CompiledDecisions(policy)


class CompiledDecision:
    """One decision: its expressions compiled, its table or its slots laid out."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        fixed = [_result(number, each) for number, each in enumerate(decision.cases)]
        self.yes = tuple(replace(each, result=True) for each in fixed)
        self.no = tuple(replace(each, result=False) for each in fixed)
        self.skipped = tuple(replace(each, evaluated=False) for each in fixed)
        variables = _variables(decision)
        self.input: Expression = value(decision.input, variables).compile()
        self.declared = _declare_input(variables, self.input)
        """The variables, and what the input is to the conditions."""
        self.conditions: tuple[Expression, ...] = ()
        self.wheel: Wheel | None = None
        if decision.type == "weighted":
            self.wheel = Wheel(decision)
        else:
            self.conditions = tuple(
                condition(each.condition, self.declared) for each in decision.cases
            )
        self.hit_policy = "first" if decision.type in _SINGLE_TABLES else decision.hit_policy
        self.table = Table(self.conditions, first=self.hit_policy == "first")
        found = {path.keys: path for each in self.conditions for path in each.reads}
        self.reads: tuple[Path, ...] = tuple(found.values())
        """The values that the conditions look at, each once."""
        self.has_outputs = any(each.has_output for each in decision.cases)
        self.outputs: tuple[Value, ...] = tuple(
            plain(each.output) if each.has_output else each.target for each in decision.cases
        )
        """The output of each case; its target where it names none."""
        self.ranks = _ranks(decision)


def _variables(decision: Decision) -> Declared:
    kinds = {}
    for each in decision.variables:
        found = {KINDS[type(plain(raw))] for raw in each.values}
        named = (each.kind,) if each.kind else tuple(k for k in ANY if k in found)
        kinds[each.path] = named
    return Declared(kinds)


def _declare_input(variables: Declared, given: Expression) -> Declared:
    if not isinstance(given.tree, Path):
        return Declared(variables.kinds, None, given.kinds)
    keys = variables.resolve(given.tree.keys, has_input=False) or ()
    return Declared(variables.kinds, keys, variables.of(keys) or ANY)


def _ranks(decision: Decision) -> tuple[int, ...]:
    """Return how important each case's output is: its place in the list of output values."""
    order = [bytes(each) for each in decision.output_values]
    if not order:
        return (0,) * len(decision.cases)
    return tuple(
        order.index(bytes(each.output) if each.has_output else canonical_json(each.target))
        for each in decision.cases
    )


class Wheel:
    """Which case has which slots: by weights one after the other, or by explicit ranges."""

    def __init__(self, decision: Decision) -> None:
        self.salted = Salted(decision.salt)
        if decision.slots is None:
            bounds = ends(whole_weights([Decimal(each.weight or 0) for each in decision.cases]))
            self._ends = bounds
            self._starts = [0, *bounds[:-1]]
            self._cases = list(range(len(bounds)))
            self.total = bounds[-1]
            return
        ranges = sorted(
            (start, end, number)
            for number, each in enumerate(decision.cases)
            for start, end in each.ranges or ()
        )
        self._starts = [start for start, _, _ in ranges]
        self._ends = [end for _, end, _ in ranges]
        self._cases = [number for _, _, number in ranges]
        self.total = decision.slots

    def case(self, slot: int) -> int | None:
        """Return the case that has a slot; None where no range does."""
        at = bisect_right(self._ends, slot)
        if at < len(self._ends) and self._starts[at] <= slot:
            return self._cases[at]
        return None


def plain(raw: Raw) -> Value:
    """Read a recorded value."""
    return untag(msgspec.json.decode(raw))


def _result(number: int, case: Case) -> CaseResult:
    return CaseResult(
        index=number,
        label=case.label,
        condition=case.condition,
        result=None,
        evaluated=True,
        priority=case.priority,
        weight=case.weight,
        missing=(),
        reason="",
    )
