"""What the agents' routes take and give, as types: their schemas are made from these.

Every body may name its trace; without one, `traceparent` does, or one is made.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from pointsman.agents.file.agents_file import GivenModule, GivenSelfRep
from pointsman.agents.modules.module import Metrics, ModulePolicy, ModuleType, Status
from pointsman.approvals.view import ActionFields, Text, VoteFields
from pointsman.audit.turn_shapes import InstantText
from pointsman.brainstate.bodies import GivenInputs, GivenStart
from pointsman.brainstate.constants import DefaultUsed, Fraction
from pointsman.brainstate.view import ShownHints, ShownState
from pointsman.governance.action import ActionType, Approval
from pointsman.governance.votes import Choice
from pointsman.jobs.log import JobStatus, ReplayStep
from pointsman.kernel.replay import Verdict

TraceId = Annotated[str, Meta(max_length=200)]
SnapshotId = Annotated[str, Meta(min_length=1, max_length=200)]
Number = Annotated[float, Meta(ge=0, le=1)]
Whole = Annotated[int, Meta(ge=0)]


class ActionBody(ActionFields, frozen=True, forbid_unknown_fields=True):
    """An action to ask for."""

    trace_id: TraceId = ""


class VoteBody(VoteFields, frozen=True, forbid_unknown_fields=True):
    """A vote, and the hash of the action it is about."""

    trace_id: TraceId = ""


class NoteBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Why; it may be left out, and the body with it."""

    note: Text = ""
    trace_id: TraceId = ""


class SettleBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What becomes of a request whose executor died: carried out again, or written off."""

    how: Literal["again", "off"]
    note: Text = ""
    trace_id: TraceId = ""


class Tally(Struct, frozen=True):
    """What the votes come to."""

    approve: Whole
    reject: Whole
    abstain: Whole
    needed: Whole


class VoteRow(Struct, frozen=True):
    """One vote that counts."""

    vote_id: str
    member_id: str
    vote: Choice


class WithheldRow(Struct, frozen=True):
    """What was taken out of a request before it was recorded."""

    place: str
    type: str
    hmac: str
    reason: str


class ActionRow(Struct, frozen=True):
    """A request as it stands. Redacted: no payload, no names, no votes."""

    request_id: str
    action_id: str
    action_type: ActionType
    target: str
    status: str
    required_approval_type: Approval
    action_hash: str
    payload_id: str
    payload: Any
    origin: dict[str, Any]
    requester: str
    requester_name: str | None
    justification: str
    evidence: tuple[str, ...]
    created_at: InstantText
    timestamp_seeded: InstantText | None
    expires_at: InstantText
    votes: tuple[VoteRow, ...]
    withdrawn: tuple[VoteRow, ...]
    tally: Tally
    council_noticed: bool
    note: str
    withheld: tuple[WithheldRow, ...]
    opt_in: bool
    ended_at: InstantText | None


class ActionAnswer(ActionRow, frozen=True):
    """A request as it stands."""

    trace_id: str


class ActionsAnswer(Struct, frozen=True):
    """Requests, the newest first."""

    actions: tuple[ActionRow, ...]
    trace_id: str


class SemProvenance(Struct, frozen=True):
    """By which request a value came to be."""

    request_id: str
    entry: str
    action_hash: str
    requested_by: str
    approved_by: tuple[str, ...] | None
    at: InstantText


class SemRow(Struct, frozen=True):
    """What a key of semantic memory holds."""

    namespace: str
    key: str
    version: int
    value: Any
    redacted: bool
    provenance: SemProvenance


class SemAnswer(SemRow, frozen=True):
    """What a key of semantic memory holds."""

    trace_id: str


class NamespaceAnswer(Struct, frozen=True):
    """What a namespace holds now, by key."""

    namespace: str
    sem_snapshot_hash: str
    entries: tuple[SemRow, ...]
    trace_id: str


class StartBody(GivenStart, frozen=True, forbid_unknown_fields=True):
    """The start of a job's mind; every constant may be left out."""

    trace_id: TraceId = ""


class TickBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The state to go on from, and what came up."""

    brainstate_snapshot_id: SnapshotId
    inputs: GivenInputs = GivenInputs()
    trace_id: TraceId = ""


class QueryBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The state whose advice is wanted."""

    brainstate_snapshot_id: SnapshotId
    trace_id: TraceId = ""


class StartAnswer(Struct, frozen=True):
    """The new snapshot; a warning for each default that was filled in."""

    brainstate_snapshot_id: str
    brainstate_id: str
    warnings: tuple[DefaultUsed, ...]
    trace_id: str


class SnapshotAnswer(ShownState, frozen=True):
    """A state as document 004 writes it; redacted, what holds personal data shows its kinds."""

    brainstate_snapshot_id: str
    redacted: bool
    trace_id: str


class TickedAction(Struct, frozen=True):
    """A request that a tick led to; nothing is done before it is approved."""

    request_id: str
    action_type: ActionType
    status: str
    action_hash: str


class TickHappening(Struct, frozen=True):
    """One thing that happened in a tick."""

    event_type: str
    subject: str
    why: str
    detail: str


class TickAnswer(Struct, frozen=True):
    """The state after a tick, what happened in it, and what it asks for."""

    brainstate_snapshot_id: str
    brainstate: ShownState
    redacted: bool
    reward_signal: Fraction
    happenings: tuple[TickHappening, ...]
    action_requests: tuple[TickedAction, ...]
    trace_id: str


class HintsAnswer(ShownHints, frozen=True):
    """What the state advises: nested and flat."""

    brainstate_snapshot_id: str
    trace_id: str


class SelfRepBody(GivenSelfRep, frozen=True, forbid_unknown_fields=True):
    """Modules and what they need; their statuses stand as given. Nothing at all: the live ones."""

    modules: dict[str, GivenModule] = field(default_factory=dict)
    trace_id: TraceId = ""


class SelfRepKept(Struct, frozen=True):
    """The new snapshot; a warning for each default that was filled in."""

    selfrep_snapshot_id: str
    warnings: tuple[str, ...]
    trace_id: str


class ModuleRegistered(Struct, frozen=True):
    """Who added a module, and when."""

    registered_by: str
    registered_at: InstantText


class ModuleRow(Struct, frozen=True):
    """A module."""

    node_id: str
    type: ModuleType
    display_name: str
    version: str
    status: Status
    status_reason: str
    apt: Number
    metrics: Metrics
    capabilities: tuple[str, ...]
    dependencies: tuple[str, ...]
    policy: ModulePolicy
    registration: ModuleRegistered
    last_updated: InstantText
    is_fallback: bool


class EdgeRow(Struct, frozen=True):
    """What a module needs."""

    edge_id: str
    from_: str = field(name="from")
    to: str = field(name="to")
    required: bool = field(name="required")


class SelfRepAnswer(Struct, frozen=True):
    """A snapshot of the modules."""

    selfrep_snapshot_id: str
    schema_version: int
    config_hash: str
    modules: dict[str, ModuleRow]
    edges: tuple[EdgeRow, ...]
    trust: dict[str, float]
    events: Whole
    warnings: tuple[str, ...]
    redacted: bool
    trace_id: str


class CandidateRow(Struct, frozen=True):
    """A candidate that was scored; `reason` repeats `reason_tag`."""

    node_id: str
    availability_score: Number
    final_score: Number
    reason_tag: str
    reason: str


class RouteAnswer(Struct, frozen=True):
    """Who takes the job, how deep, with how many tokens, and every number it came from."""

    ordered_candidates: tuple[CandidateRow, ...]
    selected_agent: str | None
    reason_tag: str | None
    depth: Whole
    token_budget: Whole
    requires_action_request: bool
    action_reasons: tuple[str, ...]
    intent: str
    required_action: str
    router_version: str
    route_trace: dict[str, Any]
    router_snapshot_id: str
    selfrep_snapshot_id: str
    brainstate_snapshot_id: str
    trace_id: str
    job_id: str
    decision_id: str
    facts_id: str
    decision_version: int
    elapsed_ms: float


class JobRow(Struct, frozen=True):
    """A job in a list; without a status it is under way, or was cut short."""

    log_id: str
    job_id: str
    at: InstantText
    status: str


class JobsAnswer(Struct, frozen=True):
    """Jobs, the newest first."""

    jobs: tuple[JobRow, ...]
    trace_id: str


class JobAnswer(Struct, frozen=True):
    """How a job ended; `log` is its ReflectiveLog, `hash` its place in the ledger's chain.

    `text` is the answer: None where there is none, where it was not kept, and where redacted.
    """

    log_id: str
    job_id: str
    job_status: JobStatus
    selected_agent: str | None
    text: str | None
    log: dict[str, Any]
    is_resumed: bool
    prev_hash: str
    hash: str
    redacted: bool
    trace_id: str


class ReplayedJob(Struct, frozen=True):
    """Whether a job came out the same when it was run again from its record, and how far."""

    log_id: str
    job_id: str
    verdict: Verdict
    is_identical: bool
    code: str
    reason: str
    iterations: Whole
    steps: tuple[ReplayStep, ...]
    trace_id: str
