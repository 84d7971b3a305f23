"""The trace of one tick: its happenings, their reasons, its wishes; the same bytes on every run.

Happenings quote no value, no metadata and no reason: they may be stored where those may not.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from pointsman.brainstate.events import ActionType
from pointsman.kernel.canonical import Form
from pointsman.kernel.codes import Meaning
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import Billionths

Happened = Literal[
    "wm_inserted", "wm_referenced", "cwm_referenced", "promotion", "wm_expired", "cwm_expired",
    "cwm_dropped", "cwm_recomputed", "goal_created", "goal_succeeded", "goal_failed",
    "goal_paused", "goal_resumed", "result", "attempt_failed", "repair_loop", "failure_noted",
    "tokens_used", "tokens_returned", "action_wished", "ignored",
]  # fmt: skip


class Why(Meaning):
    """The reason of a happening."""

    NEW_ITEM = "brainstate.new_item", "no equal item was in memory"
    EQUAL_ITEM = "brainstate.equal_item", "an equal item is in memory: it counts as a reference"
    USED = "brainstate.used", "an event says that the item was used"
    REPORTED = "brainstate.reported", "an event reported it"
    OFTEN_REFERENCED = "brainstate.often_referenced", "referenced often enough within the window"
    TTL_RAN_OUT = "brainstate.ttl_ran_out", "its time to live ran out"
    TOO_LARGE = "brainstate.too_large", "alone larger than consolidated memory may be"
    OVER_BUDGET = "brainstate.over_budget", "least referenced when memory had to shrink"
    PROMOTED = "brainstate.promoted", "an item was promoted"
    NEW_GOAL = "brainstate.new_goal", "a goal was created"
    DELIVERED = "brainstate.delivered", "its deliverable was produced with enough confidence"
    ATTEMPTS_USED_UP = "brainstate.attempts_used_up", "no attempt is left"
    REPAIRS_USED_UP = "brainstate.repairs_used_up", "no repair loop is left"
    BUDGET_EXHAUSTED = "brainstate.budget_exhausted", "the token budget is used up"
    PREEMPTED = "brainstate.preempted", "another goal leads by more than the margin"
    CAUSE_ENDED = "brainstate.cause_ended", "what paused it is over"
    ASKED = "brainstate.asked", "an event asks for it"
    UNKNOWN_GOAL = "brainstate.unknown_goal", "no goal goes by this id"
    UNKNOWN_ITEM = "brainstate.unknown_item", "no item in memory goes by this id"
    ID_TAKEN = "brainstate.id_taken", "another item in memory goes by this id"
    GOAL_EXISTS = "brainstate.goal_exists", "a goal goes by this id already"
    GOAL_OVER = "brainstate.goal_over", "the goal has succeeded or failed"
    OTHER_DELIVERABLE = "brainstate.other_deliverable", "the goal wants another deliverable"
    NOT_HELD = "brainstate.not_held", "the goal was not paused by its creator"


class Happening(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One happening of a tick; `detail` holds the values before and after."""

    event_id: str
    event_type: Happened
    subject: str
    why: Why
    detail: str
    timestamp_seeded: Instant


class Reward(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """How the reward came about; the user counts only where the council does not disagree."""

    council_approval: bool | None
    user_upvote: bool | None
    is_user_counted: bool
    value: Billionths


class ModulatorChange(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A modulator before and after."""

    before: Billionths
    after: Billionths


class ActionWish(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A persistent effect a module wishes for. Nothing is executed here (004 §6)."""

    action_id: str
    origin: str
    action_type: ActionType
    payload: str
    justification: str
    timestamp_seeded: Instant


class TickTrace(Struct, frozen=True, forbid_unknown_fields=True):
    """All happenings of one tick, in their order."""

    brainstate_id: str
    tick: int
    happenings: tuple[Happening, ...]
    reward: Reward
    attention_gain: ModulatorChange
    explore_bias: ModulatorChange
    wishes: tuple[ActionWish, ...]


TRACE_FORM = Form(TickTrace)
