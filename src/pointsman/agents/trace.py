"""The outcome and trace of the choice of an agent: the agent, its budget, and every number.

Scores are in billionths; the HTTP view shows them as ordinary numbers.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from pointsman.agents.codes import Cause, DepthReason, ErrorCode, Excluded, ReasonTag
from pointsman.agents.modules.module import Status
from pointsman.kernel.canonical import ContentId, Form
from pointsman.kernel.number import Billionths

CheckName = Literal[
    "privacy",
    "attempts",
    "known",
    "reroute",
    "rbac",
    "policy",
    "status",
    "min_availability",
    "top_n",
]
CandidateSource = Literal["given", "intent", "capability", "all_agents", "none"]
IntentSource = Literal["given", "pattern", "none"]
TieBreak = Literal["", "apt", "node_id"]


class Ranked(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One candidate of the answer."""

    node_id: str
    availability_score: Billionths
    final_score: Billionths
    reason_tag: ReasonTag


class AgentOutcome(Struct, frozen=True, forbid_unknown_fields=True):
    """The agent that takes the job, its depth and tokens; with an error code, no agent does."""

    selected_agent: str | None
    reason_tag: ReasonTag | None
    depth: int
    token_budget: int
    ordered_candidates: tuple[Ranked, ...]
    requires_action_request: bool
    action_reasons: tuple[str, ...]
    intent: str
    required_action: str
    error_code: ErrorCode
    cause: Cause
    router_version: str


class Exclusion(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A module that was not scored, and the first check it failed."""

    node_id: str
    reason: Excluded
    detail: str


class Check(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One check in its order: how many passed it, and how many it took out."""

    check: CheckName
    passed: int
    excluded: int


class Scored(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The score of one candidate, term by term.

    `raw_score` is the exact sum of the terms, rounded once; the terms are rounded for reading.
    `tie_break` is the rule that put it behind an equal score before it.
    """

    node_id: str
    status: Status
    apt: Billionths
    status_weight: Billionths
    unhealthy_dependencies: tuple[str, ...]
    availability_score: Billionths
    goal_id: str
    goal_priority: Billionths
    availability_term: Billionths
    goal_term: Billionths
    explore_term: Billionths
    raw_score: Billionths
    final_score: Billionths
    bias_flag: bool
    is_fallback: bool
    tie_break: TieBreak
    reason_tag: ReasonTag


class DepthTrace(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """How the depth was computed."""

    base_depth: int
    attention_gain: Billionths
    depth_multiplier: int
    depth: int
    reason: DepthReason


class TokenTrace(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """How the token budget was computed; `share` is of the brain state's budget."""

    token_budget: int
    share: Billionths
    computed: int
    min_token_floor: int
    allocated: int
    is_budget_below_floor: bool


class RouteTrace(Struct, frozen=True, forbid_unknown_fields=True):
    """Every intermediate value. Long lists and texts end in `artifact:` and their content id."""

    attempt: int
    attempts_left: int
    excluded_nodes: tuple[str, ...]
    intent: str
    intent_source: IntentSource
    required_action: str
    candidate_source: CandidateSource
    considered: int
    checks: tuple[Check, ...]
    excluded: tuple[Exclusion, ...]
    excluded_total: int
    excluded_artifact: str
    scored: tuple[Scored, ...]
    availability_median: Billionths
    prefer_high_apt: bool
    allow_explore: bool
    explore_bias: Billionths
    depth: DepthTrace
    tokens: TokenTrace
    fallbacks: tuple[str, ...]
    privacy_reason: str


OUTCOME_FORM: Final = Form(AgentOutcome)
TRACE_FORM: Final = Form(RouteTrace)

ARTIFACT: Final = "artifact:"


class Artifact(Struct, frozen=True):
    """A list or text too long for a trace; the recorder stores it under its id."""

    id: ContentId
    body: bytes
