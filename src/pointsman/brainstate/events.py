"""The inputs of a tick, exact: votes, feedback, items for memory, and events (004 §9, §13)."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from pointsman.brainstate.state import GoalStatus, GoalType, ItemType, Origin
from pointsman.kernel.canonical import Form
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import Billionths

ActionType = Literal[
    "sem_write", "sem_delete", "register_module", "set_module_policy", "set_router_config"
]
"""The persistent effects a state may wish for, and never causes by itself (004 §6)."""


class NewGoal(Struct, frozen=True, forbid_unknown_fields=True):
    """A goal before it is opened; its priority is set, or computed from the user's and a score."""

    goal_id: str
    type: GoalType
    origin: Origin = "user"
    status: GoalStatus = "active"
    priority: Billionths | None = None
    user_specified: Billionths | None = None
    heuristic_score: Billionths | None = None
    created_at: Instant | None = None
    deadline_ts: Instant | None = None
    metadata: str = "{}"
    deliverable: str = ""
    wm_ttl_ticks: int | None = None


class Insertion(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """An item for working memory; `value` is canonical JSON text. Without an id it gets one."""

    type: ItemType
    value: str
    ttl_ticks: int | None = None
    goal_id: str | None = None
    token_estimate: int | None = None
    wm_id: str | None = None


class _Event(Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """An event of the job."""


class Referenced(_Event, frozen=True, tag="reference"):
    """An item of memory was used."""

    wm_id: str


class GoalCreated(_Event, frozen=True, tag="goal_created"):
    """A further goal came up."""

    goal: NewGoal


class ResultProduced(_Event, frozen=True, tag="result"):
    """Something was produced for a goal, with a confidence."""

    goal_id: str
    deliverable: str
    final_confidence: Billionths


class AttemptFailed(_Event, frozen=True, tag="attempt_failed"):
    """An attempt at a goal failed, at a node if it is named."""

    goal_id: str
    node_id: str
    reason: str


class RepairLooped(_Event, frozen=True, tag="repair_loop"):
    """A repair loop was run for a goal."""

    goal_id: str


class GoalResumed(_Event, frozen=True, tag="goal_resumed"):
    """A goal that was created paused is resumed."""

    goal_id: str


class NodeFailed(_Event, frozen=True, tag="node_failed"):
    """A node failed, apart from any goal."""

    node_id: str
    reason: str


class TokensUsed(_Event, frozen=True, tag="tokens_used"):
    """Tokens were spent or reserved."""

    tokens: int


class TokensReturned(_Event, frozen=True, tag="tokens_returned"):
    """Reserved tokens were not spent."""

    tokens: int


class ActionWished(_Event, frozen=True, tag="action"):
    """A module wishes for a persistent effect; `payload` is canonical JSON text."""

    action_type: ActionType
    origin: str
    payload: str
    goal_id: str | None = None


Event: TypeAlias = (
    Referenced
    | GoalCreated
    | ResultProduced
    | AttemptFailed
    | RepairLooped
    | GoalResumed
    | NodeFailed
    | TokensUsed
    | TokensReturned
    | ActionWished
)


class TickInputs(Struct, frozen=True, forbid_unknown_fields=True):
    """All inputs of one tick besides the state. Votes and feedback may be absent: None."""

    council_approval: bool | None = None
    user_upvote: bool | None = None
    wm: tuple[Insertion, ...] = ()
    events: tuple[Event, ...] = ()


NOTHING = TickInputs()
INPUTS_FORM = Form(TickInputs)
