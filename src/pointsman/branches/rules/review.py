"""Static review of decisions: gaps, overlaps, shadowed rules, conflicts.

Every finding comes with an input that shows it. Nothing here rejects a decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from pointsman.branches.compiled import CompiledDecision, compile_policy
from pointsman.branches.policy import BranchPolicy, Case
from pointsman.branches.rules.cells import Cell, Cells, asked_by, fits_together
from pointsman.branches.rules.guardrails import NO_APPROVALS, judge_choice
from pointsman.branches.rules.table import Table
from pointsman.expressions.values import Value, same
from pointsman.kernel.codes import Meaning

MOST_COMPARED = 256
"""Earlier rules that one is compared with where there are too many inputs to try all."""


class BranchConcern(Meaning):
    """One kind of finding; `meaning` is the sentence the documentation shows."""

    NEVER = "branches.rule_never_matches", "what the condition asks for cannot all be true"
    SHADOWED = "branches.rule_shadowed", "whenever it is true, a rule that goes before it is too"
    OVERLAP = "branches.rules_overlap", "two rules with different targets can both be true"
    CONFLICT = "branches.rules_conflict", "two rules that the hit policy allows once can be true"
    GAP = "branches.gap", "an input for which no rule is true: it goes to the default"
    OPAQUE = "branches.rule_not_analysed", "the condition does more than compare with literals"
    GUARDED = "branches.guardrail_always_fails", "the weights break a guardrail of the decision"


class BranchFinding(Struct, frozen=True):
    """One finding about a decision; `example` is a context that shows it."""

    code: BranchConcern
    decision_id: str
    message: str
    rule: int | None = None
    by: tuple[int, ...] = ()
    example: dict[str, Value] | None = None


def review(policy: BranchPolicy) -> tuple[BranchFinding, ...]:
    """Return the findings about valid decisions, in their order."""
    ready = compile_policy(policy)
    return tuple(
        finding
        for each in policy.decisions
        for finding in _Review(ready.decision(each.id)).findings()
    )


class _Review:
    def __init__(self, ready: CompiledDecision) -> None:
        self._ready = ready
        self._decision = ready.decision
        is_table = self._decision.type != "weighted"
        asked = [asked_by(ready, row) for row in range(len(self._decision.cases)) if is_table]
        every = [each for row in asked if row is not None for each in row]
        is_sound = fits_together(every)
        self._asked = [row if is_sound else None for row in asked]
        self._rows = [row for row, each in enumerate(self._asked) if each is not None]

    def findings(self) -> Iterator[BranchFinding]:
        """Return all findings of the decision."""
        if self._decision.type == "weighted":
            yield from self._weights()
            return
        for row, asked in enumerate(self._asked):
            if asked is None:
                yield self._finding(BranchConcern.OPAQUE, f"{self._name(row)} is not analysed", row)
        cells = Cells(self._ready, self._rows)
        tried = list(cells)
        masks = self._masks(tried)
        if cells.is_complete:
            yield from self._never(masks)
        shadows = self._shadows(masks, tried) if cells.is_complete else self._pairwise_shadows()
        shadowed = list(shadows)
        yield from shadowed
        yield from self._overlaps(masks, tried, {each.rule for each in shadowed})
        if len(self._rows) == len(self._asked):
            yield from self._gaps(masks, tried)

    def _masks(self, cells: Sequence[Cell]) -> dict[int, int]:
        """Give, for every rule, the cells in which it is true, as the bits of a number."""
        masks = dict.fromkeys(self._rows, 0)
        table = Table(self._ready.conditions, first=False)
        for number, cell in enumerate(cells):
            for row in table.hits(cell.scope(self._ready)).hits:
                if row in masks:
                    masks[row] |= 1 << number
        return masks

    def _never(self, masks: dict[int, int]) -> Iterator[BranchFinding]:
        for row, mask in masks.items():
            if not mask:
                yield self._finding(BranchConcern.NEVER, f"{self._name(row)} is never true", row)

    def _shadows(self, masks: dict[int, int], cells: Sequence[Cell]) -> Iterator[BranchFinding]:
        order = self._precedence()
        before = 0
        for at, row in enumerate(order or ()):
            mask = masks.get(row, 0)
            if mask and not mask & ~before:
                earlier = [each for each in (order or ())[:at] if masks.get(each, 0) & mask]
                whole = [each for each in earlier if not mask & ~masks[each]]
                yield self._shadow(row, tuple(whole[:1] or earlier), cells[_lowest(mask)])
            before |= mask

    def _precedence(self) -> list[int] | None:
        """Return the rules from the one that goes first; None where all that are true count."""
        rows = range(len(self._decision.cases))
        policy = self._decision.hit_policy
        if self._decision.type != "rule_table" or policy == "first":
            return list(rows)
        if policy == "priority":
            return sorted(rows, key=lambda row: self._decision.cases[row].priority)
        if policy == "output_priority":
            return sorted(rows, key=lambda row: self._ready.ranks[row])
        return None

    def _pairwise_shadows(self) -> Iterator[BranchFinding]:
        """Compare rules two by two where there are too many inputs for all at once."""
        order = [row for row in self._precedence() or () if self._asked[row] is not None]
        for at, row in enumerate(order):
            for earlier in order[:at][:MOST_COMPARED]:
                cells = Cells(self._ready, [earlier, row])
                example = self._overlap(row, earlier, cells) if cells.is_complete else None
                if example is not None:
                    yield self._shadow(row, (earlier,), example)
                    break

    def _overlap(self, row: int, by: int, cells: Cells) -> Cell | None:
        """Return an input for which both are true, if one is only true where the other is."""
        example: Cell | None = None
        conditions = self._ready.conditions
        for cell in cells:
            scope = cell.scope(self._ready)
            if conditions[row].answer(scope).value is True:
                if conditions[by].answer(scope).value is not True:
                    return None
                example = example or cell
        return example

    def _shadow(self, row: int, by: tuple[int, ...], cell: Cell) -> BranchFinding:
        names = ", ".join(self._name(each) for each in by)
        message = f"{self._name(row)} never decides: {names} go{'es' if len(by) == 1 else ''} first"
        return self._finding(BranchConcern.SHADOWED, message, row, by, cell)

    def _overlaps(
        self, masks: dict[int, int], cells: Sequence[Cell], told: set[int | None]
    ) -> Iterator[BranchFinding]:
        rows = [row for row in self._rows if row not in told]
        for at, row in enumerate(rows):
            for earlier in rows[:at]:
                both = masks[row] & masks[earlier]
                code = self._clash(earlier, row, masks) if both else None
                if code is not None:
                    message = f"{self._name(earlier)} and {self._name(row)} can both be true"
                    yield self._finding(code, message, row, (earlier,), cells[_lowest(both)])

    def _clash(self, earlier: int, row: int, masks: dict[int, int]) -> BranchConcern | None:
        decision = self._decision
        one, two = decision.cases[earlier], decision.cases[row]
        outputs = self._ready.outputs
        is_same = one.target == two.target and same(outputs[earlier], outputs[row])
        policy = decision.hit_policy if decision.type == "rule_table" else "first"
        if policy == "unique" or (policy == "any" and not is_same):
            return BranchConcern.CONFLICT
        is_tie = policy == "first" or (policy == "priority" and one.priority == two.priority)
        # An exception written before its rule overlaps with all of itself: that is no accident.
        is_partial = bool(masks[earlier] & ~masks[row]) and bool(masks[row] & ~masks[earlier])
        return BranchConcern.OVERLAP if is_tie and is_partial and not is_same else None

    def _gaps(self, masks: dict[int, int], cells: Sequence[Cell]) -> Iterator[BranchFinding]:
        covered = 0
        for mask in masks.values():
            covered |= mask
        for number, cell in enumerate(cells):
            if not covered >> number & 1 and not cell.is_open:
                message = f"no rule is true: goes to `{self._decision.default_target}`"
                yield self._finding(BranchConcern.GAP, message, None, (), cell)
                return

    def _weights(self) -> Iterator[BranchFinding]:
        for check in judge_choice(self._decision, (), NO_APPROVALS).checks:
            if not check.passed:
                yield self._finding(BranchConcern.GUARDED, check.message)

    def _name(self, row: int) -> str:
        case: Case = self._decision.cases[row]
        return f"rule {row + 1} `{case.label}`"

    def _finding(
        self,
        code: BranchConcern,
        message: str,
        row: int | None = None,
        by: tuple[int, ...] = (),
        cell: Cell | None = None,
    ) -> BranchFinding:
        example = None if cell is None else cell.context
        return BranchFinding(code, self._decision.id, message, row, by, example)


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
