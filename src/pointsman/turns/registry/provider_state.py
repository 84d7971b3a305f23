"""One provider under one credential: its outages, and how a call or time changes them.

Document 002 §4.5. Pure: time comes with the calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from pointsman.kernel.instant import SECOND, Instant
from pointsman.turns.registry.call_event import CallEvent
from pointsman.turns.registry.models import provider_of

Cause = Literal["5_consecutive_failures", "auth_error", "dns_error", "multi_model_failures"]
Scope = Literal["model_specific", "provider_wide"]


Health = Literal["healthy", "degraded", "unavailable", "half_open", "rate_limited"]
"""`half_open` is a scope that this turn may try; it passes the vetoes like a healthy one."""


class Thresholds(Struct, frozen=True, forbid_unknown_fields=True):
    """When a scope counts as out; every window includes its last microsecond.

    `probe_after_s` is how long after the last attempt one turn may try a scope that is out; None
    is document 002 as it stands: not before the outage clears (D-002-11).
    """

    strikes: int = 5
    strikes_window_s: int = 120
    models: int = 3
    models_window_s: int = 120
    network_errors: int = 2
    network_window_s: int = 30
    clear_after_s: int = 300
    probe_after_s: int | None = None


THRESHOLDS = Thresholds()


class Outage(Struct, frozen=True, forbid_unknown_fields=True):
    """A scope that is out; it clears after a while without an attempt."""

    cause: Cause
    since: Instant
    last_attempt: Instant
    models: tuple[str, ...]


class ModelState(Struct, frozen=True, forbid_unknown_fields=True):
    """One model: its failures since the last success, or its outage."""

    strikes: tuple[Instant, ...] = ()
    outage: Outage | None = None


class ModelOutage(Struct, frozen=True, forbid_unknown_fields=True):
    """A model and when it went out."""

    model: str
    at: Instant


class ProviderState(Struct, frozen=True, forbid_unknown_fields=True):
    """One provider under one credential; models about which nothing is known are not in it."""

    latest: Instant
    models: dict[str, ModelState] = {}
    hits: tuple[ModelOutage, ...] = ()
    network_errors: tuple[Instant, ...] = ()
    outage: Outage | None = None


class ProviderUnavailable(Struct, frozen=True, forbid_unknown_fields=True):
    """The payload of `routing.provider_unavailable`."""

    event_type: ClassVar[str] = "routing.provider_unavailable"

    provider: str
    scope: Scope
    models_affected: tuple[str, ...]
    trigger_reason: Cause


class ProviderRecovered(Struct, frozen=True, forbid_unknown_fields=True):
    """The payload of `routing.provider_recovered`; a begun second of downtime is not counted."""

    event_type: ClassVar[str] = "routing.provider_recovered"

    provider: str
    scope: Scope
    models_recovered: tuple[str, ...]
    downtime_seconds: int


Payload: TypeAlias = ProviderUnavailable | ProviderRecovered


Change: TypeAlias = tuple[Instant, Payload]
Step: TypeAlias = tuple[ProviderState, tuple[Change, ...]]


def settle_outages(
    name: str, provider: ProviderState, now: Instant, thresholds: Thresholds
) -> Step:
    """Forget what lies outside its window, and end the outages that are due."""
    models: dict[str, ModelState] = {}
    changes: list[Change] = []
    for model in sorted(provider.models):
        known = provider.models[model]
        if known.outage is not None and clears_at(known.outage, thresholds) <= now:
            ended = clears_at(known.outage, thresholds)
            changes.append((ended, _recovery(name, "model_specific", known.outage, ended)))
        else:
            strikes = _within(known.strikes, now, thresholds.strikes_window_s)
            models[model] = replace(known, strikes=strikes)
    provider = replace(
        provider,
        models={model: known for model, known in models.items() if known != ModelState()},
        hits=tuple(
            hit for hit in provider.hits if now - hit.at <= thresholds.models_window_s * SECOND
        ),
        network_errors=_within(provider.network_errors, now, thresholds.network_window_s),
    )
    if provider.outage is not None and clears_at(provider.outage, thresholds) <= now:
        provider, cleared = clear_provider(name, provider, clears_at(provider.outage, thresholds))
        changes += cleared
    return provider, tuple(sorted(changes, key=lambda change: change[0]))


def clears_at(outage: Outage, thresholds: Thresholds = THRESHOLDS) -> Instant:
    """Return when an outage ends without a further attempt."""
    return Instant(outage.last_attempt + thresholds.clear_after_s * SECOND)


def outage_state(outage: Outage, now: Instant, thresholds: Thresholds = THRESHOLDS) -> Health:
    """Return whether a scope that is out may be tried by one turn now."""
    if outage.last_attempt - now > thresholds.clear_after_s * SECOND:
        # The clock was set back, further than clocks differ: it would stay out until then.
        return "half_open"
    # A key that was refused stays refused until the operator changes it: 401 and 403 are not tried.
    if thresholds.probe_after_s is None or outage.cause == "auth_error":
        return "unavailable"
    due = outage.last_attempt + thresholds.probe_after_s * SECOND
    return "half_open" if due <= now else "unavailable"


def after_success(provider: ProviderState, event: CallEvent) -> Step:
    """Return the provider after a call that succeeded, and the outages it ended."""
    provider, changes = clear_models(event.provider, provider, (event.model,), event.at)
    provider = replace(provider, latest=event.at, network_errors=())
    provider, cleared = clear_provider(event.provider, provider, event.at)
    return provider, changes + cleared


def clear_models(
    name: str, provider: ProviderState, models: Collection[str], when: Instant
) -> Step:
    """End the outages of models and drop their counts; their provider's own outage stays."""
    known = ((model, provider.models.get(model, ModelState()).outage) for model in models)
    changes = tuple(
        (when, _recovery(name, "model_specific", outage, when))
        for _, outage in known
        if outage is not None
    )
    left = {model: each for model, each in provider.models.items() if model not in models}
    hits = tuple(hit for hit in provider.hits if hit.model not in models)
    return replace(provider, models=left, hits=hits), changes


def after_failure(
    provider: ProviderState, event: CallEvent, models: Iterable[str], thresholds: Thresholds
) -> Step:
    """Return the provider after a call that failed, and the outages it began."""
    provider, changes = _count_strike(_extend_outages(provider, event), event, thresholds)
    if event.result == "network" and provider.outage is None:
        errors = (*provider.network_errors, event.at)
        provider = replace(provider, network_errors=errors)
    cause, known = _provider_cause(provider, event, thresholds), provider.outage
    if known is not None and cause == "auth_error":
        # Whatever took the provider out: now its key is refused, so no turn may try it early.
        return replace(provider, outage=replace(known, cause=cause)), changes
    if cause is None or known is not None:
        return provider, changes
    affected = _affected_models(provider, event, models)
    outage = Outage(cause, event.at, event.at, affected)
    payload = ProviderUnavailable(event.provider, "provider_wide", affected, cause)
    provider = replace(provider, outage=outage, hits=(), network_errors=())
    return provider, (*changes, (event.at, payload))


def _within(instants: tuple[Instant, ...], now: Instant, window_s: int) -> tuple[Instant, ...]:
    return tuple(each for each in instants if now - each <= window_s * SECOND)


def clear_provider(name: str, provider: ProviderState, when: Instant) -> Step:
    """End a provider's outage; models that are out by themselves stay out (D-002-12)."""
    outage = provider.outage
    if outage is None:
        return provider, ()
    back = tuple(
        model for model in outage.models if provider.models.get(model, ModelState()).outage is None
    )
    payload = _recovery(name, "provider_wide", replace(outage, models=back), when)
    return replace(provider, outage=None, hits=(), network_errors=()), ((when, payload),)


def _extend_outages(provider: ProviderState, event: CallEvent) -> ProviderState:
    """Put off the end of the outages this call ran into."""
    models = provider.models
    own = models.get(event.model, ModelState())
    if own.outage is not None:
        moved = replace(own, outage=replace(own.outage, last_attempt=event.at))
        models = {**models, event.model: moved}
    outage = provider.outage
    if outage is not None:
        outage = replace(outage, last_attempt=event.at)
    return replace(provider, latest=event.at, models=models, outage=outage)


def _count_strike(provider: ProviderState, event: CallEvent, thresholds: Thresholds) -> Step:
    """Count a failure against its model; an auth error counts against none."""
    own = provider.models.get(event.model, ModelState())
    if event.result == "auth" or own.outage is not None:
        return provider, ()
    strikes = (*own.strikes, event.at)
    if len(strikes) < thresholds.strikes:
        models = {**provider.models, event.model: ModelState(strikes)}
        return replace(provider, models=models), ()
    outage = Outage("5_consecutive_failures", event.at, event.at, (event.model,))
    provider = replace(
        provider,
        models={**provider.models, event.model: ModelState((), outage)},
        hits=(*_hits_of_others(provider, event.model), ModelOutage(event.model, event.at)),
    )
    scope: Scope = "model_specific"
    payload = ProviderUnavailable(event.provider, scope, outage.models, outage.cause)
    return provider, ((event.at, payload),)


def _hits_of_others(provider: ProviderState, model: str) -> tuple[ModelOutage, ...]:
    return tuple(hit for hit in provider.hits if hit.model != model)


def _provider_cause(
    provider: ProviderState, event: CallEvent, thresholds: Thresholds
) -> Cause | None:
    if event.result == "auth":
        return "auth_error"
    if len(provider.network_errors) >= thresholds.network_errors:
        return "dns_error"
    if len(provider.hits) >= thresholds.models:
        return "multi_model_failures"
    return None


def _affected_models(
    provider: ProviderState, event: CallEvent, models: Iterable[str]
) -> tuple[str, ...]:
    own = (model for model in models if provider_of(model) == event.provider)
    return tuple(sorted(dict.fromkeys((*own, *provider.models, event.model))))


def _recovery(name: str, scope: Scope, outage: Outage, when: Instant) -> ProviderRecovered:
    return ProviderRecovered(name, scope, outage.models, (when - outage.since) // SECOND)
