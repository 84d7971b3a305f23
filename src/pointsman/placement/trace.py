"""What a placement says: where, by which rule, and what every step had to say about it."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType

from pointsman.kernel.canonical import Form
from pointsman.placement.facts import HumanOverride, Network
from pointsman.placement.rules.policy_rule import Action
from pointsman.placement.rules.table import ErrorCode, Privacy

StepName = Literal[
    "failureHandling", "policyEnforcement", "privacyEnforcement", "autoModeLogic", "networkGate"
]
StepOutcome = Literal["passedThrough", "terminated", "threw"]
Gate = Literal["open", "local", "closed", "zone"]
"""Which models a placement leaves open to the choice: any, local ones, none, those of zones."""


MASK_NOTE: Final = "; masked where it leaves: "
"""Stands in a reason before the counts of the placeholders that a text leaves under."""


class Step(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One step of the evaluation, and how it ended."""

    step: StepName
    outcome: StepOutcome
    detail: str


class RuleLook(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One rule that was asked: its condition in words, and whether it held."""

    rule_id: str
    condition: str
    has_matched: bool


class Inputs(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """What the rules compared, after the derived values were worked out."""

    privacy_level: Privacy
    network_state: Network
    token_count: int
    token_limit: int
    is_within_limit: bool
    is_local_available: bool
    is_intent_supported: bool
    policy_action: Action | Literal["none"]
    human_override: HumanOverride


class PlacementOutcome(Struct, frozen=True, forbid_unknown_fields=True):
    """Where it goes; with an error code, nowhere. The confidence is always 1."""

    route: Literal["local", "cloud", ""]
    model: str
    reason: str
    rule_id: str
    fallback_allowed: bool
    requires_confirmation: bool
    log_escalation: bool
    router_version: str
    error_code: ErrorCode | Literal[""]
    gate: Gate
    zones: tuple[str, ...] | UnsetType = UNSET
    """The zones that the turn must stay within, also where the gate holds it on this machine."""


BoundSource = Literal["rule", "row", "label", "facts", "taint"]


class ZoneBound(Struct, frozen=True, forbid_unknown_fields=True):
    """A zone that a question must stay within, and what says so."""

    zone: str
    source: BoundSource
    why: str


class PlacementTrace(Struct, frozen=True, forbid_unknown_fields=True):
    """How it came to that."""

    terminated_at: StepName
    steps: tuple[Step, ...]
    evaluated_rules: tuple[RuleLook, ...]
    inputs: Inputs
    prompts: tuple[str, ...]
    warnings: tuple[str, ...]
    bounds: tuple[ZoneBound, ...] | UnsetType = UNSET


class Placed(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A placement as a fact of another decision: its gate, and the rule behind it.

    `local_model` is the one that placement.yaml names for turns that must stay here. With the gate
    `zone` a model takes the turn only where it lies within all the `zones`.
    """

    policy_id: str
    rule_id: str
    gate: Gate
    reason: str
    local_model: str | UnsetType = UNSET
    zones: tuple[str, ...] | UnsetType = UNSET
    labels: tuple[str, ...] | UnsetType = UNSET


OUTCOME_FORM = Form(PlacementOutcome)
TRACE_FORM = Form(PlacementTrace)
