"""The ledger entries about agents: choices, calls, ticks and trust events, ready to append."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from msgspec import Raw, Struct

from pointsman.agents.compiled import CompiledAgents
from pointsman.agents.decide import DECISION_VERSION, Decision, artifacts
from pointsman.agents.facts import FACTS_FORM, JobFacts, with_seal
from pointsman.agents.modules.selfrep import SELFREP_FORM
from pointsman.agents.modules.trust import EVENT_FORM, TrustEvent
from pointsman.agents.policy import POLICY_FORM
from pointsman.agents.trace import OUTCOME_FORM, TRACE_FORM
from pointsman.governance.action import Actor
from pointsman.kernel.canonical import ContentId, Form
from pointsman.kernel.content import Sealed
from pointsman.kernel.entry import MAX_NAME, Draft
from pointsman.kernel.record import Names
from pointsman.recording.recorder import MadeDecision, PinnedSnapshot

CALL: Final = "event.agents.call"
TICK: Final = "event.brainstate.tick"
TRUST: Final = "event.trust."
"""Followed by the type of the event in lower case: `event.trust.agent_timeout`."""

SELFREP: Final = "selfrep"
BRAINSTATE: Final = "brainstate"

_CONTENT_ID = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


class Caller(Struct, frozen=True):
    """Who asks, under which trace; `permitted` lists the modules they may use, None for all."""

    actor: Actor
    trace_id: str = ""
    permitted: tuple[str, ...] | None = None
    tenant: str = ""


class CallEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One call: its name, actor and snapshot, and its result: `done` or an error code."""

    call: str
    by: Actor
    trace_id: str
    subject: str
    result: str


class TickEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One tick: the snapshots before and after, the seal of its inputs and trace, and the trace.

    `sealed` names the stored text of both, which can be erased. `trace` holds no text; it is null
    where the inputs hold personal data or a secret, whose kinds are listed. `job` is the log of the
    tick's job.
    """

    by: Actor
    trace_id: str
    job: str
    brainstate_before: str
    brainstate_after: str
    sealed: Sealed
    kinds: tuple[str, ...]
    trace: Raw
    action_requests: tuple[str, ...]
    refused: tuple[str, ...]


CALL_FORM: Final = Form(CallEntry)
TICK_FORM: Final = Form(TickEntry)


def agent_decision(
    router: CompiledAgents,
    facts: JobFacts,
    decided: Decision,
    seal: Sealed,
    policy_id: ContentId,
    ledger: str,
) -> MadeDecision:
    """Build the recorded decision for the choice of an agent.

    A new snapshot of the modules goes into the ledger ahead of the decision; a brain state's
    snapshot is recorded when it is made, and only named here.
    """
    outcome, trace = decided
    policy, selfrep = router.policy.policy, router.selfrep
    snapshots = {
        SELFREP: PinnedSnapshot(
            router.selfrep_id, lambda key: SELFREP_FORM.make(selfrep, ledger, key)
        )
    }
    if facts.brainstate_id:
        snapshots[BRAINSTATE] = PinnedSnapshot(ContentId(facts.brainstate_id))
    return MadeDecision(
        "agent",
        DECISION_VERSION,
        policy_id,
        lambda key: POLICY_FORM.make(policy, ledger, key),
        FACTS_FORM.encode(with_seal(facts, seal)),
        OUTCOME_FORM.encode(outcome),
        TRACE_FORM.encode(trace),
        snapshots,
        tuple(artifact.body for artifact in artifacts(router, facts, trace)),
    )


def call_draft(names: Names, told: CallEntry) -> Draft:
    """Make the entry of a call; `ref` is the snapshot it is about."""
    return Draft(CALL, names.id, names.ref, names.at, CALL_FORM.encode(told))


def tick_text(inputs: bytes, trace: bytes) -> str:
    """Return the text that a tick seals: its inputs and its whole trace."""
    return (b'{"inputs":%b,"trace":%b}' % (inputs, trace)).decode()


def tick_draft(names: Names, told: TickEntry) -> Draft:
    """Make the entry of a tick; `ref` is the snapshot it led to, or the job it belongs to."""
    return Draft(TICK, names.id, names.ref, names.at, TICK_FORM.encode(told))


def trust_draft(names: Names, event: TrustEvent) -> Draft:
    """Make the entry of a trust event of a module; `ref` is the job it happened in."""
    kind = TRUST + event.event_type.lower()
    return Draft(kind, names.id, names.ref, names.at, EVENT_FORM.encode(event))


def snapshot_subject(given: str) -> str:
    """Return a content id as entries may hold it; any other text could be personal: empty."""
    return given if _CONTENT_ID.fullmatch(given) else ""


def job_ref(job_id: str) -> str:
    """Name a job as ledger entries do: by its id, or by a digest where that cannot name one."""
    if job_id and len(job_id) <= MAX_NAME and job_id.isascii() and job_id.isprintable():
        return job_id
    return "job:" + hashlib.sha256(job_id.encode("utf-8", "surrogatepass")).hexdigest()
