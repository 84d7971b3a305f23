"""The health of a home's providers as all its processes know it, also after a restart.

Processes on one machine share a file; replicas on several share a stream (`replicas`).
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from pointsman.errors import LedgerError
from pointsman.kernel.instant import Clock
from pointsman.recording.health import LiveHealth, Step
from pointsman.storage.stores.health import NOT_THERE, HealthStore
from pointsman.turns.registry.provider_state import THRESHOLDS, Thresholds
from pointsman.turns.registry.trials import NOTHING_KNOWN, HealthState

T = TypeVar("T")

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
