"""The availability of providers and models as all replicas see it: one stream of calls, one fold.

A replica publishes how its calls ended and believes only the stream it reads back, so that all
reach the same state. After an outage one real request at a time is let through, over all replicas.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from pointsman.errors import PointsmanError
from pointsman.kernel.instant import Clock, Instant
from pointsman.recording.health import CREDENTIAL, LiveHealth
from pointsman.replicas.shared_stores import SharedStores
from pointsman.turns.registry.availability import AvailabilityState, Transition
from pointsman.turns.registry.call_event import CallEvent
from pointsman.turns.registry.models import provider_of
from pointsman.turns.registry.provider_state import THRESHOLDS, Thresholds
from pointsman.turns.registry.trials import TRIED_FOR_S, after_call, clear, matters

MOST_UNSENT: Final = 10_000


class CallReport(Struct, frozen=True, omit_defaults=True):
    """How a call ended, the process that reports it, and the models configured there.

    Where `is_clear`, no call ended: an operator cleared the model, or without one the provider.
    """

    process: str
    event: CallEvent
    models: tuple[str, ...]
    is_clear: bool = False


_READ = msgspec.json.Decoder(CallReport)


class StoreClock:
    """The store's time, by this machine's clock and how far that was seen to be ahead.

    Outages are as long on every machine, whichever clock is wrong.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_us = 0

    def now(self) -> Instant:
        """Return the store's present instant."""
        return Instant(self._clock.now() - self._ahead_us)

    def compare(self, store_time: Callable[[], int]) -> None:
        """Measure how far the machine's clock is ahead of the store's."""
        before = self._clock.now()
        told = store_time()
        self._ahead_us = (before + self._clock.now()) // 2 - told


class SharedHealth(LiveHealth):
    """The availability that all replicas share; safe to use from several threads.

    Only the providers whose models are all local are each process's own: another host's
    Ollama is another Ollama.
    """

    def __init__(
        self,
        clock: Clock,
        process: str,
        wake: Callable[[], None],
        thresholds: Thresholds = THRESHOLDS,
    ) -> None:
        self.store_clock = StoreClock(clock)
        super().__init__(self.store_clock, process, thresholds)
        self._wake = wake
        self.is_own: Callable[[str], bool] = lambda _provider: False
        """Tells whether a provider is this host's own."""
        self._unsent: deque[bytes] = deque(maxlen=MOST_UNSENT)
        self.is_speaker = True
        """Whether this replica records outages that expire; one replica does for all."""

    @property
    def state(self) -> AvailabilityState:
        """The availability that every replica has folded from the stream."""
        return self._known.availability

    def half_open(self) -> tuple[str, ...]:
        """Return the scopes that one request at a time may try."""
        if not self._out and not self._known.trials:
            return ()
        return tuple(
            scope
            for scope, state in self.now().items()
            if state == "half_open" and not self.is_own(provider_of(scope))
        )

    def clear(self, provider: str, model: str | None = None) -> tuple[Transition, ...]:
        """End an outage for all replicas; it counts here when it is read back."""
        self._look()
        instant = self._clock.now()
        event = CallEvent(instant, CREDENTIAL, provider, model or "", "success")
        _, changes = clear(self._known, provider, model, instant, CREDENTIAL)
        self._enqueue(CallReport(self._holder, event, (), is_clear=True))
        return changes

    def _end(self, event: CallEvent, models: Iterable[str]) -> tuple[Transition, ...]:
        """Publish a call's end to all replicas; it counts here when it is read back."""
        if self.is_own(event.provider):
            return super()._end(event, models)
        if matters(self._known, event):
            self._enqueue(CallReport(self._holder, event, tuple(models)))
        return ()

    def _enqueue(self, told: CallReport) -> None:
        self._unsent.append(msgspec.json.encode(told))
        self._wake()

    def pop_unsent(self) -> list[bytes]:
        """Return the reports that wait to be published, and clear the queue."""
        found = []
        while self._unsent:
            found.append(self._unsent.popleft())
        return found

    def read(self, bodies: Sequence[bytes]) -> None:
        """Fold reports in the order in which all replicas see them."""
        for body in bodies:
            self._fold_report(_READ.decode(body))

    def _fold_report(self, told: CallReport) -> None:
        event = told.event
        with self._lock:
            if told.is_clear:
                scope = (event.provider, event.model or None)
                known, changes = clear(self._known, *scope, event.at, CREDENTIAL)
            else:
                known, changes = after_call(
                    self._known, event, told.models, told.process, self._thresholds
                )
            self._know(known)
        # The process that cleared a scope has recorded it.
        if told.process == self._holder and not told.is_clear:
            super()._tell(changes)

    def _tell(self, changes: tuple[Transition, ...]) -> None:
        # Every replica notices an outage that expires; one records it.
        if not self.is_speaker:
            changes = tuple(each for each in changes if self.is_own(each.payload.provider))
        super()._tell(changes)


class PolledHealth(SharedHealth):
    """The shared health for a process that is no replica: a command, the terminal app.

    It has no thread that follows the stream: it reads on demand and publishes at once, and blocks
    on the network.

    INVARIANT: a stream that cannot be read fails no turn: this process then keeps a state of its
    own, and `trouble` says why.
    """

    def __init__(
        self, clock: Clock, shared: SharedStores, thresholds: Thresholds = THRESHOLDS
    ) -> None:
        super().__init__(clock, shared.process, self._pump, thresholds)
        self._shared = shared
        self._place = ""
        self.is_speaker = False
        with suppress(PointsmanError):
            self.store_clock.compare(shared.state.now_us)
            self.is_speaker = not any(each.is_alive for each in shared.state.peers())

    def claim(self, model: str) -> bool:
        """Claim the trial of a half-open model before all replicas."""
        half_open = self.half_open()
        try:
            for scope in (provider_of(model), model):
                if scope in half_open and not self._claim(scope):
                    return False
        except PointsmanError as error:
            self.trouble = str(error)
        return super().claim(model)

    def _claim(self, scope: str) -> bool:
        return self._shared.claims.claim(f"probe:{scope}", self._holder, TRIED_FOR_S)

    def _end(self, event: CallEvent, models: Iterable[str]) -> tuple[Transition, ...]:
        trials = self._known.trials
        held = [
            scope
            for scope in (event.provider, event.model)
            if scope in trials and trials[scope].holder == self._holder
        ]
        super()._end(event, models)
        with suppress(PointsmanError):
            for scope in held:
                self._shared.claims.give_up(f"probe:{scope}", self._holder)
        return ()

    def _look(self) -> None:
        with self._lock:
            try:
                while found := self._shared.events.after(self._place):
                    self.read([each.body for each in found])
                    self._place = found[-1].place
                self.trouble = ""
            except PointsmanError as error:
                self.trouble = str(error)

    def _pump(self) -> None:
        unsent = self.pop_unsent()
        for number, body in enumerate(unsent):
            try:
                self._shared.events.tell(body)
            except PointsmanError as error:
                self.trouble = str(error)
                self.read(unsent[number:])
                return
        self._look()

    def close(self) -> None:
        """Close the connections to the database and to Redis."""
        if self._shared.redis is not None:
            self._shared.redis.close()
        self._shared.pool.close()
