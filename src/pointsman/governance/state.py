"""What became of a request: a pure fold over its events, which alone says what may happen next.

Each event has its number within the request, so that order does not hang on clocks. An event that
may not happen where it stands changes nothing and is listed as void. Two events with one number
mean that somebody wrote past the lock: the request is disputed, and nothing more happens to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from pointsman.governance.action import ActionRequest, Actor, action_hash, subject_of
from pointsman.governance.refusal import Refusal
from pointsman.governance.votes import Choice, Tally, Vote, tally, vote_refusal
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
"""What time may still end, and its requester or an admin may call off."""


class Step(Struct, frozen=True, forbid_unknown_fields=True):
    """The payload of every event after the request; `number` counts from 1 within the request.

    `choice` is for votes. `claim` names who carries it out, in `claimed`, `executed` and `failed`;
    in `withdrawn` it is the key whose vote counts no longer.
    """

    request_id: str
    number: int
    by: Actor
    action_hash: str
    choice: Choice | None
    claim: str
    note: str


STEP_FORM = Form(Step)


class Event(Struct, frozen=True):
    """A step as it stands in the ledger: which kind, under which id, at which instant."""

    kind: StepKind
    id: str
    at: Instant
    step: Step


class Void(Struct, frozen=True):
    """An event that changed nothing, and why."""

    event: Event
    reason: Refusal


class ActionState(Struct, frozen=True):
    """A request and what became of it.

    `executing` after its executor died means nobody knows whether it was done: a human looks, and
    either has it carried out again, which every effector takes for the same, or writes it off.
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
    void: tuple[Void, ...] = ()

    @property
    def tally(self) -> Tally:
        """How the votes stand."""
        return tally(self.request, self.votes)

    @property
    def approvers(self) -> tuple[Actor, ...]:
        """Who said yes."""
        return tuple(each.by for each in self.votes if each.choice == "approve")

    def status_at(self, now: Instant) -> Status:
        """Give the status at an instant: what is open when its time is over has expired."""
        return "expired" if self.status in OPEN and self.is_over(now) else self.status

    def is_over(self, now: Instant) -> bool:
        """Tell whether the request's time is over; at `expires_at` it is."""
        return now >= self.request.expires_at


def folded(request: ActionRequest, events: Iterable[Event]) -> ActionState:
    """Give what became of a request. Events may come in any order: their numbers say theirs."""
    state = ActionState(request, "pending")
    if not _is_whole(request):
        return replace(state, status="disputed", note="its hash was made of another request")
    for event in sorted(events, key=lambda each: each.step.number):
        if event.step.number != state.events + 1:
            return replace(state, status="disputed", note=f"event {state.events + 1} is not one")
        reason = refusal(state, event)
        state = replace(state, events=state.events + 1)
        if reason is None:
            state = _APPLIED[event.kind](state, event)
        else:
            state = replace(state, void=(*state.void, Void(event, reason)))
    return state


def _is_whole(request: ActionRequest) -> bool:
    subject = subject_of(request.action_type, request.target, request.payload_id)
    return subject == request.subject and action_hash(request) == request.action_hash


def refusal(state: ActionState, event: Event) -> Refusal | None:
    """Say why an event may not happen to a request now, or nothing where it may."""
    if event.step.action_hash != state.request.action_hash:
        return Refusal.OTHER_HASH
    return _REFUSALS[event.kind](state, event)


def _vote_refusal(state: ActionState, event: Event) -> Refusal | None:
    if state.status != "pending":
        return Refusal.NOT_OPEN
    if state.is_over(event.at):
        return Refusal.TOO_LATE
    if event.step.choice is None:
        return Refusal.NO_CHOICE
    return vote_refusal(state.request, state.votes, event.step.by, event.step.action_hash)


def _withdrawal_refusal(state: ActionState, event: Event) -> Refusal | None:
    """A vote counts until its key is revoked; what votes have come to by then stands."""
    if state.status != "pending" or state.tally.result != "open":
        return Refusal.NOT_OPEN
    has_voted = any(each.by.id == event.step.claim for each in state.votes)
    return None if has_voted else Refusal.NO_VOTE


def _notice_refusal(state: ActionState, _event: Event) -> Refusal | None:
    return None if state.status == "pending" else Refusal.NOT_OPEN


def _approval_refusal(state: ActionState, event: Event) -> Refusal | None:
    if state.status != "pending":
        return Refusal.NOT_OPEN
    if state.is_over(event.at):
        return Refusal.TOO_LATE
    if state.tally.result != "approved":
        return Refusal.NOT_DECIDED
    wants_notice = state.request.required_approval_type == "admin_plus_council_notice"
    return Refusal.NOT_NOTICED if wants_notice and not state.is_noticed else None


def _rejection_refusal(state: ActionState, _event: Event) -> Refusal | None:
    if state.status != "pending":
        return Refusal.NOT_OPEN
    return None if state.tally.result == "rejected" else Refusal.NOT_DECIDED


def _expiry_refusal(state: ActionState, event: Event) -> Refusal | None:
    if state.status not in OPEN:
        return Refusal.NOT_OPEN
    return None if state.is_over(event.at) else Refusal.TOO_EARLY


def _cancel_refusal(state: ActionState, event: Event) -> Refusal | None:
    if state.status not in OPEN:
        return Refusal.NOT_OPEN
    by = event.step.by
    is_allowed = by.role == "admin" or by.id == state.request.requester.id
    return None if is_allowed else Refusal.NOT_ALLOWED


def _claim_refusal(state: ActionState, event: Event) -> Refusal | None:
    """INVARIANT: one claim at most is ever let in, so that nothing is begun twice."""
    if state.claim:
        return Refusal.OTHER_CLAIM
    if state.status != "approved":
        return Refusal.NOT_APPROVED
    return Refusal.TOO_LATE if state.is_over(event.at) else None


def _end_refusal(state: ActionState, event: Event) -> Refusal | None:
    if state.status != "executing":
        return Refusal.NOT_CLAIMED
    return None if event.step.claim == state.claim else Refusal.OTHER_CLAIM


def _voted(state: ActionState, event: Event) -> ActionState:
    choice = event.step.choice or "abstain"
    return replace(state, votes=(*state.votes, Vote(event.id, event.step.by, choice)))


def _withdrawn(state: ActionState, event: Event) -> ActionState:
    gone = tuple(each for each in state.votes if each.by.id == event.step.claim)
    kept = tuple(each for each in state.votes if each.by.id != event.step.claim)
    return replace(state, votes=kept, withdrawn=(*state.withdrawn, *gone))


def _noticed(state: ActionState, _event: Event) -> ActionState:
    return replace(state, is_noticed=True)


def _approved(state: ActionState, _event: Event) -> ActionState:
    return replace(state, status="approved")


def _claimed(state: ActionState, event: Event) -> ActionState:
    return replace(state, status="executing", claim=event.step.claim, claimed_at=event.at)


def _ended(status: Status) -> Callable[[ActionState, Event], ActionState]:
    return lambda state, event: replace(
        state, status=status, ended_at=event.at, note=event.step.note
    )


_REFUSALS: Final[dict[StepKind, Callable[[ActionState, Event], Refusal | None]]] = {
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

_APPLIED: Final[dict[StepKind, Callable[[ActionState, Event], ActionState]]] = {
    "voted": _voted,
    "withdrawn": _withdrawn,
    "noticed": _noticed,
    "approved": _approved,
    "rejected": _ended("rejected"),
    "expired": _ended("expired"),
    "cancelled": _ended("cancelled"),
    "claimed": _claimed,
    "executed": _ended("executed"),
    "failed": _ended("failed"),
}
