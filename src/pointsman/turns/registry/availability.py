"""Which providers and models are out, as a pure fold over the results of calls. Document 002 §4.5.

Every credential has a world of its own, and no clock is read: time comes with the events and with
the questions. It does not choose a model and does not know which models are configured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from pointsman.kernel.canonical import Form
from pointsman.kernel.instant import Instant
from pointsman.turns.registry.call_event import CallEvent, tells_of_provider
from pointsman.turns.registry.models import provider_of
from pointsman.turns.registry.provider_state import (
    THRESHOLDS,
    Cause,
    Change,
    Health,
    Outage,
    Payload,
    ProviderState,
    Thresholds,
    after_failure,
    after_success,
    clear_models,
    clear_provider,
    clears_at,
    outage_state,
    settle_outages,
)


class AvailabilityState(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything still worth knowing, by credential and provider."""

    credentials: dict[str, dict[str, ProviderState]] = {}


AVAILABILITY_FORM = Form(AvailabilityState)
ALL_HEALTHY = AvailabilityState()


class Transition(Struct, frozen=True, forbid_unknown_fields=True):
    """A scope that went out or came back, when, and for whom."""

    at: Instant
    credential: str
    payload: Payload


_WHY: dict[Cause, str] = {
    "5_consecutive_failures": "5 failures in a row",
    "auth_error": "key refused",
    "dns_error": "network",
    "multi_model_failures": "3 models out",
}


class Report(Struct, frozen=True, forbid_unknown_fields=True):
    """One scope for display; `model` is None for the provider as a whole.

    Degraded is a word of the document: version 1 never sets it (D-002-11). `clears_at` is there as
    long as turns are kept from the scope, and says until when at the latest.
    """

    provider: str
    model: str | None
    state: Health
    cause: Cause | None = None
    since: Instant | None = None
    clears_at: Instant | None = None
    models_affected: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """The cause in words; empty where there is none."""
        if self.state == "rate_limited":
            return "limit of requests or tokens a minute"
        return "" if self.cause is None else _WHY[self.cause]


def after(
    state: AvailabilityState,
    event: CallEvent,
    models: Iterable[str] = (),
    thresholds: Thresholds = THRESHOLDS,
) -> tuple[AvailabilityState, tuple[Transition, ...]]:
    """Return the state after a call, and the changes by it or since the call before.

    `models` are the configured ids: a provider's outage lists those of its own as affected.
    """
    if not tells_of_provider(event):
        return state, ()
    known = state.credentials.get(event.credential, {})
    provider = known.get(event.provider, ProviderState(event.at))
    # A call that is reported late counts from the latest one known, so no window runs backwards.
    event = replace(event, at=max(event.at, provider.latest))
    provider, cleared = settle_outages(event.provider, provider, event.at, thresholds)
    if event.result == "success":
        provider, changes = after_success(provider, event)
    else:
        provider, changes = after_failure(provider, event, models, thresholds)
    return (
        _store(state, event.credential, {**known, event.provider: provider}),
        _transitions(event.credential, cleared + changes),
    )


def at(
    state: AvailabilityState, now: Instant, thresholds: Thresholds = THRESHOLDS
) -> tuple[AvailabilityState, tuple[Transition, ...]]:
    """Return the state as it is now, and the outages that ended by themselves, in order of time.

    DETERMINISM: an outage ends when it is due, not when it is read; reading in between changes
    neither the final state nor the recorded times.
    """
    found: list[Transition] = []
    for credential in sorted(state.credentials):
        providers, changes = _settled_all(state.credentials[credential], now, thresholds)
        found += _transitions(credential, changes)
        state = _store(state, credential, providers)
    return state, tuple(sorted(found, key=lambda each: (each.at, each.credential)))


def health(
    state: AvailabilityState,
    now: Instant,
    credential: str,
    thresholds: Thresholds = THRESHOLDS,
) -> dict[str, Health]:
    """Return the unhealthy scopes of a credential, by provider name and model id."""
    providers, _ = _settled_all(state.credentials.get(credential, {}), now, thresholds)
    return {name: outage_state(outage, now, thresholds) for name, outage in _outages(providers)}


def outages(state: AvailabilityState, credential: str) -> dict[str, Outage]:
    """Return every outage by provider name and model id, also those whose time is up."""
    return dict(_outages(state.credentials.get(credential, {})))


def clear_scope(
    state: AvailabilityState, credential: str, provider: str, model: str | None, now: Instant
) -> tuple[AvailabilityState, tuple[Transition, ...]]:
    """End the outage of a model, or of a provider and all its models, as if it never had failed."""
    known = state.credentials.get(credential, {})
    if provider not in known:
        return state, ()
    found, by_time = settle_outages(provider, known[provider], now, THRESHOLDS)
    names = sorted(found.models) if model is None else [model]
    found, changes = clear_models(provider, found, names, now)
    if model is None:
        _, whole = clear_provider(provider, found, now)
        # Nothing is kept: neither strikes nor network errors that were too few for an outage.
        found, changes = ProviderState(now), changes + whole
    return (
        _store(state, credential, {**known, provider: found}),
        _transitions(credential, by_time + changes),
    )


def reports(
    state: AvailabilityState,
    now: Instant,
    credential: str,
    models: Iterable[str] = (),
    thresholds: Thresholds = THRESHOLDS,
) -> tuple[Report, ...]:
    """Return every scope of the configured `models` and of the state, each provider first."""
    providers, _ = _settled_all(state.credentials.get(credential, {}), now, thresholds)
    out = dict(_outages(providers))
    scopes = [(provider_of(model), model) for model in models]
    scopes += [(name, model) for name in providers for model in providers[name].models]
    scopes += [(name, "") for name, _ in scopes] + [(name, "") for name in providers]
    return tuple(
        _report(name, model, out.get(model or name), now, thresholds)
        for name, model in sorted(dict.fromkeys(scopes))
    )


def _settled_all(
    providers: dict[str, ProviderState], now: Instant, thresholds: Thresholds
) -> tuple[dict[str, ProviderState], tuple[Change, ...]]:
    found: dict[str, ProviderState] = {}
    changes: list[Change] = []
    for name in sorted(providers):
        found[name], cleared = settle_outages(name, providers[name], now, thresholds)
        changes += cleared
    return found, tuple(changes)


def _outages(providers: dict[str, ProviderState]) -> Iterator[tuple[str, Outage]]:
    for name in sorted(providers):
        outage = providers[name].outage
        if outage is not None:
            yield name, outage
        for model in sorted(providers[name].models):
            own = providers[name].models[model].outage
            if own is not None:
                yield model, own


def _report(
    provider: str, model: str, outage: Outage | None, now: Instant, thresholds: Thresholds
) -> Report:
    if outage is None:
        return Report(provider, model or None, "healthy")
    return Report(
        provider,
        model or None,
        outage_state(outage, now, thresholds),
        outage.cause,
        outage.since,
        clears_at(outage, thresholds),
        outage.models,
    )


def _store(
    state: AvailabilityState, credential: str, providers: dict[str, ProviderState]
) -> AvailabilityState:
    """Put a credential's providers back; one as good as new is not kept."""
    kept = {name: known for name, known in providers.items() if _is_worth_keeping(known)}
    others = {name: known for name, known in state.credentials.items() if name != credential}
    return AvailabilityState({**others, credential: kept} if kept else others)


def _is_worth_keeping(provider: ProviderState) -> bool:
    return bool(
        provider.models or provider.hits or provider.network_errors or provider.outage is not None
    )


def _transitions(credential: str, changes: tuple[Change, ...]) -> tuple[Transition, ...]:
    return tuple(Transition(when, credential, payload) for when, payload in changes)
