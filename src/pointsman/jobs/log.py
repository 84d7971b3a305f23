"""The ReflectiveLog of a job and the entries it is made of (companion §4.3).

The ledger is append-only, so the log is a chain of linked entries: one where a job starts, one for
each iteration with its results, and the merged log where it ends. An entry is never rewritten.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType

from pointsman.agents.codes import Cause, ErrorCode, ReasonTag
from pointsman.agents.trace import AgentOutcome
from pointsman.governance.action import Actor
from pointsman.governance.council import CouncilVote
from pointsman.kernel.canonical import ContentId, Form
from pointsman.kernel.content import Retain, Sealed
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import Billionths

JOB: Final = "event.job."
STARTED: Final = JOB + "started"
OUTPUT: Final = JOB + "output"
ITERATION: Final = JOB + "iteration"
FINISHED: Final = JOB + "finished"
ABANDONED: Final = JOB + "abandoned"
VOTE: Final = "event.council.vote"
REROUTE: Final = "reroute"

CallStatus = Literal["done", "timeout", "exception", "unreachable"]
"""How a call ended: `unreachable` = nothing says how this agent is called, or it may not be."""

IterationStatus = Literal[
    "done", "timeout", "exception", "unreachable", "no_agent", "action_request"
]
JobStatus = Literal["done", "rejected", "no_match", "privacy_blocked", "requested", "needs_request"]
"""`requested` = the job is a request for an action now; `needs_request` = none could be made."""

StepName = Literal["load", "snapshots", "decide", "call", "judge", "trust", "tick", "iteration",
                   "result"]  # fmt: skip
"""The steps of a replay, in their order."""


class ReplayStep(Struct, frozen=True):
    """One step that was repeated with the same result; iterations count from 1."""

    step: StepName
    iteration: int


class JobStarted(Struct, frozen=True, forbid_unknown_fields=True):
    """A job began. Attached: the facts of its first choice, and the council that will judge.

    `payload` seals the payload of the job's action, where it needs one.
    """

    log_id: str
    job_id: str
    job_seed: str
    trace_id: str
    by: Actor
    created_at_seeded: Instant
    snapshot_ids: dict[str, str]
    query: Sealed
    payload: Sealed | None
    retain: Retain
    tenant: str | UnsetType = UNSET


class JobOutput(Struct, frozen=True, forbid_unknown_fields=True):
    """How a call to an agent ended. `reply` seals the whole answer; `reason` is redacted.

    `elapsed_us` is the time the call took here; no decision looks at it.
    """

    log_id: str
    iteration: int
    agent_id: str
    status: CallStatus
    reason: str
    reply: Sealed | None
    found_kinds: tuple[str, ...]
    elapsed_us: int


class JobVote(Struct, frozen=True, forbid_unknown_fields=True):
    """One vote on one output, and whose."""

    log_id: str
    iteration: int
    voter: str
    vote: CouncilVote


class RouterOutput(Struct, frozen=True, forbid_unknown_fields=True):
    """The decision in short; `outcome_id` names the whole outcome in the decision's entry."""

    selected_agent: str | None
    reason_tag: ReasonTag | None
    depth: int
    token_budget: int
    requires_action_request: bool
    error_code: ErrorCode
    cause: Cause
    outcome_id: ContentId


class VoteCast(Struct, frozen=True, forbid_unknown_fields=True):
    """A vote, in short; its own entry has the explanation."""

    vote_id: str
    voter: str
    agent_id: str
    correctness: Billionths
    relevance: Billionths
    safety: Billionths
    coherence: Billionths
    approve: bool


class Iteration(Struct, frozen=True, forbid_unknown_fields=True):
    """One choice of an agent, and its results."""

    iteration_id: str
    number: int
    excluded: tuple[str, ...]
    decision_id: str
    router_input_snapshot: str
    router_output: RouterOutput
    agent_id: str
    status: IterationStatus
    reason: str
    agent_output_id: str
    council_approval: bool | None
    council_votes: tuple[VoteCast, ...]
    brainstate_before: str
    brainstate_after: str
    trust_events: tuple[str, ...]
    action_requests: tuple[str, ...]
    warnings: tuple[str, ...]


class FinalOutput(Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the job; its text is stored apart under `output_id`, and can be erased."""

    agent_id: str
    output_id: str
    confidence: Billionths | None
    deliverable: str
    speculative: bool


class JobFault(Struct, frozen=True, forbid_unknown_fields=True):
    """A fault of a job: a code of companion §4.5, and its iteration."""

    code: str
    iteration: int
    detail: str


class ReflectiveLog(Struct, frozen=True, forbid_unknown_fields=True):
    """All of a job, merged: a replay must reproduce it byte for byte."""

    log_id: str
    job_id: str
    job_seed: str
    trace_id: str
    sequence: int
    created_at_seeded: Instant
    snapshot_ids: dict[str, str]
    query_text_hash: str
    status: JobStatus
    router_decision: AgentOutcome
    iteration_trace: tuple[Iteration, ...]
    agents_invoked: tuple[str, ...]
    agent_outputs: tuple[str, ...]
    council_votes: tuple[VoteCast, ...]
    action_requests: tuple[str, ...]
    final_output: FinalOutput | None
    brainstate_before: str
    brainstate_after: str
    selfrep_after: ContentId
    event_refs: tuple[str, ...]
    errors: tuple[JobFault, ...]
    warnings: tuple[str, ...]
    replayable: bool


class JobAbandoned(Struct, frozen=True, forbid_unknown_fields=True):
    """An interrupted job that cannot be resumed, and why."""

    log_id: str
    reason: str


ABANDONED_FORM: Final = Form(JobAbandoned)
STARTED_FORM: Final = Form(JobStarted)
OUTPUT_FORM: Final = Form(JobOutput)
VOTE_ENTRY_FORM: Final = Form(JobVote)
ITERATION_FORM: Final = Form(Iteration)
LOG_FORM: Final = Form(ReflectiveLog)


def output_name(log_id: str, iteration: int) -> str:
    """Name the entry of an output."""
    return f"{log_id}.{iteration}.output"


def vote_name(log_id: str, iteration: int, place: int) -> str:
    """Name the entry of a vote."""
    return f"{log_id}.{iteration}.vote.{place}"


def iteration_name(log_id: str, iteration: int) -> str:
    """Name the entry of an iteration."""
    return f"{log_id}.{iteration}"


def finished_name(log_id: str) -> str:
    """Name the last entry of a job."""
    return f"{log_id}.end"


def abandoned_name(log_id: str) -> str:
    """Name the entry that closes a job which cannot be resumed."""
    return f"{log_id}.abandoned"


def short_vote(voter: str, vote: CouncilVote) -> VoteCast:
    """Return a vote in the short form of the log."""
    scores = (vote.correctness, vote.relevance, vote.safety, vote.coherence)
    return VoteCast(vote.vote_id, voter, vote.agent_id, *scores, vote.approve)
