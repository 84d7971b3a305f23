"""Which providers and models are out, as a pure fold over the results of calls. Document 002 §4.5.

Every credential has a world of its own, and no clock is read: time comes with the events and with
the questions. It does not choose a model and does not know which models are configured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from pointsman.kernel.canonical import Form
from pointsman.kernel.instant import SECOND, Instant
from pointsman.turns.facts import Health
from pointsman.turns.registry import provider_of

Result = Literal[
    "success", "rate_limit", "auth", "server_error", "network", "context_overflow",
    "invalid_request", "cancelled", "other", "timeout",
]  # fmt: skip
Cause = Literal["5_consecutive_failures", "auth_error", "dns_error", "multi_model_failures"]
Scope = Literal["model_specific", "provider_wide"]

_STRIKES = ("rate_limit", "server_error", "network", "other", "timeout")


class Thresholds(Struct, frozen=True, forbid_unknown_fields=True):
    """When a scope counts as out; every window includes its last microsecond."""

    strikes: int = 5
    strikes_window_s: int = 120
    models: int = 3
    models_window_s: int = 120
    network_errors: int = 2
    network_window_s: int = 30
    clear_after_s: int = 300


THRESHOLDS = Thresholds()


class CallEvent(Struct, frozen=True, forbid_unknown_fields=True):
    """How one whole call ended, retries included; `model` is its id, `provider:name`.

    A refusal by the provider's content policy is no outage, whatever its status code.
    """

    at: Instant
    credential: str
    provider: str
    model: str
    result: Result
    is_policy_refusal: bool = False


class Outage(Struct, frozen=True, forbid_unknown_fields=True):
    """A scope that is out; it clears when nobody has tried it for a while."""

    cause: Cause
    since: Instant
    last_attempt: Instant
    models: tuple[str, ...]


class ModelState(Struct, frozen=True, forbid_unknown_fields=True):
    """One model: its failures since the last success, or its outage."""

    strikes: tuple[Instant, ...] = ()
    outage: Outage | None = None


class Hit(Struct, frozen=True, forbid_unknown_fields=True):
    """When a model went out."""

    model: str
    at: Instant


class ProviderState(Struct, frozen=True, forbid_unknown_fields=True):
    """One provider under one credential; models about which nothing is known are not in it."""

    latest: Instant
    models: dict[str, ModelState] = {}
    hits: tuple[Hit, ...] = ()
    network_errors: tuple[Instant, ...] = ()
    outage: Outage | None = None


class AvailabilityState(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything still worth knowing, by credential and provider."""

    credentials: dict[str, dict[str, ProviderState]] = {}


AVAILABILITY_FORM = Form(AvailabilityState)
ALL_HEALTHY = AvailabilityState()


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


class Transition(Struct, frozen=True, forbid_unknown_fields=True):
    """A scope that went out or came back, when, and for whom."""

    at: Instant
    credential: str
    payload: Payload


class Report(Struct, frozen=True, forbid_unknown_fields=True):
    """One scope for display; `model` is None for the provider as a whole.

    Degraded is a word of the document: version 1 never sets it (D-002-11).
    """

    provider: str
    model: str | None
    state: Health
    cause: Cause | None = None
    since: Instant | None = None
    clears_at: Instant | None = None
    models_affected: tuple[str, ...] = ()


_Change: TypeAlias = tuple[Instant, Payload]
_Step: TypeAlias = tuple[ProviderState, tuple[_Change, ...]]


def after(
    state: AvailabilityState,
    event: CallEvent,
    models: Iterable[str] = (),
    thresholds: Thresholds = THRESHOLDS,
) -> tuple[AvailabilityState, tuple[Transition, ...]]:
    """Give the state after a call, and what changed by it or since the call before.

    `models` are the configured ids: a provider's outage lists those of its own as affected.
    """
    if not _counts(event):
        return state, ()
    known = state.credentials.get(event.credential, {})
    provider = known.get(event.provider, ProviderState(event.at))
    # A call that is reported late counts from the latest one known, so no window runs backwards.
    event = replace(event, at=max(event.at, provider.latest))
    provider, cleared = _settled(event.provider, provider, event.at, thresholds)
    if event.result == "success":
        provider, changes = _succeeded(provider, event)
    else:
        provider, changes = _failed(provider, event, models, thresholds)
    return (
        _stored(state, event.credential, {**known, event.provider: provider}),
        _transitions(event.credential, cleared + changes),
    )


def at(
    state: AvailabilityState, now: Instant, thresholds: Thresholds = THRESHOLDS
) -> tuple[AvailabilityState, tuple[Transition, ...]]:
    """Give the state as it is now, and the outages that ended by themselves, in order of time.

    DETERMINISM: an outage ends when it is due, not when somebody asks; asking in between changes
    neither what is found in the end nor when it is said to have happened.
    """
    found: list[Transition] = []
    for credential in sorted(state.credentials):
        providers, changes = _settled_all(state.credentials[credential], now, thresholds)
        found += _transitions(credential, changes)
        state = _stored(state, credential, providers)
    return state, tuple(sorted(found, key=lambda each: (each.at, each.credential)))


def health(
    state: AvailabilityState,
    now: Instant,
    credential: str,
    thresholds: Thresholds = THRESHOLDS,
) -> dict[str, Health]:
    """Give what is out for a credential, by provider name and model id; all else is healthy."""
    providers, _ = _settled_all(state.credentials.get(credential, {}), now, thresholds)
    return {name: "unavailable" for name, _ in _outages(providers)}


def reports(
    state: AvailabilityState,
    now: Instant,
    credential: str,
    models: Iterable[str] = (),
    thresholds: Thresholds = THRESHOLDS,
) -> tuple[Report, ...]:
    """Give every scope of the configured `models` and of what is known, each provider first."""
    providers, _ = _settled_all(state.credentials.get(credential, {}), now, thresholds)
    out = dict(_outages(providers))
    scopes = [(provider_of(model), model) for model in models]
    scopes += [(name, model) for name in providers for model in providers[name].models]
    scopes += [(name, "") for name, _ in scopes] + [(name, "") for name in providers]
    return tuple(
        _report(name, model, out.get(model or name), thresholds)
        for name, model in sorted(dict.fromkeys(scopes))
    )


def _counts(event: CallEvent) -> bool:
    # The other errors say something about the request, nothing about the provider (D-002-9).
    if event.result == "success":
        return True
    return not event.is_policy_refusal and (event.result == "auth" or event.result in _STRIKES)


def _settled_all(
    providers: dict[str, ProviderState], now: Instant, thresholds: Thresholds
) -> tuple[dict[str, ProviderState], tuple[_Change, ...]]:
    settled: dict[str, ProviderState] = {}
    changes: list[_Change] = []
    for name in sorted(providers):
        settled[name], cleared = _settled(name, providers[name], now, thresholds)
        changes += cleared
    return settled, tuple(changes)


def _settled(name: str, provider: ProviderState, now: Instant, thresholds: Thresholds) -> _Step:
    """Forget what lies outside its window, and end the outages that are due."""
    models: dict[str, ModelState] = {}
    changes: list[_Change] = []
    for model in sorted(provider.models):
        known = provider.models[model]
        if known.outage is not None and clears_at(known.outage, thresholds) <= now:
            ended = clears_at(known.outage, thresholds)
            changes.append((ended, _recovered(name, "model_specific", known.outage, ended)))
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
        provider, cleared = _cleared(name, provider, clears_at(provider.outage, thresholds))
        changes += cleared
    return provider, tuple(sorted(changes, key=lambda change: change[0]))


def clears_at(outage: Outage, thresholds: Thresholds = THRESHOLDS) -> Instant:
    """Give when an outage ends if nobody tries again."""
    return Instant(outage.last_attempt + thresholds.clear_after_s * SECOND)


def _within(instants: tuple[Instant, ...], now: Instant, window_s: int) -> tuple[Instant, ...]:
    return tuple(each for each in instants if now - each <= window_s * SECOND)


def _succeeded(provider: ProviderState, event: CallEvent) -> _Step:
    own = provider.models.get(event.model, ModelState())
    changes: tuple[_Change, ...] = ()
    if own.outage is not None:
        back = _recovered(event.provider, "model_specific", own.outage, event.at)
        changes = ((event.at, back),)
    provider = replace(
        provider,
        latest=event.at,
        models={name: known for name, known in provider.models.items() if name != event.model},
        hits=_hits_of_others(provider, event.model),
        network_errors=(),
    )
    provider, cleared = _cleared(event.provider, provider, event.at)
    return provider, changes + cleared


def _cleared(name: str, provider: ProviderState, when: Instant) -> _Step:
    """End a provider's outage; models that are out by themselves stay out (D-002-12)."""
    outage = provider.outage
    if outage is None:
        return provider, ()
    back = tuple(
        model for model in outage.models if provider.models.get(model, ModelState()).outage is None
    )
    payload = _recovered(name, "provider_wide", replace(outage, models=back), when)
    return replace(provider, outage=None, hits=(), network_errors=()), ((when, payload),)


def _failed(
    provider: ProviderState, event: CallEvent, models: Iterable[str], thresholds: Thresholds
) -> _Step:
    provider, changes = _struck(_attempted(provider, event), event, thresholds)
    if event.result == "network" and provider.outage is None:
        errors = (*provider.network_errors, event.at)
        provider = replace(provider, network_errors=errors)
    cause = _provider_cause(provider, event, thresholds)
    if cause is None or provider.outage is not None:
        return provider, changes
    affected = _affected(provider, event, models)
    outage = Outage(cause, event.at, event.at, affected)
    payload = ProviderUnavailable(event.provider, "provider_wide", affected, cause)
    provider = replace(provider, outage=outage, hits=(), network_errors=())
    return provider, (*changes, (event.at, payload))


def _attempted(provider: ProviderState, event: CallEvent) -> ProviderState:
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


def _struck(provider: ProviderState, event: CallEvent, thresholds: Thresholds) -> _Step:
    """Count a failure against its model; an auth error is nobody's strike."""
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
        hits=(*_hits_of_others(provider, event.model), Hit(event.model, event.at)),
    )
    scope: Scope = "model_specific"
    payload = ProviderUnavailable(event.provider, scope, outage.models, outage.cause)
    return provider, ((event.at, payload),)


def _hits_of_others(provider: ProviderState, model: str) -> tuple[Hit, ...]:
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


def _affected(provider: ProviderState, event: CallEvent, models: Iterable[str]) -> tuple[str, ...]:
    own = (model for model in models if provider_of(model) == event.provider)
    return tuple(sorted(dict.fromkeys((*own, *provider.models, event.model))))


def _recovered(name: str, scope: Scope, outage: Outage, when: Instant) -> ProviderRecovered:
    return ProviderRecovered(name, scope, outage.models, (when - outage.since) // SECOND)


def _outages(providers: dict[str, ProviderState]) -> Iterator[tuple[str, Outage]]:
    for name in sorted(providers):
        outage = providers[name].outage
        if outage is not None:
            yield name, outage
        for model in sorted(providers[name].models):
            own = providers[name].models[model].outage
            if own is not None:
                yield model, own


def _report(provider: str, model: str, outage: Outage | None, thresholds: Thresholds) -> Report:
    if outage is None:
        return Report(provider, model or None, "healthy")
    return Report(
        provider,
        model or None,
        "unavailable",
        outage.cause,
        outage.since,
        clears_at(outage, thresholds),
        outage.models,
    )


def _stored(
    state: AvailabilityState, credential: str, providers: dict[str, ProviderState]
) -> AvailabilityState:
    """Put a credential's providers back; what is as good as new is not kept."""
    kept = {name: known for name, known in providers.items() if _is_worth_keeping(known)}
    others = {name: known for name, known in state.credentials.items() if name != credential}
    return AvailabilityState({**others, credential: kept} if kept else others)


def _is_worth_keeping(provider: ProviderState) -> bool:
    return bool(
        provider.models or provider.hits or provider.network_errors or provider.outage is not None
    )


def _transitions(credential: str, changes: tuple[_Change, ...]) -> tuple[Transition, ...]:
    return tuple(Transition(when, credential, payload) for when, payload in changes)
