"""Which providers and models are out right now, for every surface: one fold over the calls' ends.

A scope that was out is tried by one real request at a time; no call is made just to see whether a
provider answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec

from pointsman.errors import LedgerError
from pointsman.kernel.canonical import Form
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Clock
from pointsman.recording.rates import ProviderRates
from pointsman.storage.stores.health import NOT_THERE, HealthStore
from pointsman.turns.registry.availability import Report, Transition
from pointsman.turns.registry.call_event import CallEvent, Result
from pointsman.turns.registry.models import provider_of
from pointsman.turns.registry.provider_state import (
    THRESHOLDS,
    Health,
    Outage,
    ProviderRecovered,
    ProviderUnavailable,
    Thresholds,
)
from pointsman.turns.registry.trials import (
    NOTHING_KNOWN,
    HealthState,
    after_call,
    claim,
    clear,
    health_reports,
    is_overdue,
    is_same,
    matters,
    settle,
    states,
)

UNAVAILABLE = f"event.{ProviderUnavailable.event_type}"
RECOVERED = f"event.{ProviderRecovered.event_type}"

UNAVAILABLE_FORM = Form(ProviderUnavailable)
RECOVERED_FORM = Form(ProviderRecovered)


def transition_draft(name: str, transition: Transition) -> Draft:
    """Make the entry of a transition; `ref` is the provider."""
    payload, at = transition.payload, transition.at
    if isinstance(payload, ProviderUnavailable):
        return Draft(UNAVAILABLE, name, payload.provider, at, UNAVAILABLE_FORM.encode(payload))
    return Draft(RECOVERED, name, payload.provider, at, RECOVERED_FORM.encode(payload))


T = TypeVar("T")
Step = Callable[[HealthState], tuple[HealthState, T]]
"""Makes a new state of the known one; pure, so that it can be taken again on a newer state."""

CREDENTIAL: Final = "gateway"
"""All calls of a home share the keys of its configuration."""


class LiveHealth:
    """The availability of everything this process calls; may be shared by threads."""

    def __init__(
        self, clock: Clock, holder: str = "here", thresholds: Thresholds = THRESHOLDS
    ) -> None:
        self._clock = clock
        self._holder = holder
        self._thresholds = thresholds
        self._lock = threading.RLock()
        self._known = NOTHING_KNOWN
        self._out: dict[str, Outage] = {}
        self.rates = ProviderRates(clock)
        self.trouble = ""
        """Why the state cannot be shared with other processes now; empty where it can."""
        self.listener: Callable[[tuple[Transition, ...]], None] | None = None
        """Told whenever a scope went out or came back."""

    def now(self) -> dict[str, Health]:
        """Return the states that the facts of a new turn hold; all that is missing is healthy."""
        found = self.peek()
        if self._out or self._known.trials:
            instant = self._clock.now()
            if is_overdue(self._out, self._known.trials, instant, self._thresholds):
                self._tell(
                    self._take(lambda known: settle(known, instant, CREDENTIAL, self._thresholds))
                )
        return found

    def peek(self) -> dict[str, Health]:
        """Return the same for a preview: nothing is written."""
        self._look()
        limited = self.rates.out() if self.rates.is_limited else {}
        out, trials = self._out, self._known.trials
        if not out and not trials:
            return limited
        found = states(out, trials, self._clock.now(), self._thresholds)
        for provider in limited:
            if found.get(provider) != "unavailable":
                found[provider] = "rate_limited"
        return found

    def claim(self, model: str) -> bool:
        """Take the right to try a model that is half open; False while another turn has it.

        It lasts until the call ended, and no longer than a minute.
        """
        instant, holder = self._clock.now(), self._holder
        return self._take(
            lambda known: claim(known, model, holder, instant, CREDENTIAL, self._thresholds)
        )

    def begin(self, model: str, tokens: int = 0) -> None:
        """Note that a model is called: where it is half open, this call tries it."""
        if self.rates.is_limited:
            self.rates.note_call(provider_of(model), tokens)
        if self._out or self._known.trials:
            self.claim(model)

    def note_tokens(self, model: str, tokens: int) -> None:
        """Count by how many tokens a call differs in the end from its estimate."""
        self.rates.note_tokens(provider_of(model), tokens)

    def note_call_end(
        self, model: str, result: Result, models: Iterable[str], *, is_policy_refusal: bool = False
    ) -> tuple[Transition, ...]:
        """Take a call's end into account, and return the transitions it caused."""
        known = self._known
        if result == "success" and not (known.trials or known.availability.credentials):
            # INVARIANT: a success where nothing is known changes nothing, and costs nothing.
            return ()
        event = CallEvent(
            self._clock.now(), CREDENTIAL, provider_of(model), model, result, is_policy_refusal
        )
        return self._end(event, models)

    def _end(self, event: CallEvent, models: Iterable[str]) -> tuple[Transition, ...]:
        if not matters(self._known, event):
            return ()
        named = tuple(models)
        changes = self._take(
            lambda known: after_call(known, event, named, self._holder, self._thresholds)
        )
        self._tell(changes)
        return changes

    def clear(self, provider: str, model: str | None = None) -> tuple[Transition, ...]:
        """End the outage of a model, or of a provider and all its models.

        Returns the transitions, and tells no listener: the caller records them.
        """
        instant = self._clock.now()
        return self._take(lambda known: clear(known, provider, model, instant, CREDENTIAL))

    def reports(self, models: Iterable[str]) -> tuple[Report, ...]:
        """Return every scope as it is now."""
        self._look()
        instant = self._clock.now()
        found = health_reports(self._known, instant, CREDENTIAL, models, self._thresholds)
        free = self.rates.free_at() if self.rates.is_limited else {}
        return tuple(
            Report(each.provider, None, "rate_limited", clears_at=free[each.provider])
            if each.model is None and each.cause is None and each.provider in free
            else each
            for each in found
        )

    def outage_of(self, model: str) -> Report | None:
        """Return why turns are kept from a model, and until when; None where they are not.

        Its provider's trouble comes before its own.
        """
        own = (None, model)
        found = (each for each in self.reports((model,)) if each.provider == provider_of(model))
        return next(
            (each for each in found if each.model in own and each.clears_at is not None), None
        )

    def prepare(self) -> None:
        """Open the shared store before the first change; does nothing here."""

    def close(self) -> None:
        """Release the shared store; does nothing here."""

    def _look(self) -> None:
        """Take over the state of other processes, where it is shared."""

    def _take(self, step: Step[T]) -> T:
        """Take a step, keep the new state where it differs, and return the step's answer."""
        with self._lock:
            self._look()
            known, told = step(self._known)
            if not is_same(known, self._known):
                known, told = self._keep(step, (known, told))
                self._know(known)
            return told

    def _keep(self, step: Step[T], made: tuple[HealthState, T]) -> tuple[HealthState, T]:
        """Keep the state that a step made; return the state and answer that hold then."""
        del step
        return made

    def _know(self, known: HealthState) -> None:
        self._known = known
        self._out = known.out(CREDENTIAL)

    def _tell(self, changes: tuple[Transition, ...]) -> None:
        if changes and self.listener is not None:
            self.listener(changes)


_READ = msgspec.json.Decoder(HealthState)


class HomeHealth(LiveHealth):
    """Keeps the state in the store: each change is made there, on the newest state.

    INVARIANT: a store that cannot be read or written fails no turn. Until it can, this process
    keeps a state of its own, and `trouble` says why.
    """

    def __init__(
        self, clock: Clock, store: HealthStore, holder: str, thresholds: Thresholds = THRESHOLDS
    ) -> None:
        super().__init__(clock, holder, thresholds)
        self._store = store
        self._version = NOT_THERE

    def prepare(self) -> None:
        """Make the store, so that the first change does not wait for it."""
        with self._lock:
            try:
                self._store.prepare()
            except LedgerError as error:
                self.trouble = str(error)

    def close(self) -> None:
        """Let go of the store."""
        with self._lock:
            self._store.close()

    def _look(self) -> None:
        with self._lock:
            try:
                version = self._store.version()
                if version != self._version:
                    self._know(_known_in(self._store.read()))
                    self._version, self.trouble = version, ""
            except LedgerError as error:
                self.trouble = str(error)

    def _keep(self, step: Step[T], made: tuple[HealthState, T]) -> tuple[HealthState, T]:
        def fold(body: bytes) -> tuple[bytes, tuple[HealthState, T]]:
            known, told = step(_known_in(body))
            return msgspec.json.encode(known), (known, told)

        try:
            made = self._store.change(fold)
            self.trouble = ""
        except LedgerError as error:
            self.trouble = str(error)
        return made


def _known_in(body: bytes) -> HealthState:
    """Decode the stored state; one that another version wrote counts as nothing known."""
    try:
        return _READ.decode(body) if body else NOTHING_KNOWN
    except msgspec.MsgspecError:
        return NOTHING_KNOWN
