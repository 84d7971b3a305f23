"""Which providers and models are out, as all replicas see it: one stream of calls, one fold.

A replica tells how its calls ended and believes only what it reads back, so that all come to the
same state. After an outage one real request at a time is let through, over all replicas.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from pointsman.kernel.instant import Clock
from pointsman.recording.health import CREDENTIAL, LiveHealth
from pointsman.turns.availability import AvailabilityState, Transition, after, health
from pointsman.turns.call_event import CallEvent, Result
from pointsman.turns.facts import Health
from pointsman.turns.registry import provider_of

MOST_UNTOLD: Final = 10_000


class ToldCall(Struct, frozen=True):
    """How a call ended, who tells it, and the models configured there."""

    process: str
    event: CallEvent
    models: tuple[str, ...]


_READ = msgspec.json.Decoder(ToldCall)


class SharedHealth(LiveHealth):
    """The availability of everything that all replicas call; may be shared by threads."""

    def __init__(self, clock: Clock, process: str, wake: Callable[[], None]) -> None:
        super().__init__(clock)
        self._process = process
        self._wake = wake
        self._untold: deque[bytes] = deque(maxlen=MOST_UNTOLD)
        self._lock = threading.RLock()
        self.is_speaker = True
        """Whether this replica records what ends by itself; one does for all."""

    @property
    def state(self) -> AvailabilityState:
        """What every replica has come to."""
        return self._state

    def now(self) -> dict[str, Health]:
        """Give what is out, by provider and model."""
        with self._lock:
            return super().now()

    def half_open(self) -> tuple[str, ...]:
        """Name the scopes that were out and are to be tried, by one request at a time."""
        if not self._out and not self._probed:
            return ()
        with self._lock:
            super().now()
            return tuple(scope for scope, is_busy in self._probed.items() if not is_busy)

    def ended(
        self, model: str, result: Result, models: Iterable[str], *, is_policy_refusal: bool = False
    ) -> tuple[Transition, ...]:
        """Tell all replicas of a call's end; it counts here when it is read back."""
        scopes = (model, provider_of(model))
        with self._lock:
            is_news = result != "success" or bool(self._state.credentials)
            is_news = is_news or any(scope in self._probed for scope in scopes)
            if self._probed:
                self._probe_ended(model, is_back=result == "success")
        if is_news:
            event = CallEvent(
                self._clock.now(), CREDENTIAL, provider_of(model), model, result, is_policy_refusal
            )
            told = ToldCall(self._process, event, tuple(models))
            self._untold.append(msgspec.json.encode(told))
            self._wake()
        return ()

    def untold(self) -> list[bytes]:
        """Give what is to be told, and forget it."""
        found = []
        while self._untold:
            found.append(self._untold.popleft())
        return found

    def read(self, bodies: Sequence[bytes]) -> None:
        """Take in what was told, in the order in which all replicas see it."""
        for body in bodies:
            self._take(_READ.decode(body))

    def _take(self, told: ToldCall) -> None:
        with self._lock:
            self._state, changes = after(self._state, told.event, told.models)
            before, self._out = self._out, health(self._state, self._clock.now(), CREDENTIAL)
            if told.event.result == "success":
                for scope in (told.event.model, told.event.provider):
                    self._probed.pop(scope, None)
            else:
                # What went out again is tried again when it is due.
                for scope in before.keys() - self._out.keys():
                    self._probed.setdefault(scope, False)
        if told.process == self._process:
            super()._tell(changes)

    def _tell(self, changes: tuple[Transition, ...]) -> None:
        # What ends by itself is noticed by all, and recorded by one.
        if self.is_speaker:
            super()._tell(changes)
