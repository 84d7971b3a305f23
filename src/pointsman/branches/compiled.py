"""Decisions made ready: expressions compiled, tables built, slots laid out. Once per policy."""

from __future__ import annotations

from bisect import bisect_right
from decimal import Decimal
from functools import cached_property

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
from pointsman.kernel.canonical import canonical_json, untagged
from pointsman.kernel.nearest import nearest
from pointsman.kernel.wb1 import Salted, ends, scaled


class ReadyDecisions:
    """A policy that can decide. Decisions are compiled when they are first asked for."""

    def __init__(self, policy: BranchPolicy) -> None:
        self.policy = policy
        self._ready = {each.id: ReadyDecision(each) for each in policy.decisions}

    def decision(self, name: str) -> ReadyDecision:
        """Give a decision by its id."""
        found = self._ready.get(name)
        if found is None:
            near = nearest(name, self._ready)
            hint = f"did you mean `{near}`?" if near else ""
            raise NotFound(f"there is no decision `{name}`", hint=hint)
        return found


class ReadyDecision:
    """One decision that can decide."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        fixed = [_result(number, each) for number, each in enumerate(decision.cases)]
        self.yes = tuple(replace(each, result=True) for each in fixed)
        self.no = tuple(replace(each, result=False) for each in fixed)
        self.skipped = tuple(replace(each, evaluated=False) for each in fixed)

    @cached_property
    def input(self) -> Expression:
        """The expression of the input."""
        return value(self.decision.input, self._variables)

    @cached_property
    def conditions(self) -> tuple[Expression, ...]:
        """The conditions of the cases."""
        return tuple(condition(each.condition, self.declared) for each in self.decision.cases)

    @cached_property
    def table(self) -> Table:
        """The conditions as one."""
        return Table(self.conditions)

    @cached_property
    def reads(self) -> tuple[Path, ...]:
        """The values that the conditions look at, each once."""
        conditions = () if self.decision.type == "weighted" else self.conditions
        found = {path.keys: path for each in conditions for path in each.reads}
        return tuple(found.values())

    @cached_property
    def declared(self) -> Declared:
        """The variables, and what the input is to the conditions."""
        before, tree = self._variables, self.input.tree
        if not isinstance(tree, Path):
            return Declared(before.kinds, None, self.input.kinds)
        keys = before.resolved(tree.keys, has_input=False) or ()
        return Declared(before.kinds, keys, before.of(keys) or ANY)

    @cached_property
    def _variables(self) -> Declared:
        kinds = {}
        for each in self.decision.variables:
            found = {KINDS[type(plain(raw))] for raw in each.values}
            named = (each.kind,) if each.kind else tuple(k for k in ANY if k in found)
            kinds[each.path] = named
        return Declared(kinds)

    @cached_property
    def has_outputs(self) -> bool:
        """Whether any case puts out anything but its target."""
        return any(each.has_output for each in self.decision.cases)

    @cached_property
    def outputs(self) -> tuple[Value, ...]:
        """What each case puts out: its output, or its target."""
        return tuple(
            plain(each.output) if each.has_output else each.target for each in self.decision.cases
        )

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """How important each case's output is: its place in the list of output values."""
        order = [bytes(each) for each in self.decision.output_values]
        return tuple(
            order.index(bytes(each.output) if each.has_output else canonical_json(each.target))
            if order
            else 0
            for each in self.decision.cases
        )

    @cached_property
    def salted(self) -> Salted:
        """The salt of a weighted decision, prepared."""
        return Salted(self.decision.salt)

    @cached_property
    def wheel(self) -> Wheel:
        """The slots of a weighted decision."""
        return Wheel(self.decision)


class Wheel:
    """Which case has which slots: by weights one after the other, or by explicit ranges."""

    def __init__(self, decision: Decision) -> None:
        if decision.slots is None:
            bounds = ends(scaled([Decimal(each.weight or 0) for each in decision.cases]))
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
        """Give the case that has a slot; None where no range does."""
        at = bisect_right(self._ends, slot)
        if at < len(self._ends) and self._starts[at] <= slot:
            return self._cases[at]
        return None


def plain(raw: Raw) -> Value:
    """Read a recorded value."""
    return untagged(msgspec.json.decode(raw))


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
