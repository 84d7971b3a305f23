"""The result of votes. A requester has no vote, other actors one; an abstention never counts.

A vote whose key is revoked before the votes have decided counts no longer.

Quorum is reached by approvals and rejections together (companion §4.7). The vote that reaches it
decides: more approvals than rejections carry the request, a tie rejects it. Without a quorum at the
deadline nothing was decided, and the request expires: a majority of too few is no approval.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from pointsman.governance.action import ActionRefusal, ActionRequest, Actor, Approval

Choice = Literal["approve", "reject", "abstain"]
Result = Literal["open", "approved", "rejected"]

VOTERS: dict[Approval, tuple[str, ...]] = {
    "admin_single": ("admin",),
    "admin_plus_council_notice": ("admin",),
    "council_quorum": ("council",),
}
"""The roles whose votes count for an approval."""


class Vote(Struct, frozen=True, forbid_unknown_fields=True):
    """One vote that counts, and the ledger entry it stands in."""

    vote_id: str
    by: Actor
    choice: Choice


class VoteTally(Struct, frozen=True):
    """The number of votes of each choice, and their result."""

    approve: int
    reject: int
    abstain: int
    needed: int
    result: Result


def votes_needed(request: ActionRequest) -> int:
    """Return how many approvals and rejections decide a request."""
    return request.quorum if request.required_approval_type == "council_quorum" else 1


def tally(request: ActionRequest, votes: Sequence[Vote]) -> VoteTally:
    """Count the accepted votes."""
    approve, reject, abstain = (
        sum(each.choice == choice for each in votes) for choice in ("approve", "reject", "abstain")
    )
    wanted = votes_needed(request)
    result: Result = "open"
    if approve + reject >= wanted:
        result = "approved" if approve > reject else "rejected"
    return VoteTally(approve, reject, abstain, wanted, result)


def vote_refusal(
    request: ActionRequest, votes: Sequence[Vote], by: Actor, action_hash: str
) -> ActionRefusal | None:
    """Return why an actor's vote would not count, or None where it would."""
    if by.role not in VOTERS[request.required_approval_type]:
        return ActionRefusal.NOT_A_VOTER
    if by.is_same_as(request.requester):
        return ActionRefusal.OWN_REQUEST
    if any(by.is_same_as(each.by) for each in votes):
        return ActionRefusal.ALREADY_VOTED
    if action_hash != request.action_hash:
        return ActionRefusal.OTHER_HASH
    return None if tally(request, votes).result == "open" else ActionRefusal.NOT_OPEN
