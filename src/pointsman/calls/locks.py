"""The turn lock: the model that began a turn goes on with it until the turn ends."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from msgspec import Struct

MOST_HELD: Final = 20_000
"""Of sessions, those that went on last: a turn that waits for a tool is stored besides."""


class TurnLock(Struct, frozen=True):
    """Which model a session's turn is bound to, and by which decision."""

    turn_id: str
    decision_id: str
    model: str
    calls: int = 1
    is_escalated: bool = False


class TurnLocks:
    """The locks of this process; what it does not hold any more is asked of `stored`."""

    def __init__(
        self,
        stored: Callable[[str], TurnLock | None] = lambda _session: None,
        most: int = MOST_HELD,
    ) -> None:
        self._stored = stored
        self._most = most
        self._held: OrderedDict[str, TurnLock] = OrderedDict()

    def of(self, session_id: str) -> TurnLock | None:
        """Give the lock of a session's last turn, also one from before a restart."""
        found = self._held.get(session_id)
        if found is not None:
            self._held.move_to_end(session_id)
            return found
        return self._stored(session_id)

    def hold(self, session_id: str, lock: TurnLock) -> None:
        """Bind a session's turn to a model."""
        self._held[session_id] = lock
        self._held.move_to_end(session_id)
        if len(self._held) > self._most:
            self._held.popitem(last=False)

    def release(self, session_id: str) -> None:
        """Forget a session's lock."""
        self._held.pop(session_id, None)
