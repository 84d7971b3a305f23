"""Which providers and models are out right now: a fold over the calls of this process.

After an outage one real request at a time is let through; nobody is called just to see whether it
answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pointsman.kernel.instant import Clock
from pointsman.recording.rates import ProviderRates
from pointsman.turns.availability import ALL_HEALTHY, Report, Transition, after, at, health, reports
from pointsman.turns.call_event import CallEvent, Result
from pointsman.turns.facts import Health
from pointsman.turns.registry import provider_of

CREDENTIAL: Final = "gateway"
"""All calls of a gateway share the keys of its configuration."""


class LiveHealth:
    """The availability of everything this process calls."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._state = ALL_HEALTHY
        self._out: dict[str, Health] = {}
        self._probed: dict[str, bool] = {}
        self.rates = ProviderRates(clock)
        self.listener: Callable[[tuple[Transition, ...]], None] | None = None
        """Told whenever something went out or came back."""

    def now(self) -> dict[str, Health]:
        """Give what is out, by provider and model; a scope that just came back takes one call."""
        limited = self.rates.out() if self.rates.is_limited else {}
        if not self._out and not self._probed:
            return limited
        instant = self._clock.now()
        self._state, changes = at(self._state, instant)
        self._tell(changes)
        found = health(self._state, instant, CREDENTIAL)
        for scope in self._out.keys() - found.keys():
            self._probed.setdefault(scope, False)
        self._out = found
        in_flight = {scope: "unavailable" for scope, is_busy in self._probed.items() if is_busy}
        return {**found, **in_flight, **limited}  # type: ignore[dict-item] # the literal's own word

    def begin(self, model: str, tokens: int = 0) -> None:
        """Note that a model is called: where it was out before, this is the probe."""
        if self.rates.is_limited:
            self.rates.began(provider_of(model), tokens)
        if self._probed:
            for scope in (model, provider_of(model)):
                if scope in self._probed:
                    self._probed[scope] = True

    def used(self, model: str, tokens: int) -> None:
        """Note how many tokens a call took in the end."""
        if self.rates.is_limited:
            self.rates.used(provider_of(model), tokens)

    def ended(
        self, model: str, result: Result, models: Iterable[str], *, is_policy_refusal: bool = False
    ) -> tuple[Transition, ...]:
        """Take a call's end into account, and give what changed by it."""
        if self._probed:
            self._probe_ended(model, is_back=result == "success")
        if result == "success" and not self._state.credentials:
            # INVARIANT: a success where nothing is known changes nothing.
            return ()
        instant = self._clock.now()
        provider = provider_of(model)
        event = CallEvent(instant, CREDENTIAL, provider, model, result, is_policy_refusal)
        self._state, changes = after(self._state, event, models)
        self._out = health(self._state, instant, CREDENTIAL)
        self._tell(changes)
        return changes

    def reports(self, models: Iterable[str]) -> tuple[Report, ...]:
        """Give every scope as it is now."""
        return reports(self._state, self._clock.now(), CREDENTIAL, models)

    def _tell(self, changes: tuple[Transition, ...]) -> None:
        if changes and self.listener is not None:
            self.listener(changes)

    def _probe_ended(self, model: str, *, is_back: bool) -> None:
        for scope in (model, provider_of(model)):
            if scope in self._probed:
                if is_back:
                    del self._probed[scope]
                else:
                    self._probed[scope] = False
