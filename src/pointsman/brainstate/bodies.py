"""The bodies callers write: the start of a job and the inputs of a tick, read strictly.

Every problem is reported at once, each at its place; unknown keys are refused.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from pointsman.brainstate.constants import (
    Fraction,
    GivenConstants,
    Ticks,
    Tokens,
)
from pointsman.brainstate.events import (
    ActionType,
)
from pointsman.brainstate.state import (
    GoalStatus,
    GoalType,
    ItemType,
    Origin,
)

LONGEST_VALUE = 65_536
MAX_DEPTH_ALLOWED = 1_000

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Reason = Annotated[str, Meta(max_length=4_000)]
Anything = Annotated[object, Meta(extra_json_schema={"description": "any JSON value"})]
Depth = Annotated[int, Meta(ge=0, le=MAX_DEPTH_ALLOWED)]


class GivenGoal(Struct, frozen=True, forbid_unknown_fields=True):
    """A goal; its `priority` is set, or computed from `user_specified` and `heuristic_score`."""

    goal_id: Name
    type: GoalType
    origin: Origin = "user"
    status: GoalStatus = "active"
    priority: Fraction | None = None
    user_specified: Fraction | None = None
    heuristic_score: Fraction | None = None
    created_at: str | None = None
    deadline_ts: str | None = None
    metadata: dict[str, Anything] = {}
    deliverable: Annotated[str, Meta(max_length=200)] = ""
    wm_ttl_ticks: Ticks | None = None


class GivenAttention(Struct, frozen=True, forbid_unknown_fields=True):
    """The modulators a job starts with; an absent one takes its default, with a warning."""

    attention_gain: Fraction | UnsetType = UNSET
    explore_bias: Fraction | UnsetType = UNSET
    reward_signal: Fraction | UnsetType = UNSET


class ResourceBudgetBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The budget the policy allots to the job."""

    token_budget: Tokens
    max_depth_allowed: Depth


class GivenStart(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /brainstate/create_snapshot`."""

    job_seed: Name
    resource_budget: ResourceBudgetBody
    goals: Annotated[tuple[GivenGoal, ...], Meta(max_length=256)] = ()
    attention: GivenAttention = GivenAttention()
    constants: GivenConstants = GivenConstants()


class GivenItem(Struct, frozen=True, forbid_unknown_fields=True):
    """An item for working memory."""

    type: ItemType
    value: Anything
    ttl_ticks: Ticks | None = None
    goal_id: Name | None = None
    token_estimate: Tokens | None = None
    wm_id: Name | None = None


class _GivenEvent(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """An event as a caller writes it."""


class GivenReference(_GivenEvent, frozen=True, tag="reference"):
    """An item of memory was used."""

    wm_id: Name


class GivenNewGoal(_GivenEvent, frozen=True, tag="goal_created"):
    """A further goal came up."""

    goal: GivenGoal


class GivenResult(_GivenEvent, frozen=True, tag="result"):
    """Something was produced for a goal, with a confidence."""

    goal_id: Name
    final_confidence: Fraction
    deliverable: Annotated[str, Meta(max_length=200)] = ""


class GivenAttempt(_GivenEvent, frozen=True, tag="attempt_failed"):
    """An attempt at a goal failed."""

    goal_id: Name
    node_id: Annotated[str, Meta(max_length=200)] = ""
    reason: Reason = ""


class GivenRepair(_GivenEvent, frozen=True, tag="repair_loop"):
    """A repair loop was run for a goal."""

    goal_id: Name


class GivenResume(_GivenEvent, frozen=True, tag="goal_resumed"):
    """A goal that was created paused is resumed."""

    goal_id: Name


class GivenFailure(_GivenEvent, frozen=True, tag="node_failed"):
    """A node failed, apart from any goal."""

    node_id: Name
    reason: Reason = ""


class GivenUse(_GivenEvent, frozen=True, tag="tokens_used"):
    """Tokens were spent or reserved."""

    tokens: Tokens


class GivenReturn(_GivenEvent, frozen=True, tag="tokens_returned"):
    """Reserved tokens were not spent."""

    tokens: Tokens


class ActionWishBody(_GivenEvent, frozen=True, tag="action"):
    """A module wishes for a persistent effect."""

    action_type: ActionType
    origin: Name
    payload: Anything
    goal_id: Name | None = None


GivenEvent: TypeAlias = (
    GivenReference
    | GivenNewGoal
    | GivenResult
    | GivenAttempt
    | GivenRepair
    | GivenResume
    | GivenFailure
    | GivenUse
    | GivenReturn
    | ActionWishBody
)


class GivenInputs(Struct, frozen=True, forbid_unknown_fields=True):
    """The `inputs` of `POST /brainstate/tick`."""

    council_approval: bool | None = None
    user_upvote: bool | None = None
    wm: Annotated[tuple[GivenItem, ...], Meta(max_length=256)] = ()
    events: Annotated[tuple[GivenEvent, ...], Meta(max_length=1_000)] = ()
