"""Scopes that one turn at a time may try, and the whole state of a home's providers with them.

A scope is tried after its outage cleared by itself, until a call of it succeeds; and while it is
out, where `probe_after_s` says so. Pure: time comes with the questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from pointsman.kernel.instant import EPOCH, SECOND, Instant
from pointsman.turns.registry.availability import (
    ALL_HEALTHY,
    AvailabilityState,
    Report,
    Transition,
    after,
    at,
    clear_scope,
    outages,
    reports,
)
from pointsman.turns.registry.call_event import CallEvent
from pointsman.turns.registry.models import provider_of
from pointsman.turns.registry.provider_state import (
    THRESHOLDS,
    Cause,
    Health,
    Outage,
    Thresholds,
    clears_at,
    outage_state,
)

TRIED_FOR_S = 60
"""How long a turn may try before another one may: the process that tried may be gone."""

KEPT_FOR_S = 3600
"""How long a scope that no turn wants is remembered as one to be tried."""


class Trial(Struct, frozen=True, forbid_unknown_fields=True):
    """A scope that one turn at a time may try; `holder` is the process whose turn does, until when.

    `cause` is why the scope was out.
    """

    cause: Cause
    since: Instant
    holder: str = ""
    until: Instant = EPOCH

    def is_held(self, now: Instant) -> bool:
        """Tell whether a turn is trying it."""
        return now < self.until


class HealthState(Struct, frozen=True, forbid_unknown_fields=True):
    """The state of the providers under one credential: outages, the failures so far, trials."""

    availability: AvailabilityState = ALL_HEALTHY
    trials: dict[str, Trial] = {}

    def out(self, credential: str) -> dict[str, Outage]:
        """Return the outages by scope, also those that are over and were not settled yet."""
        return outages(self.availability, credential)


NOTHING_KNOWN = HealthState()

Settled = tuple[HealthState, tuple[Transition, ...]]


def states(
    out: Mapping[str, Outage],
    trials: Mapping[str, Trial],
    now: Instant,
    thresholds: Thresholds = THRESHOLDS,
) -> dict[str, Health]:
    """Return what the facts of a turn that begins now say; all else is healthy."""
    found: dict[str, Health] = {}
    for scope, outage in out.items():
        is_over = clears_at(outage, thresholds) <= now
        found[scope] = "half_open" if is_over else outage_state(outage, now, thresholds)
    for scope, trial in trials.items():
        if trial.is_held(now):
            found[scope] = "unavailable"
        else:
            found.setdefault(scope, "half_open")
    return found


def is_overdue(
    out: Mapping[str, Outage],
    trials: Mapping[str, Trial],
    now: Instant,
    thresholds: Thresholds = THRESHOLDS,
) -> bool:
    """Tell whether time alone has ended an outage, or has let a trial be forgotten."""
    is_over = any(clears_at(outage, thresholds) <= now for outage in out.values())
    return is_over or any(_is_forgotten(trial, now) for trial in trials.values())


def settle(
    known: HealthState, now: Instant, credential: str, thresholds: Thresholds = THRESHOLDS
) -> Settled:
    """Return the state as it is now, and the outages that time ended: they are to be tried."""
    before = known.out(credential)
    availability, changes = at(known.availability, now, thresholds)
    trials = {
        scope: trial for scope, trial in known.trials.items() if not _is_forgotten(trial, now)
    }
    trials |= _to_try(before, outages(availability, credential), thresholds)
    return HealthState(availability, trials), changes


def matters(known: HealthState, event: CallEvent) -> bool:
    """Tell whether a call's end can change anything: most successes cannot, at little cost."""
    if event.result != "success":
        return True
    if event.model in known.trials or event.provider in known.trials:
        return True
    provider = known.availability.credentials.get(event.credential, {}).get(event.provider)
    return provider is not None and bool(
        event.model in provider.models
        or provider.network_errors
        or provider.outage is not None
        or any(hit.model == event.model for hit in provider.hits)
    )


def after_call(
    known: HealthState,
    event: CallEvent,
    models: Iterable[str],
    holder: str,
    thresholds: Thresholds = THRESHOLDS,
) -> Settled:
    """Return the state after a call that `holder` made, and the transitions since the last one."""
    before = known.out(event.credential)
    availability, changes = after(known.availability, event, models, thresholds)
    out = outages(availability, event.credential)
    ended = {
        scope: outage
        for scope, outage in before.items()
        if clears_at(outage, thresholds) <= event.at
    }
    trials = {**known.trials, **_to_try(ended, out, thresholds)}
    for scope in (event.model, event.provider):
        trial = trials.get(scope)
        if trial is None:
            continue
        is_own = trial.holder == holder or not trial.is_held(event.at)
        if event.result == "success" or (is_own and scope in out):
            # A scope that is out again is tried when its outage is due.
            del trials[scope]
        elif is_own:
            trials[scope] = replace(trial, holder="", until=EPOCH)
    return HealthState(availability, trials), changes


def claim(
    known: HealthState,
    model: str,
    holder: str,
    now: Instant,
    credential: str,
    thresholds: Thresholds = THRESHOLDS,
) -> tuple[HealthState, bool]:
    """Take the right to try a model where it is half open; False where it may not be called."""
    out = known.out(credential)
    found = states(out, known.trials, now, thresholds)
    scopes = (provider_of(model), model)
    if any(found.get(scope) == "unavailable" for scope in scopes):
        return known, False
    taken = {}
    until = Instant(now + TRIED_FOR_S * SECOND)
    for scope in scopes:
        if scope in found:
            cause = out[scope].cause if scope in out else known.trials[scope].cause
            taken[scope] = Trial(cause, now, holder, until)
    return HealthState(known.availability, {**known.trials, **taken}), True


def clear(
    known: HealthState, provider: str, model: str | None, now: Instant, credential: str
) -> Settled:
    """End the outages of a model, or of a provider with all its models; their counts go, too."""
    availability, changes = clear_scope(known.availability, credential, provider, model, now)
    trials = {
        scope: trial
        for scope, trial in known.trials.items()
        if scope != (model or provider) and (model is not None or provider_of(scope) != provider)
    }
    return HealthState(availability, trials), changes


def health_reports(
    known: HealthState,
    now: Instant,
    credential: str,
    models: Iterable[str] = (),
    thresholds: Thresholds = THRESHOLDS,
) -> tuple[Report, ...]:
    """Return every scope for display; half open is a scope that may be or is being tried."""
    known, _ = settle(known, now, credential, thresholds)
    scopes = [*models, *(scope for scope in known.trials if ":" in scope)]
    found = reports(known.availability, now, credential, scopes, thresholds)
    return tuple(
        _with_trial(each, known.trials.get(each.model or each.provider), now) for each in found
    )


def is_same(one: HealthState, other: HealthState) -> bool:
    """Tell whether two states say the same, whenever their last calls were."""
    return one.trials == other.trials and _timeless(one) == _timeless(other)


def _with_trial(report: Report, trial: Trial | None, now: Instant) -> Report:
    if trial is None:
        return report
    if report.cause is not None:
        return replace(report, state="half_open" if trial.is_held(now) else report.state)
    until = trial.until if trial.is_held(now) else None
    return replace(report, state="half_open", cause=trial.cause, since=trial.since, clears_at=until)


def _to_try(
    before: Mapping[str, Outage], out: Mapping[str, Outage], thresholds: Thresholds
) -> dict[str, Trial]:
    return {
        scope: Trial(outage.cause, clears_at(outage, thresholds))
        for scope, outage in before.items()
        if scope not in out
    }


def _is_forgotten(trial: Trial, now: Instant) -> bool:
    return now - trial.since > KEPT_FOR_S * SECOND and not trial.is_held(now)


def _timeless(known: HealthState) -> dict[str, dict[str, object]]:
    return {
        credential: {name: replace(each, latest=EPOCH) for name, each in providers.items()}
        for credential, providers in known.availability.credentials.items()
    }
