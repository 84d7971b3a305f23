"""What the routes of sessions take and answer."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from pointsman.audit.turn_shapes import InstantText
from pointsman.gateway.api.shapes import Behind, Text


class TaintRow(Struct, frozen=True):
    """Why a session stays on this machine."""

    turn_id: str
    rule_id: str
    since: InstantText


class SessionRow(Struct, frozen=True):
    """A session as its latest turns show it; costs are those on record."""

    session_id: str
    first_at: InstantText
    last_at: InstantText
    turns: int
    fallbacks: int
    model: str
    model_switches: int
    pinned_model: str | None
    taint: TaintRow | None
    calls: int
    cost_usd: str


class SessionsAnswer(Struct, frozen=True):
    """Sessions, the latest first, over so many of the latest turns."""

    sessions: tuple[SessionRow, ...]
    turns_looked_at: int


class PinBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The model that a session is bound to: an id or an alias."""

    model: Text


class PinAnswer(Struct, frozen=True):
    """The pin of a session; none when it was taken away."""

    session_id: str
    pinned_model: str | None


class ClearTaintBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Why a session may leave this machine again."""

    reason: Text


class ClearTaintAnswer(Struct, frozen=True):
    """The taint that was cleared."""

    session_id: str
    turn_id: str
    rule_id: str


class ModelSpent(Struct, frozen=True):
    """What one model did in a session."""

    model: str
    turns: int
    calls: int
    cost_microusd: int
    input_tokens: int
    output_tokens: int


class SessionNode(Struct, frozen=True):
    """A session with its workers; a worker's cost is not within its planner's."""

    session_id: str
    first_at: InstantText | None
    last_at: InstantText | None
    is_worker: bool
    turns: int
    fallbacks: int
    calls: int
    cost_microusd: int
    cost_with_workers_microusd: int
    models: tuple[ModelSpent, ...]
    workers: tuple[Annotated[dict[str, Any], Meta(description="a session of the same shape")], ...]


class SessionAnswer(Struct, frozen=True):
    """One session: its place in the tree of planners and workers."""

    session: SessionNode
    parent: str | None
    behind: Behind
