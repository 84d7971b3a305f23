"""The other gateways that serve the same home: their changes are seen at the next request here.

A gateway that is alone looks at one number a round of its event loop and does nothing else. Once it
had company, it stays in this way of working: its own memory may be behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from pointsman.calls.flow import TurnLock, TurnLocks
from pointsman.errors import LedgerError
from pointsman.kernel.instant import DAY, SECOND, Clock, Instant
from pointsman.placement.facts import Taint
from pointsman.recording.rates import Bucket, ProviderRates
from pointsman.recording.taints import Taints
from pointsman.storage.stores.live import BUCKETS, GATEWAYS, TAINTS, BucketRow, HeldTurn, LiveStore

KEYS: Final = "keys"
PINS: Final = "pins"
POLICY: Final = "policy"

TURNS_KEPT: Final = DAY
TAINTS_KEPT: Final = 60 * SECOND
"""Long after every gateway has read them in the ledger."""

_TAINT: Final = msgspec.json.Decoder(Taint)


class Neighbours:
    """The link to the others: tells them of changes here, and learns of theirs."""

    def __init__(self, store: LiveStore, clock: Clock, *, is_expected: bool) -> None:
        self.store = store
        self._clock = clock
        self.has_company = is_expected
        """Whether another gateway serves this home, or did since this one began."""
        self._version = -1
        self._seen: dict[str, int] = {}
        self._followers: dict[str, Callable[[], object]] = {}
        self._last_taint = 0
        self._has_looked = False

    def follow(self, name: str, learn: Callable[[], object]) -> None:
        """Have something done at the first look after others changed a kind of thing."""
        self._followers[name] = learn

    def look_once(self) -> None:
        """Learn of changes by others, once a round of the event loop.

        A round begins by waiting for the network, so that its requests were sent before it: each
        change that was answered before them is seen. While no other gateway serves, a file that
        cannot be read fails nothing.
        """
        if self._has_looked:
            return
        try:
            self.look()
        except LedgerError:
            if self.has_company:
                raise
        self._has_looked = True
        asyncio.get_running_loop().call_soon(self._begin_round)

    def _begin_round(self) -> None:
        self._has_looked = False

    def look(self) -> None:
        """Learn of changes by others. Takes microseconds where there are none."""
        version = self.store.version()
        if version == self._version:
            return
        marks = self.store.marks()
        changed = [name for name, number in marks.items() if number != self._seen.get(name)]
        if GATEWAYS in changed:
            self.has_company = self.has_company or len(self.store.living()) > 1
        for name in changed:
            learn = self._followers.get(name)
            if learn is not None:
                learn()
        # Only now: a change that could not be read is tried again at the next look.
        self._version, self._seen = version, marks

    def announce(self, name: str) -> None:
        """Tell the others that a kind of thing was changed; it is in its store already."""
        self.store.mark(name)

    def share_taints(self, taints: Taints) -> None:
        """Have sessions that stay here stay at every gateway, before an answer says so."""

        def tell(session_id: str, taint: Taint | None) -> None:
            if self.has_company:
                now = self._clock.now()
                body = b"" if taint is None else msgspec.json.encode(taint)
                self.store.add_taint(session_id, body, now, now - TAINTS_KEPT)

        def learn() -> None:
            for number, session_id, body in self.store.taints_after(self._last_taint):
                taints.take(session_id, _TAINT.decode(body) if body else None)
                self._last_taint = number

        taints.listener = tell
        self.follow(TAINTS, learn)

    def share_rates(self, rates: ProviderRates) -> None:
        """Count the limits of providers together."""
        rates.store = self
        self.follow(BUCKETS, rates.take_over)

    @property
    def is_shared(self) -> bool:
        """Whether the limits of providers are counted together now."""
        return self.has_company

    def buckets(self) -> dict[str, Bucket]:
        """Return the rest of each limit."""
        return {name: _bucket(row) for name, row in self.store.buckets().items()}

    def change_bucket(self, name: str, step: Callable[[Bucket | None], Bucket]) -> None:
        """Change the rest of a limit, in one step."""

        def change(row: BucketRow | None) -> BucketRow:
            made = step(None if row is None else _bucket(row))
            return made.per_minute, made.level, made.at

        self.store.change_bucket(name, change)


def _bucket(row: BucketRow) -> Bucket:
    return Bucket(row[0], row[1], Instant(row[2]))


class SharedTurnLocks(TurnLocks):
    """The locks of all gateways of a home; those of this one alone while it has no company."""

    def __init__(
        self, neighbours: Neighbours, stored: Callable[[str], TurnLock | None], clock: Clock
    ) -> None:
        super().__init__(stored)
        self._neighbours = neighbours
        self._clock = clock

    def of(self, session_id: str) -> TurnLock | None:
        """Return the lock of a session's last turn, whichever gateway served it."""
        if not self._neighbours.has_company:
            return super().of(session_id)
        found = self._neighbours.store.find_turn(session_id)
        return self._stored(session_id) if found is None else TurnLock(*found)

    def hold(self, session_id: str, lock: TurnLock) -> None:
        """Bind a session's turn to a model; the next request may come to any gateway."""
        if not self._neighbours.has_company:
            super().hold(session_id, lock)
        elif lock.is_stored or self.of(session_id) is not None:
            held = HeldTurn(
                lock.turn_id, lock.decision_id, lock.model, lock.calls, lock.is_escalated,
                lock.is_stored,
            )  # fmt: skip
            self._neighbours.store.hold_turn(session_id, held, self._clock.now())
