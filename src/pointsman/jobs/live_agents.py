"""The agents as they are now: `agents.yaml`, and every recorded event in the ledger's order.

Folded once and then only onwards. An entry added before one that was folded already, by a process
whose clock is behind, makes all of it fold again: the order of the ledger counts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pointsman.agents.compiled import compile_policy
from pointsman.agents.modules.event import SELFREP, SelfRepEvent, read_selfrep
from pointsman.agents.modules.folding import fold_events
from pointsman.agents.modules.selfrep import SelfRep, Tail
from pointsman.agents.modules.trust import EVENT_FORM, TrustEvent
from pointsman.agents.policy import POLICY_FORM
from pointsman.agents.rules.actions import GovernedAgents, apply_event
from pointsman.errors import InputError, PointsmanError
from pointsman.jobs.entries import TRUST
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import EPOCH, LATEST, Instant
from pointsman.storage.home import Home
from pointsman.storage.policies.agents_file import AgentsFiles, AgentsInForce
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import LedgerReader, Stored

_Place = tuple[int, int, int]
"""Where an entry stands in the order of the ledger: instant, chain, place in the chain."""

_START: Final[_Place] = (-1, -1, -1)


class Live(Struct, frozen=True):
    """The policy and modules in force now; `unfolded` are entries that could not be folded."""

    in_force: AgentsInForce
    selfrep: SelfRep
    unfolded: tuple[str, ...] = ()


class LiveAgents:
    """The live agents of one home. May be shared by threads."""

    def __init__(self, home: Home, files: AgentsFiles) -> None:
        self._home = home
        self._files = files
        self._lock = threading.Lock()
        self._fold: _Fold | None = None

    def current(self) -> Live:
        """Return the agents in force now."""
        with self._lock:
            base = self._files.current()
            if self._fold is None or self._fold.base is not base:
                self._fold = _Fold(base)
            if self._home.database.exists():
                path = self._home.database
                with told_errors(path), closing(LedgerReader(path)) as ledger:
                    self._fold = _fold_new_entries(self._fold, ledger)
            return self._fold.live()

    def check(self, event: SelfRepEvent) -> None:
        """Raise an InputError where an event could not be folded now."""
        live = self.current()
        house = (live.in_force.policy, live.selfrep)
        apply_event(house, event, LATEST)


class _Fold:
    """A fold under way: how far each chain was read, and the agents so far."""

    def __init__(self, base: AgentsInForce) -> None:
        self.base = base
        self.sizes: dict[int, int] = {}
        self.heads: dict[int, Instant] = {}
        self.last = _START
        self._house: GovernedAgents = (base.policy, base.selfrep)
        self._requests: set[str] = set()
        self._events: set[str] = set()
        self._unfolded: list[str] = []
        self._live: Live | None = None

    def live(self) -> Live:
        """Return the agents so far."""
        if self._live is None:
            policy, selfrep = self._house
            in_force = self.base
            if policy is not self.base.policy:
                ready, policy_id = compile_policy(policy), POLICY_FORM.id(policy)
                in_force = replace(self.base, ready=ready, policy_id=policy_id)
            in_force = replace(in_force, selfrep=selfrep)
            self._live = Live(in_force, selfrep, tuple(self._unfolded))
        return self._live

    def fold(self, stored: Stored) -> None:
        """Fold one entry; one that cannot be folded is reported, and changes nothing."""
        self.last = ledger_place(stored)
        entry = stored.entry
        try:
            if entry.kind.startswith(TRUST):
                self._fold_trust(EVENT_FORM.decode(entry.payload))
            else:
                self._fold_governed(entry)
        except PointsmanError as error:
            self._unfolded.append(f"{entry.kind} {entry.id}: {error.message}")
        self._live = None

    def _fold_trust(self, event: TrustEvent) -> None:
        policy, selfrep = self._house
        # An event's id names it: recorded again by a resumed job, it counts once.
        if event.event_id in self._events or selfrep.module(event.node_id) is None:
            return
        self._events.add(event.event_id)
        # Jobs of many seeds follow on each other here: only the count of the tail goes on.
        onwards = replace(selfrep, tail=Tail(selfrep.tail.events, "", -1))
        self._house = (policy, fold_events(onwards, [event]))

    def _fold_governed(self, entry: Entry) -> None:
        event = read_selfrep(entry.kind, entry.payload)
        if event is None:
            raise InputError("an event of a kind that is not known here")
        if event.request_id not in self._requests:
            self._requests.add(event.request_id)
            self._house = apply_event(self._house, event, entry.at)


def _fold_new_entries(fold: _Fold, ledger: LedgerReader) -> _Fold:
    """Fold the entries recorded since, or begin anew where they do not come last."""
    sizes = {number: ledger.size(number) for number in ledger.chains().values()}
    if sizes == fold.sizes:
        return fold
    fresh = sorted(_new_entries(fold, ledger, sizes), key=ledger_place)
    if fresh and ledger_place(fresh[0]) < fold.last:
        fold = _Fold(fold.base)
        fresh = sorted(_new_entries(fold, ledger, sizes), key=ledger_place)
    for stored in fresh:
        fold.fold(stored)
    fold.heads, fold.sizes = _heads(ledger, sizes), sizes
    return fold


def _new_entries(fold: _Fold, ledger: LedgerReader, sizes: dict[int, int]) -> Iterator[Stored]:
    """Yield the entries no fold has seen, by the index over kinds: a ledger holds much else.

    A chain's time never goes back, so nothing new is older than the heads were.
    """
    grown = [number for number, size in sizes.items() if size > fold.sizes.get(number, 0)]
    since = min((fold.heads.get(number, EPOCH) for number in grown), default=EPOCH)
    for each in chain(ledger.of_kind(SELFREP, since), ledger.of_kind(TRUST, since)):
        # Entries added after the sizes were read are for the next time.
        if fold.sizes.get(each.chain, 0) <= each.entry.seq < sizes.get(each.chain, 0):
            yield each


def _heads(ledger: LedgerReader, sizes: dict[int, int]) -> dict[int, Instant]:
    """Return the instant of each chain's last entry."""
    found = {}
    for number, size in sizes.items():
        for entry in ledger.chain_entries(number, size - 1):
            found[number] = entry.at
            break
    return found


def ledger_place(stored: Stored) -> _Place:
    """Return the place of an entry in the order of the ledger."""
    return (stored.entry.at, stored.chain, stored.entry.seq)
