"""The policy of branches: decisions as they are recorded, exact and complete in themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import partial
from typing import Literal, cast

from msgspec import Raw, Struct

from pointsman.branches.file.decisions_file import (
    WHOLE_CONTEXT,
    Action,
    Aggregate,
    DecisionsFile,
    DecisionType,
    GivenCase,
    GivenDecision,
    GivenGuardrail,
    GuardrailType,
    HitPolicy,
    variable_keys,
)
from pointsman.branches.file.problems import file_problems
from pointsman.errors import DocumentError
from pointsman.expressions.syntax import Key
from pointsman.expressions.values import Kind, Value, number_text
from pointsman.kernel.canonical import ContentId, Form, canonical_json
from pointsman.kernel.document import Document
from pointsman.kernel.schema import conform
from pointsman.kernel.snapshot import SnapshotForm
from pointsman.kernel.yaml_text import parse_yaml

NO_OUTPUT = b"null"
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_COUNTED = re.compile("([0-9]+)(ms|s|m|h|d)")


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """One case. `weight` is decimal text; `output` is canonical JSON, null where there is none."""

    target: str
    label: str
    condition: str
    weight: str | None
    priority: int
    ranges: tuple[tuple[int, ...], ...] | None
    output: Raw

    @property
    def has_output(self) -> bool:
        """Whether it puts out anything but its target."""
        return bytes(self.output) != NO_OUTPUT


class Guardrail(Struct, frozen=True, forbid_unknown_fields=True):
    """One check, and the action when it fails."""

    type: GuardrailType
    targets: tuple[str, ...]
    min_weight: str | None
    max_weight: str | None
    action_on_fail: Action | Literal["ask"]
    escalation_target: str | None


class Variable(Struct, frozen=True, forbid_unknown_fields=True):
    """A declared variable: its path from the context's root, its kind, the values it may have."""

    path: tuple[Key, ...]
    kind: Kind | None
    values: tuple[Raw, ...]


class Logging(Struct, frozen=True, forbid_unknown_fields=True):
    """What the decision log shows."""

    log_decision: bool
    include_inputs: bool
    include_evaluation: bool


class Cache(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether answers are kept, and for how long."""

    enabled: bool
    ttl_ms: int


class Decision(Struct, frozen=True, forbid_unknown_fields=True):
    """One decision."""

    id: str
    name: str
    type: DecisionType
    input: str
    cases: tuple[Case, ...]
    default_target: str
    hit_policy: HitPolicy
    aggregate: Aggregate | None
    output_values: tuple[Raw, ...]
    salt: str
    slots: int | None
    variables: tuple[Variable, ...]
    logging: Logging
    cache: Cache
    guardrails: tuple[Guardrail, ...]


class BranchPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that decides about branches, besides the facts."""

    decisions: tuple[Decision, ...]


POLICY_FORM = SnapshotForm("branch.policy", 1, BranchPolicy)
_DECISION_FORM = Form(Decision)


def definition_id(decision: Decision) -> ContentId:
    """Name a decision by all that is written in it."""
    return _DECISION_FORM.id(decision)


def read_policy(
    text: bytes, source: str, *, targets: Sequence[str] | None = None, taken: Sequence[str] = ()
) -> DecisionsFile:  # fmt: skip
    """Read one file, or raise with every problem at its place.

    `targets` are all there are, where a graph declares them; `taken` are the ids of other files.
    """
    return read_document(parse_yaml(text, source), targets=targets, taken=taken)


def read_document(
    document: Document, *, targets: Sequence[str] | None = None, taken: Sequence[str] = ()
) -> DecisionsFile:
    """Read the decisions of a document, or raise with every problem at its place."""
    return conform(document, DecisionsFile, partial(file_problems, targets=targets, taken=taken))


def named_decisions(text: bytes) -> frozenset[str] | None:
    """Return the ids that a file names, whatever is wrong with it; None where that is not told."""
    try:
        value = parse_yaml(text, "").value
    except DocumentError:
        return None
    listed = value.get("decisions", [value.get("decision")]) if isinstance(value, dict) else None
    if not isinstance(listed, list):
        return None
    ids = (each.get("id") for each in listed if isinstance(each, dict))
    return frozenset(each for each in ids if isinstance(each, str))


def branch_policy(files: Iterable[DecisionsFile]) -> BranchPolicy:
    """Put the decisions of checked files together."""
    return BranchPolicy(tuple(decision(each, file) for file in files for each in file.every))


def decision(given: GivenDecision, file: DecisionsFile) -> Decision:
    """Return the exact form of a checked decision."""
    return Decision(
        id=given.id,
        name=given.name or given.id,
        type=given.type,
        input=given.input or WHOLE_CONTEXT,
        cases=tuple(map(_case, given.rows)),
        default_target=given.default.target,
        hit_policy=given.hit_policy or "first",
        aggregate=given.aggregate,
        output_values=_raws(given.output_values or ()),
        salt=given.id if given.salt is None else given.salt,
        slots=given.slots,
        variables=_variables(given),
        logging=Logging(
            given.logging.log_decision,
            given.logging.include_inputs,
            given.logging.include_evaluation,
        ),
        cache=Cache(given.cache.enabled, milliseconds(given.cache.ttl)),
        guardrails=tuple(_guardrail(each, file.targets or ()) for each in given.guardrails),
    )


def milliseconds(duration: str) -> int:
    """Read a duration such as `24h` or `1h30m`."""
    return sum(int(count) * _UNIT_MS[unit] for count, unit in _COUNTED.findall(duration))


def _case(given: GivenCase) -> Case:
    return Case(
        target=given.target,
        label=given.target if given.label is None else given.label,
        condition=given.condition.strip(),
        weight=_decimal(given.weight),
        priority=given.priority or 0,
        ranges=given.ranges,
        output=_raw(given.output),
    )


def _guardrail(given: GivenGuardrail, known: tuple[str, ...]) -> Guardrail:
    usual: Literal["ask", "block"] = "ask" if given.type == "requires_approval" else "block"
    targets = given.disabled_stages if given.disabled_stages is not None else given.targets
    return Guardrail(
        type=given.type,
        targets=known if targets is None else targets,
        min_weight=_decimal(given.min_weight),
        max_weight=_decimal(given.max_weight),
        action_on_fail=given.action_on_fail or usual,
        escalation_target=given.escalation_target,
    )


def _variables(given: GivenDecision) -> tuple[Variable, ...]:
    found = []
    for path, says in (given.variables or {}).items():
        keys = variable_keys(path, given.input) or ()
        kind = says if isinstance(says, str) else None
        found.append(Variable(keys, kind, () if isinstance(says, str) else _raws(says)))
    # DETERMINISM: a mapping has no order that survives being recorded.
    return tuple(sorted(found, key=lambda each: [str(key) for key in each.path]))


def _decimal(value: Decimal | None) -> str | None:
    return None if value is None else number_text(value)


def _raws(given: Sequence[object]) -> tuple[Raw, ...]:
    return tuple(map(_raw, given))


def _raw(value: object) -> Raw:
    return Raw(canonical_json(cast("Value", value)))
