"""How a turn that no model takes is told: the status and the code of the veto behind it."""

from __future__ import annotations

from pointsman.calls.flow import Ended
from pointsman.errors import ModelNotPermitted, OverBudget, PrivacyBlocked, RoutingFailed
from pointsman.recording.ruling import Ruling

_FAILURES: dict[str, type[RoutingFailed]] = {
    "privacy_blocked": PrivacyBlocked,
    "not_permitted": ModelNotPermitted,
    "over_budget": OverBudget,
}


def veto_of(ruling: Ruling, model: str) -> RoutingFailed:
    """Give the error of a model that was named and may not take the turn."""
    for each in ruling.trace.chain:
        if each.verdict == "rejected" and each.candidate_model == model:
            kind = _FAILURES.get(each.validation_failure or "", RoutingFailed)
            return kind(f"{kind.__doc__}: {model}: {each.reason}")
    return RoutingFailed()


def refused(ended: Ended, model: str) -> PrivacyBlocked:
    """Give the error of a call that goes on in its turn and may not."""
    rule = "" if ended.placing is None else ended.placing.outcome.rule_id
    return PrivacyBlocked(
        f"`{model}` began this turn and may not see what came back: {rule}",
        hint="start a new turn: a local model can take it",
    )


def failure_of(ended: Ended) -> RoutingFailed:
    """Give the error of a turn that no model may take: the veto that all its candidates share."""
    chain = () if ended.ruling is None else ended.ruling.trace.chain
    vetoes = [each for each in chain if each.verdict == "rejected"]
    codes = {each.validation_failure for each in vetoes}
    kind = _FAILURES.get(vetoes[0].validation_failure or "") if len(codes) == 1 else None
    reasons = "; ".join(f"{each.candidate_model}: {each.reason}" for each in vetoes)
    message = (kind or RoutingFailed).__doc__ or ""
    return (kind or RoutingFailed)(f"{message}: {reasons}" if reasons else message)
