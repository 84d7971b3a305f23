"""Approvals of workflow branches: a request for each target that a guardrail wants approved.

A request is about one decision, one target and the exact values the decision read. Approved, it
admits that choice once. A rejected choice is not requested again before the deadline passes.
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
        """Return the status of the requests for some targets; a target without one gets one."""
        return tuple(
            self._find_or_request(decision_id, each, inputs, by, run_id) for each in targets
        )

    def has_changed(self, waited: Sequence[Approval]) -> bool:
        """Tell whether the status of a request has changed."""
        return any(
            self._current_status(self._approvals.state(each.request_id)) != each.status
            for each in waited
        )

    def claim(self, used: Sequence[Approval], by: Actor, evaluation_id: str) -> bool:
        """Claim approvals, all or none; False where another claim came first or time is over."""
        return self._approvals.claim([each.request_id for each in used], by, evaluation_id)

    def mark_used(self, used: Sequence[Approval], by: Actor, evaluation_id: str) -> None:
        """Record that the evaluation which claimed approvals is durable."""
        names = [each.request_id for each in used]
        self._approvals.mark_executed(names, by, evaluation_id, f"evaluation {evaluation_id}")

    def _find_or_request(
        self, decision_id: str, target: str, inputs: str, by: Actor, run_id: str
    ) -> Approval:
        wanted = _proposal(decision_id, target, inputs, run_id)
        subject = self._approvals.subject(wanted)
        known = self._approvals.about(subject)
        standing = [(status, each) for each in known if (status := self._current_status(each))]
        if standing:
            status, state = min(standing, key=lambda each: _ORDER.index(each[0]))
            return Approval(target, state.request.request_id, status)
        # Named by the number of earlier requests: two concurrent callers make one request.
        name = f"branch:{subject.removeprefix('sha256:')[:40]}:{len(known)}"
        made = self._approvals.request(replace(wanted, request_id=name), by)
        return Approval(target, made.request.request_id, "pending")

    def _current_status(self, state: ActionState) -> ApprovalStatus | None:
        """Return the status of a request, or None where it is over and another may be made."""
        match state.status:
            case "pending" | "approved":
                return state.status
            case "rejected" | "cancelled":
                return None if state.is_over(self._clock.now()) else "rejected"
        return None


def _proposal(decision_id: str, target: str, inputs: str, run_id: str) -> ActionProposal:
    return ActionProposal(
        "workflow_branch",
        {"decision_id": decision_id, "target": target, "inputs": inputs},
        f"the decision `{decision_id}` leads to `{target}`, which needs approval",
        origin=RequestOrigin("workflow", "", run_id, "", ""),
    )
