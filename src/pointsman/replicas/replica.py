"""One replica among several: sends heartbeats, counts ended calls, cleans up after dead replicas.

A thread of its own does all of it; `trouble` holds the failures, and each step is retried.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Raw, Struct

from pointsman.access.book import Spent, spent_in
from pointsman.access.folding import Folding, OutcomeEntry
from pointsman.access.holding_again import hold_again
from pointsman.access.shared_budgets import SharedBudgets
from pointsman.errors import LedgerError, PointsmanError, RedisEvicts, RedisUnavailable
from pointsman.kernel.canonical import Form
from pointsman.kernel.entry import Draft, Entry
from pointsman.kernel.instant import DAY, LATEST, SECOND, Clock, IdSource, Instant
from pointsman.kernel.record import OUTCOME, Names, OutcomeRecord, outcome_draft
from pointsman.recording.recorder import Recorder
from pointsman.replicas.epoch import EpochKeeper
from pointsman.replicas.shared_health import SharedHealth
from pointsman.replicas.shared_stores import SharedStores
from pointsman.storage.redis.eviction import Eviction
from pointsman.storage.sharing import Beat, Peer

TICK_S: Final = 0.05
EVENTS_S: Final = 0.1
BEAT_S: Final = 1.0
SWEEP_S: Final = 2.0
TIDY_S: Final = 20.0
LOST_AFTER: Final = 5 * SECOND
"""A call's end that the ledger does not show after so long was lost: it is recorded again."""

LAST_S: Final = 2.0
TURNS_KEPT: Final = 7 * DAY


class LostEnd(Struct, frozen=True, forbid_unknown_fields=True):
    """The detail of an outcome whose entry was lost: only the charge is known."""

    spent: Spent | None


LOST_FORM = Form(LostEnd)


class Replica:
    """The housekeeping of one replica."""

    def __init__(
        self,
        shared: SharedStores,
        budgets: SharedBudgets,
        health: SharedHealth,
        recorder: Recorder,
        sources: tuple[Clock, IdSource],
        about: Callable[[], tuple[str, str]],
    ) -> None:
        self._shared = shared
        self._budgets = budgets
        self._health = health
        self._recorder = recorder
        self._clock, self._ids = sources
        self._about = about
        self._folding = Folding(shared.durable, shared.quick)
        self._epochs: EpochKeeper | None = None
        if shared.quick is not None:
            self._epochs = EpochKeeper(
                shared.quick, shared.durable, shared.state, budgets, self._ids
            )
        self._outcomes: deque[tuple[int, str, bytes]] = deque()
        self._chain, self._mark = recorder.chain, 0
        self._place = ""
        self._was_known = self._was_freed = False
        self._life, self._alive_until = 1, 0.0
        budgets.life = self._current_life
        self._silent: dict[str, int] = {}
        """Replicas found dead at the last sweep, each with its last heartbeat."""
        self._missing: dict[str, int] = {}
        """Calls whose end the ledger did not show at the last look, each with how many entries had
        been handed in when it was first missed."""
        self._bell = threading.Event()
        self._is_ending = False
        self._due: dict[str, float] = {}
        self.trouble: dict[str, str] = {}
        """The error message of each failing part."""
        self.peers: tuple[Peer, ...] = ()
        self.following: list[Callable[[], None]] = []
        """Further steps of every tick, run in this thread; they may raise our own errors."""
        self.eviction: Eviction | None = None
        """The eviction policy of Redis; None before it was read."""
        self.warn: Callable[[str], None] = _ignore_warning
        """Called once for each new state that needs an operator."""
        self._thread = threading.Thread(target=self._run, name="replica", daemon=True)

    def begin(self) -> None:
        """Join the other replicas; count the earlier outcomes of this chain first."""
        self._shared.durable.adopt()
        self._mark = self._folding.catch_up(self._chain)
        self._beat()
        for step in (self._tend_epoch, self._read_events, self._look):
            self._try(step.__name__.strip("_"), step)
        self._try("eviction", self._look_at_eviction)
        self._thread.start()

    def enqueue_outcomes(self, entries: Sequence[Entry]) -> None:
        """Queue the outcomes among durable entries; called by the ledger's commit thread."""
        # They wait for the next tick, which counts all of them at once.
        self._outcomes.extend(
            (each.seq, each.id, each.payload) for each in entries if each.kind == OUTCOME
        )

    def wake(self) -> None:
        """Start the next tick at once."""
        self._bell.set()

    def end(self) -> None:
        """Count the ended calls, release the reservations, and leave. Blocks."""
        self._is_ending = True
        self._bell.set()
        if self._thread.is_alive():
            self._thread.join()
        self._try("spending", self._fold_last)
        self._try("events", self._publish_events)
        self._try("leave", self._leave)

    def _fold_last(self) -> None:
        """Count the ended calls, the last entries of the ledger included."""
        until = time.monotonic() + LAST_S
        while True:
            self._fold()
            self._folding.count()
            if not self._budgets.overdue(LATEST) or time.monotonic() > until:
                return
            time.sleep(TICK_S / 5)

    def _leave(self) -> None:
        # INVARIANT: a call is counted before its reservation is released. Entries that the ledger
        # did not take are left to the other replicas, which find this one dead.
        if not self._budgets.overdue(LATEST):
            counts = self._shared.quick or self._shared.durable
            counts.lapse(self._shared.process)
            self._shared.state.leave(self._shared.process)
        if self._shared.redis is not None:
            self._shared.redis.close()
        self._shared.pool.close()

    def _run(self) -> None:
        while not self._is_ending:
            self._wait()
            self._tick()

    def _wait(self) -> None:
        self._bell.wait(TICK_S)
        self._bell.clear()

    def _tick(self) -> None:
        self._try("spending", self._fold)
        self._try("counts", self._folding.count)
        if self._budgets.has_strays:
            self._try("counts", self._give_back)
        self._try("events", self._publish_events)
        if self._is_due("events", EVENTS_S):
            self._try("events", self._read_events)
        if self._is_due("beat", BEAT_S):
            self._try("beat", self._beat)
        if self._epochs is not None and (
            not self._epochs_joined() or self._is_due("epoch", BEAT_S)
        ):
            self._try("redis", self._tend_epoch)
        if self._is_due("sweep", SWEEP_S):
            self._try("sweep", self._sweep)
            self._try("ledger", self._record_lost_outcomes)
            self._try("look", self._look)
            self._try("eviction", self._look_at_eviction)
        if self._is_due("tidy", TIDY_S):
            self._try("tidy", self._tidy)
        for each in self.following:
            self._try("following", each)

    def _try(self, part: str, step: Callable[[], None]) -> None:
        try:
            step()
        except PointsmanError as error:
            self.trouble[part] = error.message
        else:
            self.trouble.pop(part, None)

    def _is_due(self, name: str, every_s: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(name, 0.0):
            return False
        self._due[name] = now + every_s
        return True

    def _epochs_joined(self) -> bool:
        return self._shared.quick is not None and bool(self._shared.quick.epoch)

    def _fold(self) -> None:
        """Count the calls that ended since the last tick."""
        if not self._outcomes:
            return
        taken, chain = [*self._outcomes], self._recorder.chain
        if chain != self._chain:
            # The ledger has moved to another chain: both are counted from their entries.
            self._folding.catch_up(self._chain)
            self._chain, self._mark = chain, self._folding.catch_up(chain)
        elif found := [
            OutcomeEntry(seq, name, spent_in(payload))
            for seq, name, payload in taken
            if seq >= self._mark
        ]:
            self._mark = self._folding.fold(chain, self._mark, found)
        for _ in taken:
            self._outcomes.popleft()
        # The sums are part of every new seed; the counts that exist already follow.
        self._budgets.mark_counted(name for _, name, _ in taken)

    def _publish_events(self) -> None:
        """Publish how calls ended; while the stream is down, this replica believes itself."""
        for body in (unsent := self._health.pop_unsent()):
            try:
                self._shared.events.tell(body)
            except PointsmanError:
                self._health.read(unsent[unsent.index(body) :])
                raise

    def _read_events(self) -> None:
        while found := self._shared.events.after(self._place):
            self._health.read([each.body for each in found])
            self._place = found[-1].place

    def _beat(self) -> None:
        quick = self._shared.quick
        # The epoch is read first: a replica in no epoch reserves nothing more.
        epoch = "" if quick is None or self._epochs is None else self._epochs.current_epoch
        holding = self._budgets.holding
        policy_id, version = self._about()
        began = _awake_s()
        is_new = self._shared.state.beat(
            Beat(
                self._shared.process, self._recorder.chain, policy_id, version, epoch, len(holding)
            ),
            self._shared.lease_s,
        )
        self._health.store_clock.compare(self._shared.state.now_us)
        if self._was_known and (is_new or not self._current_life()):
            self._was_freed = True
            self._life += 1
        self._was_known = True
        if self._was_freed and (quick is None or quick.epoch):
            # This replica was thought dead and its reservations were released: restore them.
            durable = self._shared.durable
            hold_again(self._budgets, self._folding, durable, quick or durable)
            self._was_freed = False
        if not self._was_freed:
            # INVARIANT: counted from before the heartbeat, so that this replica stops reserving
            # money before another may think it dead.
            self._alive_until = began + self._shared.lease_s

    def _current_life(self) -> int:
        return self._life if _awake_s() < self._alive_until else 0

    def _tend_epoch(self) -> None:
        if self._epochs is not None:
            self._epochs.tend(self._beat)

    def _look_at_eviction(self) -> None:
        """Raise if Redis may evict keys that must stay."""
        if self._shared.redis is None:
            return
        try:
            found = self._shared.redis.eviction()
        except RedisUnavailable:
            return  # the counts report it
        if found != self.eviction:
            self.eviction = found
            if found.is_harmful or not found.is_known:
                self.warn(f"{found.summary}: {found.hint}")
        if found.is_harmful:
            raise RedisEvicts(f"{found.summary}: {found.hint}")

    def _sweep(self) -> None:
        """Bury dead replicas, after counting the outcomes they left."""
        self.peers = tuple(self._shared.state.peers())
        alive = [each.beat.process for each in self.peers if each.is_alive]
        self._health.is_speaker = not alive or min(alive) == self._shared.process
        # INVARIANT: a call is counted before its reservation is released.
        self._folding.catch_up_all()
        known, self._silent = self._silent, {}
        counts = self._shared.quick or self._shared.durable
        for peer in self.peers:
            name = peer.beat.process
            if peer.is_alive or name == self._shared.process:
                continue
            # After a database stall all look dead: a living replica beats before the next sweep.
            if known.get(name) != peer.beat_at_us:
                self._silent[name] = peer.beat_at_us
            else:
                self._shared.state.bury(peer, partial(counts.lapse, name))

    def _look(self) -> None:
        self._budgets.look(self._clock.now())

    def _give_back(self) -> None:
        self._budgets.tidy(self._clock.now())

    def _tidy(self) -> None:
        now = self._clock.now()
        self._budgets.tidy(now)
        # INVARIANT: a call is counted before its reservation is released.
        self._folding.catch_up_all()
        self._budgets.audit()
        self._shared.durable.forget(now // DAY - 2)
        self._shared.state.forget(Instant(max(0, now - TURNS_KEPT)))

    def _record_lost_outcomes(self) -> None:
        """Record the ends of calls whose entries the ledger did not take."""
        overdue = self._budgets.overdue(Instant(self._clock.now() - LOST_AFTER))
        known, submitted = self._missing, self._recorder.received_count
        self._missing = {name: known.get(name, submitted) for name, _ in overdue}
        settled = self._recorder.settled_count
        for name, spent in overdue:
            # INVARIANT: entries are settled in order, so that an entry the ledger still writes is
            # never taken for lost: it would be recorded, and charged, twice.
            if name not in known or known[name] > settled:
                continue
            if self._shared.durable.is_recorded(name):
                # Another replica counted it, thinking this one dead.
                self._budgets.mark_counted((name,))
                continue
            if not self._recorder.health.is_writable:
                raise LedgerError("the ledger takes nothing now")
            self._recorder.record(_lost_outcome_draft(name, spent, self._clock.now()))


def _awake_s() -> float:
    """Return monotonic seconds that include the machine's sleep, where the system counts it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def _ignore_warning(message: str) -> None:
    """Drop a warning: no operator listens."""
    del message


def _lost_outcome_draft(name: str, spent: Spent | None, now: Instant) -> Draft:
    """Return the entry of a lost call end; only its charge is still known."""
    detail = LOST_FORM.encode(LostEnd(spent))
    return outcome_draft(Names(name, "", now), OutcomeRecord("unknown", Raw(detail)))
