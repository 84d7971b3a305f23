"""A job's short-term memory at one moment, exact and frozen (004 §2 and the needs of its rules).

Values of a caller (`value`, `metadata`) are held as canonical JSON text, so that equal means equal
bytes.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from pointsman.brainstate.constants import Constants, DefaultUsed
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import Billionths
from pointsman.kernel.snapshot import SnapshotForm

GoalType = Literal["answer", "clarify", "save", "verify", "plan"]
GoalStatus = Literal["active", "succeeded", "failed", "paused"]
Origin = Literal["user", "system", "agent"]
ItemType = Literal["fact", "context", "user_hint"]
Cause = Literal["", "budget_exhausted", "preempted", "given"]
"""Why a goal is paused; `given` = it was created so, and is resumed by an event."""


class Goal(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A goal of the job; `deliverable` names the product it needs, empty = any."""

    goal_id: str
    priority: Billionths
    type: GoalType
    status: GoalStatus
    created_at: Instant
    created_at_tick: int
    deadline_ts: Instant | None
    origin: Origin
    metadata: str
    attempts: int
    repair_loops: int
    deliverable: str
    is_delivered: bool
    final_confidence: Billionths | None
    wm_ttl_ticks: int | None
    paused_because: Cause


class WmItem(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One item of working memory; `reference_ticks` are those still inside the window."""

    wm_id: str
    type: ItemType
    value: str
    ttl_ticks: int
    created_at: Instant
    created_at_tick: int
    references: int
    reference_ticks: tuple[int, ...]
    token_estimate: int


class CwmItem(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One promoted item; it leaves `ttl_ticks` ticks after its promotion."""

    wm_id: str
    type: ItemType
    value: str
    references: int
    last_reference_tick: int
    promoted_at_tick: int
    ttl_ticks: int
    token_estimate: int


class Cwm(Struct, frozen=True, forbid_unknown_fields=True):
    """The consolidated memory: its topic, its tokens, its items, most referenced first."""

    topic: str
    tokens_used: int
    items: tuple[CwmItem, ...]


class Attention(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The modulators, each in [0, 1]."""

    attention_gain: Billionths
    explore_bias: Billionths
    reward_signal: Billionths


class ResourceBudget(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The budget the policy allots to the job. INVARIANT: no tick changes it."""

    token_budget: int
    max_depth_allowed: int


class RecentFailure(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A node that failed."""

    node_id: str
    ts: Instant
    reason: str


class BrainState(Struct, frozen=True, forbid_unknown_fields=True):
    """The state of one job between two ticks; lists are newest first, goals in order of creation.

    `tick` is the number of the next tick, `sequence` the next free counter for ids and instants.
    """

    brainstate_id: str
    job_seed: str
    timestamp: Instant
    tick: int
    sequence: int
    goals: tuple[Goal, ...]
    wm: tuple[WmItem, ...]
    cwm: Cwm
    attention: Attention
    resource_budget: ResourceBudget
    tokens_consumed: int
    recent_failures: tuple[RecentFailure, ...]
    constants: Constants
    warnings: tuple[DefaultUsed, ...]
    last_updated: Instant


EMPTY_CWM = Cwm("", 0, ())
BRAINSTATE_FORM: Final = SnapshotForm("brainstate", 1, BrainState)
