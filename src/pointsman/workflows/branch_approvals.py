"""Approval of where a workflow goes: a request for each target a guardrail wants a yes to.

A request is about one decision, one target and the very values the decision looked at. Approved, it
lets that through once. What was rejected is not asked for again before its time is over.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pointsman.approvals.approvals import Approvals
from pointsman.approvals.proposal import ActionProposal
from pointsman.branches.facts import Approval, ApprovalStatus
from pointsman.governance.action import Actor, RequestOrigin
from pointsman.governance.state import ActionState
from pointsman.kernel.instant import Clock

_ORDER: tuple[ApprovalStatus, ...] = ("approved", "pending", "rejected")


class BranchApprovals:
    """Finds, makes and uses up the requests of a home's workflow decisions."""

    def __init__(self, approvals: Approvals, clock: Clock) -> None:
        self._approvals = approvals
        self._clock = clock

    def gather(
        self, decision_id: str, targets: Sequence[str], inputs: str, by: Actor, run_id: str
    ) -> tuple[Approval, ...]:
        """Give how the requests for some targets stand; for a target without one, make it."""
        return tuple(self._found(decision_id, each, inputs, by, run_id) for each in targets)

    def has_news(self, waited: Sequence[Approval]) -> bool:
        """Tell whether a request stands otherwise than it did."""
        return any(
            self._standing(self._approvals.state(each.request_id)) != each.status for each in waited
        )

    def claim(self, used: Sequence[Approval], by: Actor, evaluation_id: str) -> bool:
        """Use up approvals, all or none; False where somebody was first or their time is over."""
        return self._approvals.claim([each.request_id for each in used], by, evaluation_id)

    def mark_used(self, used: Sequence[Approval], by: Actor, evaluation_id: str) -> None:
        """Record that the evaluation which used approvals up is durable."""
        names = [each.request_id for each in used]
        self._approvals.mark_executed(names, by, evaluation_id, f"evaluation {evaluation_id}")

    def _found(
        self, decision_id: str, target: str, inputs: str, by: Actor, run_id: str
    ) -> Approval:
        wanted = _wanted(decision_id, target, inputs, run_id)
        subject = self._approvals.subject(wanted)
        known = self._approvals.about(subject)
        standing = [(status, each) for each in known if (status := self._standing(each))]
        if standing:
            status, state = min(standing, key=lambda each: _ORDER.index(each[0]))
            return Approval(target, state.request.request_id, status)
        # Named by how many there were: two who ask at once make one request.
        name = f"branch:{subject.removeprefix('sha256:')[:40]}:{len(known)}"
        made = self._approvals.request(replace(wanted, request_id=name), by)
        return Approval(target, made.request.request_id, "pending")

    def _standing(self, state: ActionState) -> ApprovalStatus | None:
        """Give how a request stands, or nothing where it is over and another may be made."""
        match state.status:
            case "pending" | "approved":
                return state.status
            case "rejected" | "cancelled":
                return None if state.is_over(self._clock.now()) else "rejected"
        return None


def _wanted(decision_id: str, target: str, inputs: str, run_id: str) -> ActionProposal:
    return ActionProposal(
        "workflow_branch",
        {"decision_id": decision_id, "target": target, "inputs": inputs},
        f"the decision `{decision_id}` leads to `{target}`, which needs approval",
        origin=RequestOrigin("workflow", "", run_id, "", ""),
    )
