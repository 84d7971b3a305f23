"""What the agents' routes take and give, as types: their schemas are made from these.

Every body may name its trace; without one, `traceparent` does, or one is made.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from pointsman.agents.file.agents_file import GivenModule, GivenSelfRep
from pointsman.agents.modules.module import Metrics, ModulePolicy, ModuleType, Status
from pointsman.audit.turn_shapes import InstantText
from pointsman.brainstate.bodies import GivenInputs, GivenStart
from pointsman.brainstate.constants import DefaultUsed, Fraction
from pointsman.brainstate.view import ShownHints, ShownState
from pointsman.governance.action import ActionType

TraceId = Annotated[str, Meta(max_length=200)]
SnapshotId = Annotated[str, Meta(min_length=1, max_length=200)]
Number = Annotated[float, Meta(ge=0, le=1)]
Whole = Annotated[int, Meta(ge=0)]


class StartBody(GivenStart, frozen=True, forbid_unknown_fields=True):
    """The start of a job's mind; every constant may be left out."""

    trace_id: TraceId = ""


class TickBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The state to go on from, and the new inputs."""

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
    """The state after a tick, its happenings, and its action requests."""

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
    """Modules and their edges; their statuses stand as given. Nothing at all: the live ones."""

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
