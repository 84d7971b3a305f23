"""What the tools take and give, as types: the schemas that clients see are made from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from pointsman.access.keys import KeyPrivacy
from pointsman.audit.turn_shapes import DifferenceRow, InstantText
from pointsman.sessions.delegate_call import TIMEOUT_S, Words
from pointsman.sessions.events.delegation import FailureMode
from pointsman.turns.facts import GivenFacts
from pointsman.turns.registry.models import Tier

Id = Annotated[str, Meta(min_length=1, max_length=512)]


class PreviewInput(Struct, frozen=True, forbid_unknown_fields=True):
    """A message that is to be looked at here and now, or facts that are looked at alone."""

    message: Annotated[str, Meta(description="what a user would say; may begin with @model")] = ""
    facts: Annotated[
        GivenFacts | None, Meta(description="decide on these facts and on nothing else")
    ] = None
    record: Annotated[bool, Meta(description="false leaves no trace in the ledger")] = True


class ExplainInput(Struct, frozen=True, forbid_unknown_fields=True):
    """A turn that was recorded."""

    turn: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=512,
            description="the id of a turn, of any decision about it, or `last`",
        ),
    ] = "last"


class ReplayInput(Struct, frozen=True, forbid_unknown_fields=True):
    """Decisions by name, or all since an instant; without either, all there are."""

    ids: Annotated[
        tuple[Id, ...], Meta(max_length=1000, description="ids of decisions or turns")
    ] = ()
    since: Annotated[str | None, Meta(description="RFC 3339; only from this instant on")] = None


class Note(Struct, frozen=True, forbid_unknown_fields=True):
    """Something the worker must know; it sees nothing else of your conversation."""

    label: Annotated[str, Meta(min_length=1, description="what it is: a path, a title")]
    text: str


class DelegateInput(Struct, frozen=True, forbid_unknown_fields=True):
    """A sub-task for another tier."""

    task: Annotated[Words, Meta(description="a focused instruction that stands on its own")]
    tier: Annotated[Tier, Meta(description="fast is cheap, deep is thorough")]
    context: Annotated[
        tuple[Note, ...], Meta(max_length=100, description="all that the worker is told beside it")
    ] = ()
    output_schema: Annotated[
        dict[str, Any] | None, Meta(description="a JSON Schema that the answer must keep")
    ] = None
    max_tokens: Annotated[int, Meta(ge=1, description="a cap on the worker's output")] | None = None
    privacy: Annotated[KeyPrivacy, Meta(description="`local` keeps the task on this machine")] = (
        "auto"
    )
    timeout_s: Annotated[int, Meta(ge=1, le=3600)] = TIMEOUT_S


class EvaluateInput(Struct, frozen=True, forbid_unknown_fields=True):
    """A workflow's decision, and the context in which its input is evaluated."""

    id: Annotated[Id, Meta(description="the decision's id")]
    input: dict[str, Any]
    dry_run: Annotated[bool, Meta(description="true leaves no trace and no approval behind")] = (
        False
    )
    workflow_id: Annotated[str, Meta(max_length=512)] = ""
    stage_id: Annotated[str, Meta(max_length=512)] = ""


class CostInput(Struct, frozen=True, forbid_unknown_fields=True):
    """Whose spending is asked for; all of it without any of these."""

    session_id: Id | None = None
    key_id: Id | None = None
    since: Annotated[str | None, Meta(description="RFC 3339; from the day of it on, in UTC")] = None


class ReplayedDecision(Struct, frozen=True):
    """A decision that did not come out the same, or could not be re-run."""

    decision_id: str
    kind: str
    verdict: str
    code: str
    reason: str
    differences: tuple[DifferenceRow, ...]


class ReplayOutput(Struct, frozen=True):
    """How many decisions came out byte for byte the same, and which did not."""

    total: int
    identical: int
    diverged: int
    unable: int
    others: tuple[ReplayedDecision, ...]


class DelegateAnswer(Struct, frozen=True):
    """What a worker gave back; `output` is an object where a schema was given."""

    success: bool
    output: Any
    error: str | None
    failure_mode: FailureMode | None
    model: str
    cost_usd: str
    input_tokens: int
    output_tokens: int
    wall_time_seconds: str
    decision_id: Annotated[str, Meta(description="route_explain tells why this model did it")]
    session_id: str
    worker_session_id: str


class EvaluateOutput(Struct, frozen=True):
    """Where a decision leads; while `approval_required` names targets, nothing may act on it."""

    decision_id: str
    selected_targets: tuple[str, ...]
    selected_labels: tuple[str, ...]
    is_default: bool
    blocked: bool
    withheld_targets: tuple[str, ...]
    approval_required: tuple[str, ...]
    timestamp: InstantText
    cached: bool
    policy_id: str
    facts_id: str
    evaluation_id: str = ""
    dry_run: bool = False


class PlaceAnswer(Struct, frozen=True):
    """A placement: a route, or an error with its code."""

    rule_id: str
    reason: str
    decision_id: str
    policy_id: str
    facts_id: str
    route: Literal["local", "cloud"] | None = None
    model: str | None = None
    error_code: str | None = None
    requires_confirmation: bool = False


class Amounts(Struct, frozen=True):
    """What calls used and cost."""

    calls: int
    estimated_calls: int
    unpriced_calls: int
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    cache_creation_input_tokens: int
    cost_microusd: int
    cost_usd: str


class CostRow(Amounts, frozen=True, kw_only=True):
    """What one model, session, key or day used and cost."""

    name: str


class CostOutput(Struct, frozen=True):
    """The money spent; of each list the dearest, of days the newest."""

    total: Amounts
    by_model: tuple[CostRow, ...]
    by_session: tuple[CostRow, ...]
    by_key: tuple[CostRow, ...]
    by_day: tuple[CostRow, ...]


class AgentCandidate(Struct, frozen=True):
    """An agent that could take the job."""

    node_id: str
    availability_score: float
    final_score: float
    reason_tag: str


class AgentDecided(Struct, frozen=True):
    """Which agent takes a job, how deep, with how many tokens."""

    decision_id: str
    job_id: str
    selected_agent: str | None
    reason_tag: str | None
    depth: int
    token_budget: int
    requires_action_request: bool
    action_reasons: tuple[str, ...]
    ordered_candidates: tuple[AgentCandidate, ...]
    facts_id: str
    trace_id: str
    error_code: str = ""
