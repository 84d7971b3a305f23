"""Which providers and models are out, as all replicas see it: one stream of calls, one fold.

A replica tells how its calls ended and believes only what it reads back, so that all come to the
same state. After an outage one real request at a time is let through, over all replicas.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from pointsman.kernel.instant import Clock
from pointsman.recording.health import CREDENTIAL, LiveHealth
from pointsman.turns.registry.availability import AvailabilityState, Transition
from pointsman.turns.registry.call_event import CallEvent
from pointsman.turns.registry.provider_state import THRESHOLDS, Thresholds
from pointsman.turns.registry.trials import after_call, clear, matters

MOST_UNTOLD: Final = 10_000


class ToldCall(Struct, frozen=True, omit_defaults=True):
    """How a call ended, which process tells it, and the models configured there.

    Where `is_clear`, no call ended: an operator cleared the model, or without one the provider.
    """

    process: str
    event: CallEvent
    models: tuple[str, ...]
    is_clear: bool = False


_READ = msgspec.json.Decoder(ToldCall)


class SharedHealth(LiveHealth):
    """The availability of everything that all replicas call; may be shared by threads."""

    def __init__(
        self,
        clock: Clock,
        process: str,
        wake: Callable[[], None],
        thresholds: Thresholds = THRESHOLDS,
    ) -> None:
        super().__init__(clock, process, thresholds)
        self._wake = wake
        self._untold: deque[bytes] = deque(maxlen=MOST_UNTOLD)
        self.is_speaker = True
        """Whether this replica records what ends by itself; one does for all."""

    @property
    def state(self) -> AvailabilityState:
        """What every replica has come to."""
        return self._known.availability

    def half_open(self) -> tuple[str, ...]:
        """Name the scopes that are to be tried, by one request at a time."""
        if not self._out and not self._known.trials:
            return ()
        return tuple(scope for scope, state in self.now().items() if state == "half_open")

    def clear(self, provider: str, model: str | None = None) -> tuple[Transition, ...]:
        """End an outage for all replicas; it counts here when it is read back."""
        self._look()
        instant = self._clock.now()
        event = CallEvent(instant, CREDENTIAL, provider, model or "", "success")
        _, changes = clear(self._known, provider, model, instant, CREDENTIAL)
        self._send(ToldCall(self._holder, event, (), is_clear=True))
        return changes

    def _end(self, event: CallEvent, models: Iterable[str]) -> tuple[Transition, ...]:
        """Tell all replicas of a call's end; it counts here when it is read back."""
        if matters(self._known, event):
            self._send(ToldCall(self._holder, event, tuple(models)))
        return ()

    def _send(self, told: ToldCall) -> None:
        self._untold.append(msgspec.json.encode(told))
        self._wake()

    def untold(self) -> list[bytes]:
        """Give what is to be told, and forget it."""
        found = []
        while self._untold:
            found.append(self._untold.popleft())
        return found

    def read(self, bodies: Sequence[bytes]) -> None:
        """Take in what was told, in the order in which all replicas see it."""
        for body in bodies:
            self._read(_READ.decode(body))

    def _read(self, told: ToldCall) -> None:
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
        # What ends by itself is noticed by all, and recorded by one.
        if self.is_speaker:
            super()._tell(changes)
