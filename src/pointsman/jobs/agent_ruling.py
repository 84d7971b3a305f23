"""The choice of an agent as an entry: sealed, with the snapshots it stands on, ready to record."""

from __future__ import annotations

from pointsman.agents.compiled import CompiledAgents
from pointsman.agents.decide import DECISION_VERSION, Decision, artifacts
from pointsman.agents.facts import FACTS_FORM, JobFacts, with_seal
from pointsman.agents.modules.selfrep import SELFREP_FORM
from pointsman.agents.policy import POLICY_FORM
from pointsman.agents.trace import OUTCOME_FORM, TRACE_FORM
from pointsman.kernel.canonical import ContentId
from pointsman.kernel.content import Sealed
from pointsman.recording.recorder import Made, Pinned

SELFREP = "selfrep"
BRAINSTATE = "brainstate"


def agent_made(
    router: CompiledAgents,
    facts: JobFacts,
    decided: Decision,
    seal: Sealed,
    policy_id: ContentId,
    ledger: str,
) -> Made:
    """Give the choice of an agent as it is recorded.

    The modules' snapshot goes into the ledger ahead of it where it is new; a mind's snapshot is
    recorded when it is made, and only named here.
    """
    outcome, trace = decided
    policy, selfrep = router.policy.policy, router.selfrep
    snapshots = {
        SELFREP: Pinned(router.selfrep_id, lambda key: SELFREP_FORM.make(selfrep, ledger, key))
    }
    if facts.brainstate_id:
        snapshots[BRAINSTATE] = Pinned(ContentId(facts.brainstate_id))
    return Made(
        "agent",
        DECISION_VERSION,
        policy_id,
        lambda key: POLICY_FORM.make(policy, ledger, key),
        FACTS_FORM.encode(with_seal(facts, seal)),
        OUTCOME_FORM.encode(outcome),
        TRACE_FORM.encode(trace),
        snapshots,
        tuple(each.body for each in artifacts(router, facts, trace)),
    )
