"""What the routes of actions and semantic memory take and answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from pointsman.approvals.view import ActionFields, Text, VoteFields
from pointsman.audit.turn_shapes import InstantText
from pointsman.governance.action import ActionType, Approval
from pointsman.governance.votes import Choice

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
    """A value taken out of a request before it was recorded."""

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
