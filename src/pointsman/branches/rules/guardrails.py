"""Guardrails: pure checks of targets and weights that may stop a choice. Companion §3.6."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from msgspec import Struct

from pointsman.branches.facts import Approval, BranchFacts
from pointsman.branches.policy import Case, Decision, Guardrail
from pointsman.branches.trace import HELD, GuardrailCheck, Verdict

_ORDER: tuple[Verdict, ...] = ("block", "escalate", "ask", "warn", "pass")
_VERDICTS: dict[str, Verdict] = {
    "block": "block",
    "escalate": "escalate",
    "ask": "ask",
    "warn": "warn",
    "log": "pass",
}


_APPROVAL = "requires_approval"


class GuardrailVerdict(Struct, frozen=True):
    """All checks, their verdict, and where a choice that is held back goes instead."""

    checks: tuple[GuardrailCheck, ...]
    verdict: Verdict
    instead: tuple[str, ...]
    approval_required: tuple[str, ...]


NOTHING = GuardrailVerdict((), "pass", (), ())


class KnownApprovals(Struct, frozen=True):
    """The approved targets, and the requests to approve others."""

    approved: tuple[str, ...]
    requests: tuple[Approval, ...]

    def to(self, target: str) -> bool:
        """Tell whether a target is approved."""
        return target in self.approved or any(
            each.target == target and each.status == "approved" for each in self.requests
        )

    def status_text(self, target: str) -> str:
        """Return the approval status of a target as text, with its request."""
        found = next((each for each in self.requests if each.target == target), None)
        if target in self.approved or found is None:
            return "was approved" if self.to(target) else "needs approval"
        request = f"request `{found.request_id}`"
        if found.status == "approved":
            return f"was approved by {request}"
        return f"needs approval: {request} is {found.status}"


NO_APPROVALS = KnownApprovals((), ())


def known_approvals(facts: BranchFacts) -> KnownApprovals:
    """Return the approvals that the facts hold."""
    return KnownApprovals(facts.approved, facts.approvals)


def judge_choice(
    decision: Decision, targets: Sequence[str], yes: KnownApprovals
) -> GuardrailVerdict:
    """Check a choice against every guardrail."""
    if not decision.guardrails:
        return NOTHING
    checks = [
        check for each in decision.guardrails for check in _checks(each, decision, targets, yes)
    ]
    failed = [check for check in checks if not check.passed]
    verdicts = [_verdict(each) for each in failed]
    verdict = next(each for each in _ORDER if each in (*verdicts, "pass"))
    deciding = [each for each, found in zip(failed, verdicts, strict=True) if found == verdict]
    # A way round that needs approval itself is none.
    instead = next(
        (
            each.escalation_target
            for each in deciding
            if each.escalation_target is not None
            and not _to_approve(decision, (each.escalation_target,), yes)
        ),
        None,
    )
    return GuardrailVerdict(
        tuple(checks),
        verdict,
        () if instead is None else (instead,),
        _to_approve(decision, targets, yes),
    )


def _verdict(failed: GuardrailCheck) -> Verdict:
    """Return what a failed check comes to; a target that needs approval is always held back."""
    verdict = _VERDICTS[failed.action]
    is_weaker = failed.check_name == _APPROVAL and verdict not in HELD
    return "ask" if is_weaker else verdict


def _to_approve(decision: Decision, targets: Sequence[str], yes: KnownApprovals) -> tuple[str, ...]:
    asking = [each for each in decision.guardrails if each.type == _APPROVAL]
    found = [t for t in targets if not yes.to(t) and any(t in e.targets for e in asking)]
    return tuple(dict.fromkeys(found))


def _checks(
    guardrail: Guardrail, decision: Decision, targets: Sequence[str], yes: KnownApprovals
) -> Iterator[GuardrailCheck]:
    if guardrail.type == "weight_bounds":
        for case in decision.cases:
            passed, message = _check_weight(guardrail, case)
            yield _check(guardrail, decision, message, passed=passed)
        return
    for target in targets:
        passed, message = _looked_at(guardrail, target, yes)
        yield _check(guardrail, decision, message, passed=passed)


def _looked_at(guardrail: Guardrail, target: str, yes: KnownApprovals) -> tuple[bool, str]:
    is_named = target in guardrail.targets
    match guardrail.type:
        case "no_disabled_targets":
            return not is_named, f"target `{target}` is {'disabled' if is_named else 'allowed'}"
        case "known_targets":
            return is_named, f"target `{target}` is {'known' if is_named else 'not known'}"
    if not is_named:
        return True, f"target `{target}` needs no approval"
    return yes.to(target), f"target `{target}` {yes.status_text(target)}"


def _check_weight(guardrail: Guardrail, case: Case) -> tuple[bool, str]:
    weight = Decimal(case.weight or 0)
    if case.ranges is not None:
        weight = Decimal(sum(end - start for start, end in case.ranges))
    said = f"weight {weight} of `{case.label}`"
    if guardrail.min_weight is not None and weight < Decimal(guardrail.min_weight):
        return False, f"{said} is below {guardrail.min_weight}"
    if guardrail.max_weight is not None and weight > Decimal(guardrail.max_weight):
        return False, f"{said} is above {guardrail.max_weight}"
    return True, f"{said} is within bounds"


def _check(
    guardrail: Guardrail, decision: Decision, message: str, *, passed: bool
) -> GuardrailCheck:
    instead, action = guardrail.escalation_target, guardrail.action_on_fail
    is_stopped = action in {"block", "escalate"}
    if not passed and instead and (is_stopped or guardrail.type == _APPROVAL):
        message += f": goes to `{instead}`"
    elif not passed and is_stopped:
        message += ": nothing is done"
    return GuardrailCheck(decision.id, guardrail.type, passed, message, action, instead)
