"""What a branch decision says: where it goes, and what every case had to say about it."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Raw, Struct

from pointsman.kernel.canonical import Form
from pointsman.kernel.codes import Meaning

Verdict = Literal["pass", "warn", "ask", "escalate", "block"]
HELD: Final[frozenset[Verdict]] = frozenset({"ask", "escalate", "block"})
"""The verdicts that keep a choice from being taken."""


class Reason(Meaning):
    """Why the targets were selected; `meaning` is the sentence the documentation shows."""

    MATCHED = "matched", "a case's condition is true, or the unit fell into its slots"
    NO_CASE_MATCHED = "no_case_matched", "no condition is true: the default"
    ZERO_TOTAL_WEIGHT = "zero_total_weight", "all weights are 0: the default"
    UNIT_REFUSED = "unit_refused", "the input is missing, or no text, whole number or truth value"
    OUTSIDE_RANGES = "outside_ranges", "the unit's slot belongs to no range: the default"
    SEVERAL_MATCHED = "several_matched", "`unique`, and more than one rule is true: the default"
    OUTPUTS_DIFFER = "outputs_differ", "`any`, and the rules that are true disagree: the default"


class CaseResult(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """What one case said. `result` is null where it is unknown or was not evaluated."""

    index: int
    label: str
    condition: str
    result: bool | None
    evaluated: bool
    priority: int
    weight: str | None
    missing: tuple[str, ...]
    reason: str


class ReadValue(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A value the decision looked at; lists and mappings go by their content id alone."""

    path: str
    value: Raw
    content_id: str | None
    is_missing: bool


class Weighted(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Where a unit fell."""

    method: str
    salt: str
    slot: int
    total_weight: int


class GuardrailCheck(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The result of one guardrail for one target or weight, and the action that follows."""

    decision_id: str
    check_name: str
    passed: bool
    message: str
    action: str
    escalation_target: str | None


class BranchOutcome(Struct, frozen=True, forbid_unknown_fields=True):
    """The choice. Where a guardrail holds it back, `chosen_targets` are not in `selected_targets`.

    There stands the escalation target, or nothing. While `approval_required` names targets, nothing
    may act on the choice.
    """

    decision_id: str
    selected_targets: tuple[str, ...]
    selected_labels: tuple[str, ...]
    selected_indexes: tuple[int, ...]
    is_default: bool
    reason: Reason
    input_value: Raw
    output: Raw
    weighted: Weighted | None
    guardrails: tuple[GuardrailCheck, ...]
    verdict: Verdict
    blocked: bool
    chosen_targets: tuple[str, ...]
    approval_required: tuple[str, ...]

    @property
    def withheld_targets(self) -> tuple[str, ...]:
        """The targets that a guardrail holds back."""
        return self.chosen_targets if self.verdict in HELD else ()


class BranchTrace(Struct, frozen=True, forbid_unknown_fields=True):
    """Every case in order, and the values they looked at."""

    cases: tuple[CaseResult, ...]
    read: tuple[ReadValue, ...]
    input_missing: tuple[str, ...]
    input_reason: str


OUTCOME_FORM = Form(BranchOutcome)
TRACE_FORM = Form(BranchTrace)
