"""The policy chain: seven slots in fixed order, the first whose candidate validates wins.

Pure, and never raises on valid facts. Of the seven, this version knows the last: the others are in
the trace, saying that they had nothing to say. Document 002 §4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from pointsman.kernel.canonical import Form
from pointsman.kernel.content import Texts
from pointsman.kernel.number import Billionths
from pointsman.kernel.replay import Decided, PureDecider
from pointsman.turns.facts import FACTS_FORM, TurnFacts
from pointsman.turns.policy import POLICY_FORM, TurnPolicy, provider_of

DECISION_VERSION = 1

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
ValidationFailure = Literal["not_permitted", "not_configured", "provider_unavailable"]


class RuleAttempt(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule that matched and whose model was rejected."""

    rule_name: str
    candidate_model: str
    validation_failure: ValidationFailure
    reason: str


class ModelOption(Struct, frozen=True, forbid_unknown_fields=True):
    """A model that similar turns speak for."""

    model: str
    score: Billionths
    sample_size: int


class Evaluation(Struct, frozen=True, forbid_unknown_fields=True):
    """What one slot said."""

    policy: Slot
    verdict: Verdict
    candidate_model: str | None
    reason: str
    rule_name: str | None = None
    rule_attempts: tuple[RuleAttempt, ...] = ()
    confidence: Billionths | None = None
    pattern_alternatives: tuple[ModelOption, ...] | None = None
    validation_failure: ValidationFailure | None = None


class Banner(Struct, frozen=True, forbid_unknown_fields=True):
    """Something the user must be shown."""

    code: str
    text: str


class TurnOutcome(Struct, frozen=True, forbid_unknown_fields=True):
    """The choice: `winner_index` points into the trace, -1 when no model may take the turn."""

    chosen_model: str
    winner_index: int
    banners: tuple[Banner, ...]


class Trace(Struct, frozen=True, forbid_unknown_fields=True):
    """Every slot that ran, in order."""

    chain: tuple[Evaluation, ...]


OUTCOME_FORM = Form(TurnOutcome)
TRACE_FORM = Form(Trace)

Policy = Callable[[TurnPolicy, TurnFacts], Evaluation]


def decide(policy: TurnPolicy, facts: TurnFacts) -> tuple[TurnOutcome, Trace]:
    """Run the chain."""
    chain: list[Evaluation] = []
    for slot in _CHAIN:
        chain.append(slot(policy, facts))
        if chain[-1].verdict == "chose":
            chosen = chain[-1].candidate_model or ""
            return TurnOutcome(chosen, len(chain) - 1, ()), Trace(tuple(chain))
    return TurnOutcome("", -1, (_no_model(chain),)), Trace(tuple(chain))


def _silent(slot: Slot, reason: str) -> Policy:
    evaluation = Evaluation(slot, "not_applicable", None, reason)
    return lambda _policy, _facts: evaluation


def _global_default(policy: TurnPolicy, facts: TurnFacts) -> Evaluation:
    candidate = policy.global_default
    if candidate is None:
        return Evaluation("global_default", "not_applicable", None, "no global default set")
    failure = _validated(candidate, policy, facts)
    if failure is None:
        return Evaluation("global_default", "chose", candidate, "global default")
    code, reason = failure
    return Evaluation("global_default", "rejected", candidate, reason, validation_failure=code)


_CHAIN: tuple[Policy, ...] = (
    _silent("per_message_override", "no @model token in message"),
    _silent("manual_sticky", "no sticky model set"),
    _silent("rule", "no rule matched"),
    _silent("pattern", "no similar turns recorded"),
    _silent("delegate_request", "not a delegation"),
    _silent("workspace_default", "no workspace default set"),
    _global_default,
)


def _validated(
    candidate: str, policy: TurnPolicy, facts: TurnFacts
) -> tuple[ValidationFailure, str] | None:
    """Check a candidate in the fixed order; the first failure is the one reported."""
    if facts.allowed_models is not None and candidate not in facts.allowed_models:
        return "not_permitted", f"{candidate} is not among the allowed models"
    if candidate not in policy.models:
        return "not_configured", f"{candidate} is not in the registry"
    if facts.configured is not None and candidate not in facts.configured:
        return "not_configured", f"{candidate} lacks a key or an address"
    if facts.availability.get(provider_of(candidate)) == "unavailable":
        return (
            "provider_unavailable",
            f"all {provider_of(candidate)} models temporarily unavailable",
        )
    if facts.availability.get(candidate) == "unavailable":
        return "provider_unavailable", f"{candidate} model-specific outage"
    return None


def _no_model(chain: list[Evaluation]) -> Banner:
    tried = [
        f"{each.candidate_model} ({each.validation_failure})"
        for each in chain
        if each.candidate_model
    ]
    listed = ", ".join(tried) or "nothing: no slot had a candidate"
    return Banner("turns.no_model", f"No model available for this turn. Tried: {listed}")


def _decided(policy: TurnPolicy, facts: TurnFacts) -> Decided:
    outcome, trace = decide(policy, facts)
    return Decided(OUTCOME_FORM.encode(outcome), TRACE_FORM.encode(trace))


def _opened(facts: TurnFacts, _texts: Texts) -> TurnFacts:
    # No slot of this version reads the message: a text that is gone stands in nobody's way.
    return facts


DECIDER = PureDecider("turn", DECISION_VERSION, (POLICY_FORM.form, FACTS_FORM), _decided, _opened)
