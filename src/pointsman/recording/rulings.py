"""Rulings as entries: a placement and a turn's decision, sealed and ready to be recorded."""

from __future__ import annotations

from pointsman.kernel.canonical import content_id
from pointsman.kernel.content import Sealed
from pointsman.kernel.entry import Draft
from pointsman.kernel.record import Aside, Names, plain_bytes
from pointsman.placement import decide as placement
from pointsman.placement import facts as placement_facts
from pointsman.placement import policy as placement_policy
from pointsman.placement import trace as placement_trace
from pointsman.recording.recorder import Made
from pointsman.recording.ruling import Placing, Policies, Ruling
from pointsman.storage.policies.policies import InForce
from pointsman.turns import decide as turns
from pointsman.turns import facts as turn_facts
from pointsman.turns import policy as turn_policy


def policies_of(in_force: InForce) -> Policies:
    """Give what rules a turn now."""
    return Policies(in_force.placement, in_force.placement_id, in_force.ready, in_force.policy_id)


def placement_made(policies: Policies, placing: Placing, seal: Sealed, ledger: str) -> Made:
    """Give a placement as it is recorded."""
    facts = placement_facts.with_seal(placing.facts, seal)
    return Made(
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
    """Give the entry of a turn's decision whose policy is recorded: as `turn_made` leads to."""
    facts = turn_facts.FACTS_FORM.encode(turn_facts.with_seal(ruling.facts, seal))
    decided = turns.written(ruling.outcome, ruling.trace)
    payload = plain_bytes(
        ("turn", turns.DECISION_VERSION, policies.turns_id),
        content_id(facts),
        decided.outcome,
        decided.trace,
        aside,
    )
    kind = f"decision.turn.{linked}" if linked else "decision.turn"
    return Draft(kind, names.id, names.ref, names.at, payload, (facts,))


def turn_made(policies: Policies, ruling: Ruling, seal: Sealed, ledger: str) -> Made:
    """Give a turn's decision as it is recorded."""
    decided = turns.written(ruling.outcome, ruling.trace)
    return Made(
        "turn",
        turns.DECISION_VERSION,
        policies.turns_id,
        lambda key: turn_policy.POLICY_FORM.make(policies.turns.policy, ledger, key),
        turn_facts.FACTS_FORM.encode(turn_facts.with_seal(ruling.facts, seal)),
        decided.outcome,
        decided.trace,
    )
