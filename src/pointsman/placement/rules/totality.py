"""Proof by enumeration: every combination of inputs hits exactly one rule of the table.

The inputs are few and finite; token counts matter only on either side of a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from msgspec import UNSET, Struct

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document
from pointsman.placement.rules.table import (
    PRIVACY_LEVELS,
    GivenCondition,
    GivenFailureRule,
    GivenRule,
    Operator,
    PlacementFile,
    Privacy,
    Route,
    operators,
)


class Combination(Struct, frozen=True):
    """One point of the table's input space."""

    privacy_level: Privacy
    token_count: int
    local_model_available: bool
    intent_supported_by_local: bool

    def __str__(self) -> str:
        return (
            f"privacy_level {self.privacy_level}, token_count {self.token_count}, "
            f"local_model_available {_word(self.local_model_available)}, "
            f"intent_supported_by_local {_word(self.intent_supported_by_local)}"
        )


class Failure(Struct, frozen=True):
    """One point of the failure table's input space."""

    route: Route
    fallback_allowed: bool

    def __str__(self) -> str:
        allowed = _word(self.fallback_allowed)
        return f"route {self.route}, initial_decision.fallback_allowed {allowed}"


def combinations(table: PlacementFile) -> Iterator[Combination]:
    """Return one of each kind of input that the rules can tell apart."""
    # DETERMINISM: below, at and above: whatever limit a local model brings, there is no other kind.
    threshold = table.defaults.token_threshold
    counts = (threshold - 1, threshold, threshold + 1)
    for level, count, is_available, is_supported in product(
        PRIVACY_LEVELS, counts, (True, False), (True, False)
    ):
        yield Combination(level, count, is_available, is_supported)


def failures() -> Iterator[Failure]:
    """Return every failure there can be: a cloud decision never allows a fallback."""
    yield Failure("local", fallback_allowed=True)
    yield Failure("local", fallback_allowed=False)
    yield Failure("cloud", fallback_allowed=False)


def hits(table: PlacementFile, inputs: Combination) -> list[GivenRule]:
    """Return the rules that hold for some inputs; `otherwise` holds where no earlier one did."""
    found: list[GivenRule] = []
    for rule in table.rules:
        condition = rule.condition
        if condition.privacy_level != inputs.privacy_level:
            continue
        if not found if condition.otherwise is not UNSET else _holds(table, condition, inputs):
            found.append(rule)
    return found


def failure_hits(table: PlacementFile, inputs: Failure) -> list[GivenFailureRule]:
    """Return the failure rules that hold for a failure."""
    return [rule for rule in table.failure_rules if _holds_after(rule, inputs)]


def problems(table: PlacementFile, document: Document) -> Iterable[Problem]:
    """Name the first gap and the first overlap of either table, with an example.

    A table that is wrong in a row has gaps and overlaps that only follow from it.
    """
    if document.is_sound(("rules",)):
        rows = [(str(each), hits(table, each)) for each in combinations(table)]
        yield from _table_problems(document, "rules", rows)
    if document.is_sound(("failure_rules",)):
        after = [(str(each), failure_hits(table, each)) for each in failures()]
        yield from _table_problems(document, "failure_rules", after)


def _table_problems(
    document: Document,
    name: str,
    found: list[tuple[str, list[GivenRule]]] | list[tuple[str, list[GivenFailureRule]]],
) -> Iterable[Problem]:
    gaps = [inputs for inputs, rules in found if not rules]
    if gaps:
        message = f"a gap: no rule holds for {gaps[0]}{_more(len(gaps))}"
        hint = "end the group with `otherwise: true`" if name == "rules" else "add a rule for it"
        yield document.problem((name,), Code.INVALID_VALUE, message, hint)
    overlaps = [(inputs, rules) for inputs, rules in found if len(rules) > 1]
    if overlaps:
        inputs, rules = overlaps[0]
        ids = " and ".join(f"`{rule.id}`" for rule in rules)
        message = f"an overlap: {ids} hold for {inputs}{_more(len(overlaps))}"
        yield document.problem((name,), Code.INVALID_VALUE, message, "make the conditions exclude")


def _more(count: int) -> str:
    return f", and for {count - 1} more" if count > 1 else ""


def _holds(table: PlacementFile, condition: GivenCondition, inputs: Combination) -> bool:
    wanted = (
        (condition.local_model_available, inputs.local_model_available),
        (condition.intent_supported_by_local, inputs.intent_supported_by_local),
    )
    if any(asked is not UNSET and asked != found for asked, found in wanted):
        return False
    if condition.token_count is UNSET:
        return True
    threshold = table.defaults.token_threshold
    tests = operators(condition.token_count)
    return all(compare_tokens(each, inputs.token_count, threshold) for each in tests)


def _holds_after(rule: GivenFailureRule, inputs: Failure) -> bool:
    stored = rule.condition.initial_decision
    if rule.condition.route != inputs.route:
        return False
    return stored is UNSET or stored.fallback_allowed == inputs.fallback_allowed


def compare_tokens(operator: Operator, count: int, bound: int) -> bool:
    """Compare a token count by the name of the operator."""
    if operator == "lte":
        return count <= bound
    if operator == "lt":
        return count < bound
    return count > bound if operator == "gt" else count >= bound


def _word(value: bool) -> str:  # noqa: FBT001 - a value to write, not a switch
    return "true" if value else "false"
