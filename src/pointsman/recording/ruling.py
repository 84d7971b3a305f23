"""The ruling of one turn: whether it may leave the machine, then which model takes it. Pure."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from pointsman.kernel.canonical import ContentId, content_id
from pointsman.kernel.content import Sealed
from pointsman.kernel.entry import Draft
from pointsman.kernel.record import Aside, Names, plain_bytes
from pointsman.placement import decide as placement
from pointsman.placement import facts as placement_facts
from pointsman.placement import policy as placement_policy
from pointsman.placement import trace as placement_trace
from pointsman.placement.compiled import CompiledPlacement
from pointsman.placement.decide import decide as place
from pointsman.placement.facts import Failed, PlacementFacts
from pointsman.placement.trace import Placed, PlacementOutcome, PlacementTrace
from pointsman.recording.recorder import MadeDecision
from pointsman.storage.policies.policies import InForce
from pointsman.turns import decide as turns
from pointsman.turns import facts as turn_facts
from pointsman.turns import policy as turn_policy
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.decide import decide
from pointsman.turns.facts import TurnFacts, with_placement
from pointsman.turns.learning.second_opinion import Opinion
from pointsman.turns.trace import TurnOutcome, TurnTrace


class Policies(Struct, frozen=True):
    """The policies that rule a turn, under the names they are recorded by."""

    placement: CompiledPlacement
    placement_id: ContentId
    turns: CompiledTurnPolicy
    turns_id: ContentId


class PlacementRuling(Struct, frozen=True):
    """A placement decision with its facts."""

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


class Ruling(Struct, frozen=True):
    """Both decisions about a turn. `is_placed_anew` is false where an earlier placement stands."""

    placing: PlacementRuling
    facts: TurnFacts
    outcome: TurnOutcome
    trace: TurnTrace
    is_placed_anew: bool = True

    @property
    def model(self) -> str:
        """The model that takes the turn; empty when none may."""
        return self.outcome.chosen_model


def decide_placement(policies: Policies, asked: PlacementFacts) -> PlacementRuling:
    """Decide whether a turn may leave."""
    return PlacementRuling(asked, *place(policies.placement, asked))


def decide_turn(policies: Policies, asked: PlacementFacts, facts: TurnFacts) -> Ruling:
    """Decide whether a turn may leave, then which model takes it."""
    placing = PlacementRuling(asked, *place(policies.placement, asked))
    return decide_model(policies, placing, facts)


def decide_model(policies: Policies, placing: PlacementRuling, facts: TurnFacts) -> Ruling:
    """Decide which model takes a turn whose placement is decided."""
    own, placed = policies.placement.policy.local_model, placing.outcome
    zones = placed.zones if placed.gate == "zone" else UNSET
    labels = placing.facts.labels or UNSET
    because = (placed.rule_id, placed.gate, placed.reason)
    fact = Placed(policies.placement_id, *because, own, zones, labels)
    facts = with_placement(facts, fact)
    return Ruling(placing, facts, *decide(policies.turns, facts))


def decide_opinion(policies: Policies, first: Ruling, opinions: tuple[Opinion, ...]) -> Ruling:
    """Decide the next step of a second opinion from those that were heard so far."""
    facts = replace(first.facts, opinions=opinions)
    return replace(decide_model(policies, first.placing, facts), is_placed_anew=False)


def decide_after_failure(policies: Policies, before: Ruling) -> Ruling:
    """Decide again after the chosen model failed: it is excluded; a turn that must stay still does.

    A placement that binds to this machine gives way only where its stored `fallback_allowed` says
    so, once, and the new decision is logged as an escalation (document 001 §3).
    """
    failed = before.model
    excluded = (*before.facts.excluded_models, failed)
    facts = replace(before.facts, excluded_models=excluded, opinions=UNSET)
    outcome = before.placing.outcome
    if outcome.gate == "local" and outcome.route == "local" and outcome.fallback_allowed:
        stored = Failed(outcome.route, outcome.rule_id, outcome.fallback_allowed)
        again = decide_placement(policies, replace(before.placing.facts, failed=stored))
        return decide_model(policies, again, facts)
    kept = decide_model(policies, before.placing, facts)
    return replace(kept, is_placed_anew=False)


def policies_in_force(in_force: InForce) -> Policies:
    """Return the compiled policies in force."""
    return Policies(in_force.placement, in_force.placement_id, in_force.ready, in_force.policy_id)


def placement_record(
    policies: Policies,
    placing: PlacementRuling,
    seal: Sealed,
    ledger: str,
    values: Sealed | UnsetType = UNSET,
) -> MadeDecision:
    """Return the record of a placement; `values` seals those that were masked."""
    facts = placement_facts.with_seal(placing.facts, seal, values)
    return MadeDecision(
        "placement",
        placement.DECISION_VERSION,
        policies.placement_id,
        lambda key: placement_policy.POLICY_FORM.make(policies.placement.policy, ledger, key),
        placement_facts.FACTS_FORM.encode(facts),
        placement_trace.OUTCOME_FORM.encode(placing.outcome),
        placement_trace.TRACE_FORM.encode(placing.trace),
    )


def turn_draft(
    names: Names, policies: Policies, ruling: Ruling, seal: Sealed, aside: Aside, linked: str
) -> Draft:
    """Return the entry of a turn whose policy is recorded: the one that `turn_record` leads to."""
    facts = turn_facts.FACTS_FORM.encode(turn_facts.with_seal(ruling.facts, seal))
    decided = turns.encode_decision(ruling.outcome, ruling.trace)
    payload = plain_bytes(
        ("turn", turns.DECISION_VERSION, policies.turns_id),
        content_id(facts),
        decided.outcome,
        decided.trace,
        aside,
    )
    kind = f"decision.turn.{linked}" if linked else "decision.turn"
    return Draft(kind, names.id, names.ref, names.at, payload, (facts,))


def turn_record(policies: Policies, ruling: Ruling, seal: Sealed, ledger: str) -> MadeDecision:
    """Return the record of a turn's decision."""
    decided = turns.encode_decision(ruling.outcome, ruling.trace)
    return MadeDecision(
        "turn",
        turns.DECISION_VERSION,
        policies.turns_id,
        lambda key: turn_policy.POLICY_FORM.make(policies.turns.policy, ledger, key),
        turn_facts.FACTS_FORM.encode(turn_facts.with_seal(ruling.facts, seal)),
        decided.outcome,
        decided.trace,
    )
