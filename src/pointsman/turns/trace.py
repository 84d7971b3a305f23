"""What a turn's decision says: the choice, and what every slot had to say about it."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from pointsman.kernel.canonical import Form
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import Billionths
from pointsman.placement.trace import Placed
from pointsman.turns.learning.pattern_row import ModelOption, Neighbour

Slot = Literal[
    "per_message_override",
    "manual_sticky",
    "rule",
    "pattern",
    "delegate_request",
    "workspace_default",
    "global_default",
]
Verdict = Literal["not_applicable", "deferred", "rejected", "chose"]
ValidationFailure = Literal[
    "stopped",
    "privacy_blocked",
    "not_permitted",
    "not_configured",
    "provider_unavailable",
    "no_vision_support",
    "exceeds_context_window",
    "no_tool_support",
    "no_system_prompt_support",
    "no_structured_output_support",
    "over_budget",
]


class SplitDraw(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a turn fell in a rule's split; no slot where the turn has no such unit."""

    by: Literal["session", "key", "turn"]
    slot: int | None
    total: int


class TableHit(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The row of a rule's table that took a turn, from 0; its default where there is no row."""

    decision: str
    row: int | None
    label: str
    reason: str


class RuleAttempt(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A rule that matched and whose model was rejected."""

    rule_name: str
    candidate_model: str
    validation_failure: ValidationFailure
    reason: str
    table: TableHit | UnsetType = UNSET


class PassedRule(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A rule that was passed over for want of an answer, and why there was none."""

    rule_name: str
    reason: str


class Evaluation(Struct, frozen=True, forbid_unknown_fields=True):
    """What one slot said. `flip_margin` is the success the runner-up lacks to be first.

    With the method `evidence`, `success_per_usd` is what a dollar had to buy, and `calibration_id`
    where that was found out. `is_exploring` marks a runner-up that was chosen to learn about it.
    `unknown_capabilities` are those that the turn needs and nothing is known of in the model.
    """

    policy: Slot
    verdict: Verdict
    candidate_model: str | None
    reason: str
    rule_name: str | None = None
    rule_attempts: tuple[RuleAttempt, ...] = ()
    confidence: Billionths | None = None
    pattern_alternatives: tuple[ModelOption, ...] | None = None
    validation_failure: ValidationFailure | None = None
    neighbours: tuple[Neighbour, ...] | None = None
    flip_margin: Billionths | None = None
    success_per_usd: int | UnsetType = UNSET
    calibration_id: str | UnsetType = UNSET
    is_exploring: bool | UnsetType = UNSET
    unknown_capabilities: tuple[str, ...] | UnsetType = UNSET
    split: SplitDraw | UnsetType = UNSET
    passed_over: tuple[PassedRule, ...] | UnsetType = UNSET
    table: TableHit | UnsetType = UNSET


class Banner(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Something the user must be shown."""

    code: str
    text: str


class TurnOutcome(Struct, frozen=True, forbid_unknown_fields=True):
    """The choice: `winner_index` points into the trace, -1 when no model may take the turn."""

    chosen_model: str
    winner_index: int
    banners: tuple[Banner, ...]


class OpinionStep(Struct, frozen=True, forbid_unknown_fields=True):
    """A step of a second opinion: the model it is about, and the one above that answers otherwise.

    `ask` and `judge` are calls; `take` lets the answer of a model out that was asked before, `up`
    calls the model above. `passed_over` are those that may not be asked.
    """

    step: Literal["ask", "judge", "take", "up"]
    model: str
    above: str
    reason: str
    passed_over: tuple[RuleAttempt, ...] = ()


class TurnTrace(Struct, frozen=True, forbid_unknown_fields=True):
    """Every slot that ran, in order; `opinion` is set in the steps of a second opinion alone."""

    chain: tuple[Evaluation, ...]
    opinion: OpinionStep | UnsetType = UNSET


class Shown(Struct, frozen=True):
    """A turn's decision with the names it goes by."""

    turn_id: str
    session_id: str
    decision_id: str
    at: Instant
    policy_id: str
    facts_id: str
    decision_version: int
    is_preview: bool
    elapsed_us: int
    outcome: TurnOutcome
    trace: TurnTrace
    placed: Placed | None = None


OUTCOME_FORM = Form(TurnOutcome)
TRACE_FORM = Form(TurnTrace)
