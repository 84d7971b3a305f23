"""An action request: the lasting effect that is wanted, its target, and the approval it needs.

A request never changes. Later entries tell its course: see `state`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct

from pointsman.kernel.canonical import ContentId, Form
from pointsman.kernel.codes import Meaning
from pointsman.kernel.instant import SECOND, Instant

Approval = Literal["admin_single", "admin_plus_council_notice", "council_quorum"]
"""Who must agree: one admin; one admin, with the council notified; a quorum of the council."""

ActionType = Literal[
    "sem_write",
    "sem_delete",
    "register_module",
    "set_module_status",
    "set_module_policy",
    "set_module_apt",
    "set_router_config",
    "workflow_branch",
    "lift_stop",
]

Source = Literal["user", "system", "agent", "brainstate", "workflow"]

QUORUM: Final = 3
VOTE_WINDOW: Final = 24 * 3600 * SECOND
"""How long a request may be voted on and executed, unless it says otherwise."""

SHORTEST_WINDOW: Final = SECOND
LONGEST_WINDOW: Final = 30 * 24 * 3600 * SECOND

MOST_EVIDENCE: Final = 64
LONGEST_TEXT: Final = 4000
LONGEST_NAME: Final = 200


class ActionRule(Struct, frozen=True):
    """The approval a type of action needs, and its meaning; `is_high_risk` as 000 defines it."""

    approval: Approval
    meaning: str

    @property
    def is_high_risk(self) -> bool:
        """Whether only the council may let it happen."""
        return self.approval == "council_quorum"


ACTIONS: Final[Mapping[ActionType, ActionRule]] = MappingProxyType(
    {
        "sem_write": ActionRule("council_quorum", "write a value into semantic memory"),
        "sem_delete": ActionRule("council_quorum", "remove a value from semantic memory"),
        "register_module": ActionRule("council_quorum", "add a module to the self-representation"),
        "set_module_status": ActionRule("council_quorum", "quarantine a module or let it back in"),
        "set_module_policy": ActionRule("council_quorum", "change what a module may do"),
        "set_module_apt": ActionRule(
            "admin_plus_council_notice", "set a module's trust by hand, over its record"
        ),
        "set_router_config": ActionRule(
            "council_quorum", "change weights, thresholds or limits of the router"
        ),
        "workflow_branch": ActionRule(
            "admin_single", "let a workflow go where a guardrail wants approval, once"
        ),
        "lift_stop": ActionRule("admin_single", "let model calls be made again that were stopped"),
    }
)
"""Which approval each type needs (companion §4.7). Published in the documentation."""


class Actor(Struct, frozen=True, forbid_unknown_fields=True):
    """A person or program that requests, votes or acts: the key's id, and the name it is made for.

    Two keys made for one name are one actor: neither may vote beside the other.
    """

    id: str
    name: str
    role: str

    def is_same_as(self, other: Actor) -> bool:
        """Tell whether two actors are one, as far as keys can tell."""
        return self.id == other.id or self.name == other.name


SYSTEM: Final = Actor("system", "system", "")
"""The actor that closes expired requests and records the results of votes."""


class RequestOrigin(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a request came from. `node_id` names the module that asked, where one did."""

    source: Source
    node_id: str
    job_id: str
    job_seed: str
    trace_id: str


BY_USER: Final = RequestOrigin("user", "", "", "", "")


class OptIn(Struct, frozen=True, forbid_unknown_fields=True):
    """An actor's consent that personal data is stored as it is, with the reason."""

    by: Actor
    reason: str


class SensitiveFinding(Struct, frozen=True, forbid_unknown_fields=True):
    """Personal data or a secret found in a request, and its place; never the value."""

    place: str
    kind: str
    digest: str
    reason: str
    is_kept: bool


class ActionRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """One request, as it is recorded; its payload is attached to the entry under `payload_id`.

    `seeded_at` is the request's time by its job's seed, where a job made it.
    """

    request_id: str
    action_type: ActionType
    target: str
    payload_id: ContentId
    requester: Actor
    origin: RequestOrigin
    justification: str
    evidence: tuple[str, ...]
    required_approval_type: Approval
    quorum: int
    created_at: Instant
    seeded_at: Instant | None
    expires_at: Instant
    subject: ContentId
    action_hash: ContentId
    opt_in: OptIn | None
    found: tuple[SensitiveFinding, ...]


REQUEST_FORM = Form(ActionRequest)


class _Subject(Struct, frozen=True, forbid_unknown_fields=True):
    action_type: ActionType
    target: str
    payload_id: ContentId


class _Bound(Struct, frozen=True, forbid_unknown_fields=True):
    request_id: str
    subject: ContentId
    requester: Actor
    required_approval_type: Approval
    quorum: int
    expires_at: Instant


_SUBJECT_FORM = Form(_Subject)
_BOUND_FORM = Form(_Bound)


def subject_of(action_type: ActionType, target: str, payload_id: ContentId) -> ContentId:
    """Return the id of an effect, the same for every request for it."""
    return _SUBJECT_FORM.id(_Subject(action_type, target, payload_id))


def action_hash(request: ActionRequest) -> ContentId:
    """Return the id of all that an approval binds: type, target, payload, requester, request.

    INVARIANT: an approval of one request is no approval of another with the same subject.
    """
    subject = subject_of(request.action_type, request.target, request.payload_id)
    return _BOUND_FORM.id(
        _Bound(
            request.request_id,
            subject,
            request.requester,
            request.required_approval_type,
            request.quorum,
            request.expires_at,
        )
    )


def approval_of(action_type: ActionType, target: str, origin: RequestOrigin) -> Approval:
    """Return the approval an action needs; a module's action on itself needs the council."""
    if origin.node_id and origin.node_id == target:
        return "council_quorum"
    return ACTIONS[action_type].approval


class ActionRefusal(Meaning):
    """One reason; `meaning` is the sentence the documentation shows."""

    OWN_REQUEST = "action.own_request", "whoever asks for an action has no vote on it"
    NOT_A_VOTER = "action.not_a_voter", "this role has no vote on this request"
    ALREADY_VOTED = "action.already_voted", "this principal has voted on this request before"
    NO_VOTE = "action.no_vote", "no vote of this key counts on this request"
    NO_CHOICE = "action.no_choice", "the vote says neither yes nor no nor abstain"
    OTHER_HASH = "action.other_hash", "this names another action than the one requested"
    NOT_OPEN = "action.not_open", "the request is not open any more"
    TOO_LATE = "action.too_late", "the request's time is over"
    TOO_EARLY = "action.too_early", "the request's time is not over yet"
    NOT_DECIDED = "action.not_decided", "the votes do not come to this"
    NOT_NOTICED = "action.not_noticed", "the council was not told yet"
    NOT_APPROVED = "action.not_approved", "the request is not approved"
    NOT_CLAIMED = "action.not_claimed", "nobody has begun to carry the request out"
    OTHER_CLAIM = "action.other_claim", "somebody else has begun to carry the request out"
    NOT_ALLOWED = "action.not_allowed", "only its requester or an admin may call a request off"
    NOT_HERE = "action.not_here", "this is carried out where the workflow decides"
