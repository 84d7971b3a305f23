"""How a turn that no model takes is told: the deciding cause, when it clears, what else there is.

The same for a named model and for `auto`, in every wire format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, get_args

from msgspec import UNSET, Struct

from pointsman.calls.flow import FlowEnd
from pointsman.errors import (
    ModelIncapable,
    ModelNotConfigured,
    ModelNotPermitted,
    OverBudget,
    PointsmanError,
    PrivacyBlocked,
    RateLimited,
    RoutingFailed,
    TurnStopped,
)
from pointsman.gateway.serving.addresses import public_words
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.turns.turn import LiveTurn
from pointsman.kernel.instant import SECOND, instant_text
from pointsman.operations.providers import clears_text, provider_rows
from pointsman.providers.port import NotConfigured, UpstreamError
from pointsman.recording.ruling import Ruling
from pointsman.turns.registry.availability import Report
from pointsman.turns.registry.models import provider_of
from pointsman.turns.story.turn_story import TurnStory
from pointsman.turns.trace import Evaluation, ValidationFailure

_KINDS: Final[dict[ValidationFailure, type[RoutingFailed]]] = {
    "stopped": TurnStopped,
    "privacy_blocked": PrivacyBlocked,
    "not_permitted": ModelNotPermitted,
    "not_configured": ModelNotConfigured,
    "provider_unavailable": RoutingFailed,
    "over_budget": OverBudget,
}
"""What every veto is told as; the others say that a model lacks a capability."""

_CALL_KINDS: Final[dict[str, type[RoutingFailed]]] = {
    "over_budget": OverBudget,
    "stopped": TurnStopped,
}
"""The error of a call that was refused after its decision."""

_ORDER: Final[tuple[ValidationFailure, ...]] = get_args(ValidationFailure)


class _Lost(Struct, frozen=True):
    """A candidate that was rejected, and why."""

    model: str
    failure: ValidationFailure
    reason: str


def caller_error(story: TurnStory) -> PointsmanError | None:
    """Return the error that the caller of a recorded turn got; none where there was an answer."""
    if story.state == "refused" and story.refusals:
        return PrivacyBlocked(f"{story.refusals[-1].model}: {story.refusals[-1].reason}")
    last = story.later[-1] if story.later else story.first
    if not last.outcome.chosen_model:
        lost = list(dict.fromkeys(_lost(last.trace.chain)))
        cause = min(lost, key=lambda each: _ORDER.index(each.failure), default=None)
        kind = RoutingFailed if cause is None else _KINDS.get(cause.failure, ModelIncapable)
        reasons = "; ".join(f"{each.model}: {each.reason}" for each in lost)
        return kind(f"{_first_line(kind)}: {reasons}" if reasons else _first_line(kind))
    if story.state not in {"failed", "refused"} or not story.calls:
        return None
    call = story.calls[-1]
    if call.outcome == "refused":
        kind = _CALL_KINDS.get(call.error_class, RoutingFailed)
        return kind(f"{_first_line(kind)}: {call.model}")
    return UpstreamError(
        f"{call.model}: {call.cause}",
        error_class=call.error_class,  # type: ignore[arg-type] # one of them was recorded
        status=call.status,
    )


def _first_line(kind: type[RoutingFailed]) -> str:
    return (kind.__doc__ or "").partition("\n")[0]


def refusal_of(live: LiveTurn) -> RoutingFailed:
    """Return the error of a turn that no model may take."""
    parts, ruling = live.parts, live.require_ruling()
    lost = list(dict.fromkeys(_lost(ruling.trace.chain)))
    if not lost:
        return RoutingFailed()
    cause = _deciding(ruling, lost)
    kind = _KINDS.get(cause.failure, ModelIncapable)
    out = [each.model for each in lost if each.failure == "provider_unavailable"]
    if kind is RoutingFailed and _are_limited(ruling, out):
        kind = RateLimited
    reasons = "; ".join(f"{each.model}: {each.reason}" for each in lost)
    error = kind(f"{_first_line(kind)}: {reasons}")
    if cause.failure == "provider_unavailable":
        error.hint = "; ".join(_hints(parts, ruling, out))
        error.retry_after_s = _retry_after_s(parts, out)
    elif kind is OverBudget:
        error.hint = "; ".join(_resets(live))
    return error


def _resets(live: LiveTurn) -> Iterator[str]:
    """Say when the budgets that are used up start anew."""
    if live.parts.sharing is not None:
        # They are asked over the network; the decision itself records the remaining amounts.
        return
    for each in live.parts.budgets.standings(live.owners, live.caps, live.asked_at):
        if each.resets_at is not None:
            yield f"budget {each.name} starts anew at {instant_text(each.resets_at)}"


def refusal_of_continued(ended: FlowEnd, model: str) -> PrivacyBlocked:
    """Return the error of a call that goes on in its turn and may not."""
    rule = "" if ended.placing is None else ended.placing.outcome.rule_id
    return PrivacyBlocked(
        f"`{model}` began this turn and may not see what came back: {rule}",
        hint="start a new turn: a local model can take it",
    )


def _lost(chain: Sequence[Evaluation]) -> Iterator[_Lost]:
    for each in chain:
        for attempt in each.rule_attempts:
            yield _Lost(attempt.candidate_model, attempt.validation_failure, attempt.reason)
        if each.verdict == "rejected" and not each.rule_attempts:
            failure = each.validation_failure or "not_configured"
            yield _Lost(each.candidate_model or "", failure, each.reason)


def _deciding(ruling: Ruling, lost: list[_Lost]) -> _Lost:
    """Choose the cause that is told: a choice by hand speaks for itself."""
    facts = ruling.facts
    by_hand = [
        each
        for each in ruling.trace.chain
        if each.policy in {"per_message_override", "manual_sticky"} and each.verdict == "rejected"
    ]
    if by_hand and (facts.named_model is not UNSET or _is_kept_local(ruling)):
        own = by_hand[-1]
        failure = own.validation_failure or "not_configured"
        return _Lost(own.candidate_model or "", failure, own.reason)
    # What waiting can mend comes first; else the first in the order of the vetoes.
    mended = [each for each in lost if each.failure == "provider_unavailable"]
    return (mended or sorted(lost, key=lambda each: _ORDER.index(each.failure)))[0]


def _is_kept_local(ruling: Ruling) -> bool:
    """Tell whether a local model chosen by hand kept every cloud model from the turn."""
    return any("was chosen by hand" in each.reason for each in _lost(ruling.trace.chain))


def _are_limited(ruling: Ruling, models: list[str]) -> bool:
    states = ruling.facts.availability
    return bool(models) and all(states.get(provider_of(each)) == "rate_limited" for each in models)


def _hints(parts: GatewayServices, ruling: Ruling, models: list[str]) -> Iterator[str]:
    """Say why the candidates are out, when that ends, and who else is configured."""
    rows = provider_rows(_outages(parts, models), parts.pointsman.clock.now())
    for row in dict.fromkeys(rows):
        name = row.provider if row.model == "*" else row.model
        clears = clears_text(row)
        yield f"{name}: {row.why}" + (f", clears {clears}" if clears else "")
    configured = ruling.facts.configured or ()
    others = sorted({provider_of(name) for name in configured} - {*map(provider_of, models)})
    if others:
        yield f"other configured providers: {', '.join(others)}"


def _outages(parts: GatewayServices, models: list[str]) -> list[Report]:
    found = (parts.health.outage_of(model) for model in models)
    return [each for each in found if each is not None]


def _retry_after_s(parts: GatewayServices, models: list[str]) -> float:
    """Return when the first of the candidates may be tried again."""
    now = parts.pointsman.clock.now()
    ends = (each.clears_at for each in _outages(parts, models))
    waits = ((each - now) / SECOND for each in ends if each is not None)
    return max(1.0, min(waits, default=1.0))


_FINAL: Final = frozenset({400, 401, 402, 403, 404, 405, 413, 422})
"""Statuses that waiting cannot mend."""
_PASSED_ON: Final = frozenset({400, 403, 404, 413, 422, 429})
"""Statuses of a provider that say something to its caller."""


def status_of(error: PointsmanError) -> int:
    """Return the status a caller sees: the provider's own where that is meant for the caller."""
    if not isinstance(error, UpstreamError):
        return error.http_status
    if isinstance(error, NotConfigured):
        return 401 if error.is_of_caller else error.http_status
    if error.is_of_caller:
        return error.status
    if error.error_class == "auth":
        # The key is ours, not the caller's.
        return 502
    if error.status in _PASSED_ON:
        return error.status
    usual = {
        "rate_limit": 429,
        "invalid_request": 400,
        "context_overflow": 400,
        "timeout": 504,
        "busy": 503,
        "stopped": 503,
    }
    return usual.get(error.error_class, 502)


def is_final(error: PointsmanError, status: int) -> bool:
    """Tell whether waiting cannot mend it."""
    return status in _FINAL or bool(getattr(error, "is_final", False))


def told_message(error: PointsmanError) -> str:
    """Return what a caller reads: a provider's own words where it said some."""
    message, _where, hint = public_words(error)
    if isinstance(error, UpstreamError) and error.said and error.said not in message:
        message = f"{message}: {error.said}"
    return f"{message} ({hint})" if hint else message
