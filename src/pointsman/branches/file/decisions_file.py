"""The files in `decisions/` as people write them: document 003, with what its companion adds."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pointsman.expressions.grammar import parse_expression
from pointsman.expressions.syntax import Key, Path
from pointsman.expressions.values import Kind
from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.wb1 import MAX_TOTAL

WHOLE_CONTEXT = "context"

DecisionType = Literal["binary", "switch", "weighted", "rule_table"]
HitPolicy = Literal[
    "first", "collect", "priority", "unique", "any", "rule_order", "output_order", "output_priority"
]
Aggregate = Literal["sum", "min", "max", "count"]
GuardrailType = Literal[
    "no_disabled_targets", "weight_bounds", "requires_approval", "known_targets"
]
Action = Literal["block", "escalate", "warn", "log"]

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Weight = Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "maximum": MAX_TOTAL})]
Slot = Annotated[int, Meta(ge=0, le=MAX_TOTAL)]
Priority = Annotated[int, Meta(ge=-MAX_INT, le=MAX_INT)]
_PART = "[0-9]{1,9}"
Duration = Annotated[
    str,
    Meta(
        min_length=2,
        pattern=f"^({_PART}d)?({_PART}h)?({_PART}m)?({_PART}s)?({_PART}ms)?$",
    ),
]
"""Whole numbers with their units, the largest first: `500ms`, `30s`, `24h`, `1h30m`, `7d`."""


AnyValue = Annotated[object, Meta(extra_json_schema={"description": "any value"})]


class GivenCase(Struct, frozen=True, forbid_unknown_fields=True):
    """One case, or one rule of a table. Without a label it goes by its target."""

    target: Name
    condition: str = ""
    label: str | None = None
    weight: Weight | None = None
    priority: Priority | None = None
    ranges: tuple[tuple[Slot, Slot], ...] | None = None
    output: AnyValue = None


class GivenDefault(Struct, frozen=True, forbid_unknown_fields=True):
    """Where to go when no case says so."""

    target: Name


class GivenLogging(Struct, frozen=True, forbid_unknown_fields=True):
    """What the decision log shows; the ledger records all of it."""

    log_decision: bool = True
    include_inputs: bool = True
    include_evaluation: bool = True


class GivenCache(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether answers are kept, and for how long."""

    enabled: bool = False
    ttl: Duration = "1h"


class GivenGuardrail(Struct, frozen=True, forbid_unknown_fields=True):
    """One check of the chosen targets, or of the weights."""

    type: GuardrailType
    disabled_stages: tuple[Name, ...] | None = None
    min_weight: Weight | None = None
    max_weight: Weight | None = None
    targets: tuple[Name, ...] | None = None
    action_on_fail: Action | None = None
    escalation_target: Name | None = None


class GivenDecision(Struct, frozen=True, forbid_unknown_fields=True):
    """One decision. `rules` is another name for the `cases` of a rule table."""

    id: Name
    type: DecisionType
    default: GivenDefault
    name: str = ""
    input: str | None = None
    cases: tuple[GivenCase, ...] | UnsetType = UNSET
    rules: tuple[GivenCase, ...] | UnsetType = UNSET
    hit_policy: HitPolicy | None = None
    aggregate: Aggregate | None = None
    output_values: tuple[AnyValue, ...] | None = None
    salt: str | None = None
    slots: Slot | None = None
    variables: dict[str, Kind | tuple[AnyValue, ...]] | None = None
    logging: GivenLogging = GivenLogging()
    cache: GivenCache = GivenCache()
    guardrails: tuple[GivenGuardrail, ...] = ()

    @property
    def rows(self) -> tuple[GivenCase, ...]:
        """The cases, by whichever name."""
        given = self.cases if isinstance(self.rules, UnsetType) else self.rules
        return () if isinstance(given, UnsetType) else given

    @property
    def rows_key(self) -> str:
        """The name they are written under."""
        return "cases" if isinstance(self.rules, UnsetType) else "rules"


class DecisionsFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One file: a decision or a list of them, and the targets there are, where they are known."""

    decision: GivenDecision | UnsetType = UNSET
    decisions: tuple[GivenDecision, ...] = ()
    targets: tuple[Name, ...] | None = None

    @property
    def every(self) -> tuple[GivenDecision, ...]:
        """The decisions of the file."""
        return self.decisions if isinstance(self.decision, UnsetType) else (self.decision,)


def variable_keys(path: str, given_input: str | None) -> tuple[Key, ...] | None:
    """Return a declared path from the context's root on; None where it is no path.

    `input` stands for the path the decision's input is, if it is one.
    """
    tree = parse_expression(path)
    if not isinstance(tree, Path):
        return None
    if tree.root == "input":
        start = parse_expression(given_input or WHOLE_CONTEXT)
        if not isinstance(start, Path):
            return None
        return (*_from_root(start.keys), *tree.steps)
    return _from_root(tree.keys)


def _from_root(keys: tuple[Key, ...]) -> tuple[Key, ...]:
    return keys[1:] if keys[0] == WHOLE_CONTEXT else keys
