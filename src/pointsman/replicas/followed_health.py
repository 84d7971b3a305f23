"""The health that replicas share, for a process that is none of them: a command, the terminal app.

It has no thread that follows the stream: it reads when it is asked, and tells at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pointsman.errors import PointsmanError
from pointsman.kernel.instant import Clock
from pointsman.replicas.replica import Shared
from pointsman.replicas.shared_health import SharedHealth
from pointsman.turns.registry.availability import Transition
from pointsman.turns.registry.call_event import CallEvent
from pointsman.turns.registry.models import provider_of
from pointsman.turns.registry.provider_state import THRESHOLDS, Thresholds
from pointsman.turns.registry.trials import TRIED_FOR_S


class FollowedHealth(SharedHealth):
    """The state of all replicas, read when it is asked for. Blocks on the network.

    INVARIANT: a stream that cannot be read fails no turn: this process then keeps a state of its
    own, and `trouble` says why.
    """

    def __init__(self, clock: Clock, shared: Shared, thresholds: Thresholds = THRESHOLDS) -> None:
        super().__init__(clock, shared.process, self._pump, thresholds)
        self._shared = shared
        self._place = ""
        self.is_speaker = False
        with suppress(PointsmanError):
            self.is_speaker = not any(each.is_alive for each in shared.state.peers())

    def claim(self, model: str) -> bool:
        """Take the right to try a model that is half open, from all replicas."""
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
        untold = self.untold()
        for number, body in enumerate(untold):
            try:
                self._shared.events.tell(body)
            except PointsmanError as error:
                self.trouble = str(error)
                self.read(untold[number:])
                return
        self._look()

    def close(self) -> None:
        """Let go of the database and of Redis."""
        if self._shared.redis is not None:
            self._shared.redis.close()
        self._shared.pool.close()
