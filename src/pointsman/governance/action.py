"""A request for something that lasts: who wants what done, to which target, and who must agree.

A request never changes. What becomes of it is told by later entries: see `action_state`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct

from pointsman.kernel.canonical import ContentId, Form
from pointsman.kernel.instant import SECOND, Instant

Approval = Literal["admin_single", "admin_plus_council_notice", "council_quorum"]
"""Who must agree: one admin; one admin, with the council told; a quorum of the council."""

ActionType = Literal[
    "sem_write",
    "sem_delete",
    "register_module",
    "set_module_status",
    "set_module_policy",
    "set_module_apt",
    "set_router_config",
    "workflow_branch",
]

Source = Literal["user", "system", "agent", "brainstate", "workflow"]

QUORUM: Final = 3
VOTE_WINDOW: Final = 24 * 3600 * SECOND
"""How long a request may be voted on and carried out, unless it says otherwise."""

SHORTEST_WINDOW: Final = SECOND
LONGEST_WINDOW: Final = 30 * 24 * 3600 * SECOND

MOST_EVIDENCE: Final = 64
LONGEST_TEXT: Final = 4000
LONGEST_NAME: Final = 200


class ActionRule(Struct, frozen=True):
    """What a type of action needs, and what it does; `is_high_risk` is what 000 calls so."""

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
    }
)
"""Which approval each type needs (companion §4.7). Published in the documentation."""


class Actor(Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody who asks, votes or acts: the id of the key, and the name the key was made for.

    Two keys made for one name are one person here: neither may vote beside the other.
    """

    id: str
    name: str
    role: str

    def is_same_as(self, other: Actor) -> bool:
        """Tell whether two are one person, as far as keys can tell."""
        return self.id == other.id or self.name == other.name


SYSTEM: Final = Actor("system", "system", "")
"""Who closes a request whose time is over, and writes down what votes came to."""


class Origin(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a request came from. `node_id` names the module that asked, where one did."""

    source: Source
    node_id: str
    job_id: str
    job_seed: str
    trace_id: str


BY_USER: Final = Origin("user", "", "", "", "")


class OptIn(Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody's word that personal data may be kept as it is, with the reason given."""

    by: Actor
    reason: str


class Finding(Struct, frozen=True, forbid_unknown_fields=True):
    """Personal data or a secret that was found in a request, and where; never the value."""

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
    origin: Origin
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
    found: tuple[Finding, ...]


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
    """Name what is to be done, whoever asks for it and however often."""
    return _SUBJECT_FORM.id(_Subject(action_type, target, payload_id))


def action_hash(request: ActionRequest) -> ContentId:
    """Name all that an approval binds: type, target, payload, requester, and this one request.

    INVARIANT: an approval of one request is no approval of another, though both want the same.
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


def approval_of(action_type: ActionType, target: str, origin: Origin) -> Approval:
    """Give who must agree; what a module wants done to itself is for the council."""
    if origin.node_id and origin.node_id == target:
        return "council_quorum"
    return ACTIONS[action_type].approval
