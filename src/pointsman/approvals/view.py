"""Action requests over the wire: bodies that are read, and the JSON that is returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from pointsman.access.roles import Access
from pointsman.agents.rules.actions import read_recorded_payload
from pointsman.approvals.proposal import ActionProposal
from pointsman.approvals.record import ActionRecord
from pointsman.governance.action import (
    LONGEST_TEXT,
    MOST_EVIDENCE,
    ActionType,
    RequestOrigin,
    Source,
)
from pointsman.governance.votes import Choice, Vote
from pointsman.kernel.document import Json
from pointsman.kernel.instant import SECOND, Instant, instant_text
from pointsman.signals.redaction import redact

Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
Id = Annotated[str, Meta(max_length=200)]
Anything = Annotated[object, Meta(extra_json_schema={"description": "any value"})]

_NUMBERS = msgspec.json.Encoder(decimal_format="number")


class GivenOrigin(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a request comes from; the key says who asks, not this."""

    source: Source = "user"
    node_id: Id = ""
    job_id: Id = ""
    job_seed: Id = ""


class ActionFields(Struct, frozen=True, forbid_unknown_fields=True):
    """An action to request."""

    action_type: ActionType
    payload: dict[str, Anything]
    justification: Text = ""
    evidence: Annotated[tuple[Text, ...], Meta(max_length=MOST_EVIDENCE)] = ()
    origin: GivenOrigin = GivenOrigin()
    window_s: Annotated[int, Meta(ge=1, le=30 * 24 * 3600)] = 24 * 3600
    opt_in: Text = ""


class VoteFields(Struct, frozen=True, forbid_unknown_fields=True):
    """A vote, and the action it is about."""

    vote: Choice
    action_hash: Id
    note: Text = ""


def to_proposal(given: ActionFields, payload: Json, trace_id: str) -> ActionProposal:
    """Return the proposal of a body; `payload` is as it was read, where its numbers are exact."""
    origin = given.origin
    return ActionProposal(
        given.action_type,
        payload,
        given.justification,
        given.evidence,
        RequestOrigin(origin.source, origin.node_id, origin.job_id, origin.job_seed, trace_id),
        window=given.window_s * SECOND,
        opt_in=given.opt_in,
    )


def action_value(record: ActionRecord, now: Instant, access: Access) -> dict[str, object]:
    """Return a request as JSON; redacted, it has no payload, no names and no unchecked text."""
    state, request = record.state, record.state.request
    is_full = access == "allowed"
    said = str if is_full else redact
    tally = state.tally
    return {
        "request_id": request.request_id,
        "action_id": request.request_id,
        "action_type": request.action_type,
        "target": said(request.target),
        "status": state.status_at(now),
        "required_approval_type": request.required_approval_type,
        "action_hash": request.action_hash,
        "payload_id": request.payload_id,
        "payload": _plain(record.payload) if is_full else None,
        "origin": request.origin if is_full else {"source": request.origin.source},
        "requester": request.requester.id,
        "requester_name": request.requester.name if is_full else None,
        "justification": said(request.justification),
        "evidence": [said(each) for each in request.evidence],
        "created_at": instant_text(request.created_at),
        "timestamp_seeded": None if request.seeded_at is None else instant_text(request.seeded_at),
        "expires_at": instant_text(request.expires_at),
        "votes": _votes(state.votes if is_full else ()),
        "withdrawn": _votes(state.withdrawn if is_full else ()),
        "tally": {
            "approve": tally.approve,
            "reject": tally.reject,
            "abstain": tally.abstain,
            "needed": tally.needed,
        },
        "council_noticed": state.is_noticed,
        "note": said(state.note),
        "withheld": [
            {"place": each.place, "type": each.kind, "hmac": each.digest, "reason": each.reason}
            for each in request.found
            if not each.is_kept
        ],
        "opt_in": request.opt_in is not None,
        "ended_at": None if state.ended_at is None else instant_text(state.ended_at),
    }


def _votes(votes: Sequence[Vote]) -> list[dict[str, str]]:
    return [
        {"vote_id": each.vote_id, "member_id": each.by.id, "vote": each.choice} for each in votes
    ]


def _plain(payload: bytes) -> object:
    """Return a payload with ordinary JSON numbers."""
    return msgspec.Raw(_NUMBERS.encode(read_recorded_payload(payload)))
