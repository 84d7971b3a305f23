"""The state of a request: a pure fold over its events, which alone says which event may follow.

Each event has its number within the request, so that order does not depend on clocks. An event that
may not happen in its place changes nothing and is listed as void. Two events with one number mean
that a process wrote past the lock: the request is disputed, and accepts no further event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from pointsman.governance.action import ActionRefusal, ActionRequest, Actor, action_hash, subject_of
from pointsman.governance.votes import Choice, Vote, VoteTally, tally, vote_refusal
from pointsman.kernel.canonical import Form
from pointsman.kernel.instant import Instant

ACTION: Final = "event.action."
REQUESTED: Final = ACTION + "requested"

StepKind = Literal[
    "voted",
    "withdrawn",
    "noticed",
    "approved",
    "rejected",
    "expired",
    "cancelled",
    "claimed",
    "executed",
    "failed",
]

Status = Literal[
    "pending",
    "approved",
    "rejected",
    "expired",
    "cancelled",
    "executing",
    "executed",
    "failed",
    "disputed",
]

OPEN: Final = ("pending", "approved")
"""The states that may still expire, and that the requester or an admin may cancel."""


class ActionStep(Struct, frozen=True, forbid_unknown_fields=True):
    """The payload of every event after the request; `number` counts from 1 within the request.

    `choice` is for votes. `claim` names the execution, in `claimed`, `executed` and `failed`; in
    `withdrawn` it is the key whose vote counts no longer.
    """

    request_id: str
    number: int
    by: Actor
    action_hash: str
    choice: Choice | None
    claim: str
    note: str


STEP_FORM = Form(ActionStep)


class ActionEvent(Struct, frozen=True):
    """A step as it stands in the ledger: which kind, under which id, at which instant."""

    kind: StepKind
    id: str
    at: Instant
    step: ActionStep


class VoidEvent(Struct, frozen=True):
    """An event that changed nothing, and why."""

    event: ActionEvent
    reason: ActionRefusal


class ActionState(Struct, frozen=True):
    """A request and its state.

    `executing` after its executor died means that it is unknown whether it was done: a human has
    it executed again, which every effect recognises as the same, or writes it off.
    """

    request: ActionRequest
    status: Status
    votes: tuple[Vote, ...] = ()
    withdrawn: tuple[Vote, ...] = ()
    """Votes that counted until their keys were revoked."""
    is_noticed: bool = False
    claim: str = ""
    claimed_at: Instant | None = None
    ended_at: Instant | None = None
    note: str = ""
    events: int = 0
    void: tuple[VoidEvent, ...] = ()

    @property
    def tally(self) -> VoteTally:
        """How the votes stand."""
        return tally(self.request, self.votes)

    @property
    def approvers(self) -> tuple[Actor, ...]:
        """The actors who approved."""
        return tuple(each.by for each in self.votes if each.choice == "approve")

    def status_at(self, now: Instant) -> Status:
        """Return the status at an instant: an open request past its deadline has expired."""
        return "expired" if self.status in OPEN and self.is_over(now) else self.status

    def is_over(self, now: Instant) -> bool:
        """Tell whether the deadline has passed; at `expires_at` it has."""
        return now >= self.request.expires_at


def fold_action(request: ActionRequest, events: Iterable[ActionEvent]) -> ActionState:
    """Return the state of a request. Events may come in any order: their numbers count."""
    state = ActionState(request, "pending")
    if not _is_consistent(request):
        return replace(state, status="disputed", note="its hash was made of another request")
    for event in sorted(events, key=lambda each: each.step.number):
        if event.step.number != state.events + 1:
            return replace(state, status="disputed", note=f"event {state.events + 1} is not one")
        reason = refusal(state, event)
        state = replace(state, events=state.events + 1)
        if reason is None:
            state = _TRANSITIONS[event.kind](state, event)
        else:
            state = replace(state, void=(*state.void, VoidEvent(event, reason)))
    return state


def _is_consistent(request: ActionRequest) -> bool:
    subject = subject_of(request.action_type, request.target, request.payload_id)
    return subject == request.subject and action_hash(request) == request.action_hash


def refusal(state: ActionState, event: ActionEvent) -> ActionRefusal | None:
    """Return why an event may not happen to a request now, or None where it may."""
    if event.step.action_hash != state.request.action_hash:
        return ActionRefusal.OTHER_HASH
    return _REFUSALS[event.kind](state, event)


def _vote_refusal(state: ActionState, event: ActionEvent) -> ActionRefusal | None:
    if state.status != "pending":
        return ActionRefusal.NOT_OPEN
    if state.is_over(event.at):
        return ActionRefusal.TOO_LATE
    if event.step.choice is None:
        return ActionRefusal.NO_CHOICE
    return vote_refusal(state.request, state.votes, event.step.by, event.step.action_hash)


def _withdrawal_refusal(state: ActionState, event: ActionEvent) -> ActionRefusal | None:
    """A vote counts until its key is revoked; a result reached by then stays."""
    if state.status != "pending" or state.tally.result != "open":
        return ActionRefusal.NOT_OPEN
    has_voted = any(each.by.id == event.step.claim for each in state.votes)
    return None if has_voted else ActionRefusal.NO_VOTE


def _notice_refusal(state: ActionState, _event: ActionEvent) -> ActionRefusal | None:
    return None if state.status == "pending" else ActionRefusal.NOT_OPEN


def _approval_refusal(state: ActionState, event: ActionEvent) -> ActionRefusal | None:
    if state.status != "pending":
        return ActionRefusal.NOT_OPEN
    if state.is_over(event.at):
        return ActionRefusal.TOO_LATE
    if state.tally.result != "approved":
        return ActionRefusal.NOT_DECIDED
    wants_notice = state.request.required_approval_type == "admin_plus_council_notice"
    return ActionRefusal.NOT_NOTICED if wants_notice and not state.is_noticed else None


def _rejection_refusal(state: ActionState, _event: ActionEvent) -> ActionRefusal | None:
    if state.status != "pending":
        return ActionRefusal.NOT_OPEN
    return None if state.tally.result == "rejected" else ActionRefusal.NOT_DECIDED


def _expiry_refusal(state: ActionState, event: ActionEvent) -> ActionRefusal | None:
    if state.status not in OPEN:
        return ActionRefusal.NOT_OPEN
    return None if state.is_over(event.at) else ActionRefusal.TOO_EARLY


def _cancel_refusal(state: ActionState, event: ActionEvent) -> ActionRefusal | None:
    if state.status not in OPEN:
        return ActionRefusal.NOT_OPEN
    by = event.step.by
    is_allowed = by.role == "admin" or by.id == state.request.requester.id
    return None if is_allowed else ActionRefusal.NOT_ALLOWED


def _claim_refusal(state: ActionState, event: ActionEvent) -> ActionRefusal | None:
    """INVARIANT: at most one claim is ever accepted, so that no execution begins twice."""
    if state.claim:
        return ActionRefusal.OTHER_CLAIM
    if state.status != "approved":
        return ActionRefusal.NOT_APPROVED
    return ActionRefusal.TOO_LATE if state.is_over(event.at) else None


def _end_refusal(state: ActionState, event: ActionEvent) -> ActionRefusal | None:
    if state.status != "executing":
        return ActionRefusal.NOT_CLAIMED
    return None if event.step.claim == state.claim else ActionRefusal.OTHER_CLAIM


def _apply_vote(state: ActionState, event: ActionEvent) -> ActionState:
    choice = event.step.choice or "abstain"
    return replace(state, votes=(*state.votes, Vote(event.id, event.step.by, choice)))


def _apply_withdrawal(state: ActionState, event: ActionEvent) -> ActionState:
    gone = tuple(each for each in state.votes if each.by.id == event.step.claim)
    kept = tuple(each for each in state.votes if each.by.id != event.step.claim)
    return replace(state, votes=kept, withdrawn=(*state.withdrawn, *gone))


def _apply_notice(state: ActionState, _event: ActionEvent) -> ActionState:
    return replace(state, is_noticed=True)


def _apply_approval(state: ActionState, _event: ActionEvent) -> ActionState:
    return replace(state, status="approved")


def _apply_claim(state: ActionState, event: ActionEvent) -> ActionState:
    return replace(state, status="executing", claim=event.step.claim, claimed_at=event.at)


def _apply_end(status: Status) -> Callable[[ActionState, ActionEvent], ActionState]:
    return lambda state, event: replace(
        state, status=status, ended_at=event.at, note=event.step.note
    )


_REFUSALS: Final[dict[StepKind, Callable[[ActionState, ActionEvent], ActionRefusal | None]]] = {
    "voted": _vote_refusal,
    "withdrawn": _withdrawal_refusal,
    "noticed": _notice_refusal,
    "approved": _approval_refusal,
    "rejected": _rejection_refusal,
    "expired": _expiry_refusal,
    "cancelled": _cancel_refusal,
    "claimed": _claim_refusal,
    "executed": _end_refusal,
    "failed": _end_refusal,
}

_TRANSITIONS: Final[dict[StepKind, Callable[[ActionState, ActionEvent], ActionState]]] = {
    "voted": _apply_vote,
    "withdrawn": _apply_withdrawal,
    "noticed": _apply_notice,
    "approved": _apply_approval,
    "rejected": _apply_end("rejected"),
    "expired": _apply_end("expired"),
    "cancelled": _apply_end("cancelled"),
    "claimed": _apply_claim,
    "executed": _apply_end("executed"),
    "failed": _apply_end("failed"),
}
