"""One turn, ruled: first whether it may leave the machine, then which model takes it. Pure."""

from __future__ import annotations

from msgspec import Struct, UnsetType
from msgspec.structs import replace

from pointsman.kernel.canonical import ContentId
from pointsman.placement.compiled import CompiledPlacement
from pointsman.placement.decide import decide as place
from pointsman.placement.facts import Failed, PlacementFacts
from pointsman.placement.trace import Placed, PlacementOutcome, PlacementTrace
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.decide import decide
from pointsman.turns.facts import TurnFacts, with_placement
from pointsman.turns.trace import Trace, TurnOutcome


class Policies(Struct, frozen=True):
    """The policies that rule a turn, under the names they are recorded by."""

    placement: CompiledPlacement
    placement_id: ContentId
    turns: CompiledTurnPolicy
    turns_id: ContentId


class Placing(Struct, frozen=True):
    """A placement with what it looked at."""

    facts: PlacementFacts
    outcome: PlacementOutcome
    trace: PlacementTrace

    @property
    def is_advice(self) -> bool:
        """Whether it left everything open, by the table alone.

        Advice is recorded as a fact of the turn's decision; whatever binds, was asked of a policy
        rule or a human, or looked into the text, is a decision of its own.
        """
        facts, inputs = self.facts, self.trace.inputs
        looked = facts.sensitivity is not None or facts.taint is not None
        is_asked = inputs.policy_action != "none" or facts.failed is not None
        return self.outcome.gate == "open" and not looked and not is_asked

    def as_fact(self, policy_id: ContentId, local_model: str | UnsetType) -> Placed:
        """Return this placement as a fact of the choice of a model."""
        outcome = self.outcome
        return Placed(policy_id, outcome.rule_id, outcome.gate, outcome.reason, local_model)


class Ruling(Struct, frozen=True):
    """Both decisions about a turn. `is_placed_anew` is false where an earlier placement stands."""

    placing: Placing
    facts: TurnFacts
    outcome: TurnOutcome
    trace: Trace
    is_placed_anew: bool = True

    @property
    def model(self) -> str:
        """The model that takes the turn; empty when none may."""
        return self.outcome.chosen_model


def placed(policies: Policies, asked: PlacementFacts) -> Placing:
    """Decide whether a turn may leave."""
    return Placing(asked, *place(policies.placement, asked))


def ruled(policies: Policies, asked: PlacementFacts, facts: TurnFacts) -> Ruling:
    """Decide whether a turn may leave, then which model takes it."""
    return ruled_under(policies, placed(policies, asked), facts)


def ruled_under(policies: Policies, placing: Placing, facts: TurnFacts) -> Ruling:
    """Decide which model takes a turn whose placement is decided."""
    own = policies.placement.policy.local_model
    facts = with_placement(facts, placing.as_fact(policies.placement_id, own))
    return Ruling(placing, facts, *decide(policies.turns, facts))


def ruled_after_failure(policies: Policies, before: Ruling) -> Ruling:
    """Decide again after the chosen model failed: it is excluded, and what must stay still stays.

    A placement that binds to this machine gives way only where its stored `fallback_allowed` says
    so, once, and the new decision is logged as an escalation (document 001 §3).
    """
    failed = before.model
    facts = replace(before.facts, excluded_models=(*before.facts.excluded_models, failed))
    outcome = before.placing.outcome
    if outcome.gate == "local" and outcome.route == "local" and outcome.fallback_allowed:
        stored = Failed(outcome.route, outcome.rule_id, outcome.fallback_allowed)
        again = placed(policies, replace(before.placing.facts, failed=stored))
        return ruled_under(policies, again, facts)
    kept = ruled_under(policies, before.placing, facts)
    return replace(kept, is_placed_anew=False)
