"""One replica among several: gives signs of life, counts what ended, and cleans up after the dead.

A thread of its own does all of it; what fails is told by `trouble` and tried again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Raw, Struct

from pointsman.access.folding import Folding, OutcomeEntry
from pointsman.access.holding_again import hold_again
from pointsman.access.shared_budgets import SharedBudgets
from pointsman.access.spent import Spent, spent_in
from pointsman.errors import LedgerError, PointsmanError, RedisEvicts, RedisUnavailable
from pointsman.kernel.canonical import Form
from pointsman.kernel.entry import Draft, Entry
from pointsman.kernel.instant import DAY, LATEST, SECOND, Clock, IdSource, Instant
from pointsman.kernel.record import OUTCOME, Names, Outcome, outcome_draft
from pointsman.recording.recorder import Recorder
from pointsman.replicas.epoch import EpochKeeper
from pointsman.replicas.shared_health import SharedHealth
from pointsman.storage.postgres.shared.pool import Pool
from pointsman.storage.postgres.shared.reserves import PostgresReserves
from pointsman.storage.postgres.shared.state import SharedState
from pointsman.storage.redis.eviction import Eviction
from pointsman.storage.redis.reserves import RedisReserves
from pointsman.storage.redis.state import RedisState
from pointsman.storage.sharing import Beat, Claims, Events, Peer

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
    """The detail of an outcome whose entry was lost: what was charged is all that is known."""

    spent: Spent | None


LOST_FORM = Form(LostEnd)


class Shared(Struct, frozen=True):
    """Where replicas keep what they share."""

    process: str
    pool: Pool
    durable: PostgresReserves
    state: SharedState
    quick: RedisReserves | None = None
    redis: RedisState | None = None
    lease_s: float = 10.0
    """A replica that gave no sign of life for so long is dead: what it holds is free again."""

    @property
    def events(self) -> Events:
        """The stream of how calls ended."""
        return self.redis or self.state

    @property
    def claims(self) -> Claims:
        """What one replica at a time may do."""
        return self.redis or self.state


class Replica:
    """The housekeeping of one replica."""

    def __init__(
        self,
        shared: Shared,
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
        budgets.life = self._living
        self._silent: dict[str, int] = {}
        """Who was found dead at the last look, with its last sign of life."""
        self._missing: dict[str, int] = {}
        """Calls whose end the ledger did not show at the last look, each with how many entries had
        been handed in when it was first missed."""
        self._bell = threading.Event()
        self._is_ending = False
        self._due: dict[str, float] = {}
        self.trouble: dict[str, str] = {}
        """What fails now, by part."""
        self.peers: tuple[Peer, ...] = ()
        self.following: list[Callable[[], None]] = []
        """What else is done with every tick, in this thread; may raise our own errors."""
        self.eviction: Eviction | None = None
        """What Redis says it forgets; None before it was asked."""
        self.warned: Callable[[str], None] = _unheard
        """Is told once of what an operator should see to, as long as it stays the same."""
        self._thread = threading.Thread(target=self._run, name="replica", daemon=True)

    def begin(self) -> None:
        """Join the others; what this chain recorded before is counted first."""
        self._shared.durable.adopt()
        self._mark = self._folding.catch_up(self._chain)
        self._beat()
        for step in (self._tend_epoch, self._read_events, self._look):
            self._try(step.__name__.strip("_"), step)
        self._try("eviction", self._look_at_eviction)
        self._thread.start()

    def observed(self, entries: Sequence[Entry]) -> None:
        """Take what the ledger made durable; from its commit thread."""
        # They wait for the next tick: what ends within it is counted in one go.
        self._outcomes.extend(
            (each.seq, each.id, each.payload) for each in entries if each.kind == OUTCOME
        )

    def wake(self) -> None:
        """Have the next tick at once."""
        self._bell.set()

    def end(self) -> None:
        """Count what ended, give back what is held, and leave. Blocks."""
        self._is_ending = True
        self._bell.set()
        if self._thread.is_alive():
            self._thread.join()
        self._try("spending", self._fold_last)
        self._try("events", self._speak)
        self._try("leave", self._leave)

    def _fold_last(self) -> None:
        """Count what ended, the last entries of the ledger included."""
        until = time.monotonic() + LAST_S
        while True:
            self._fold()
            self._folding.count()
            if not self._budgets.overdue(LATEST) or time.monotonic() > until:
                return
            time.sleep(TICK_S / 5)

    def _leave(self) -> None:
        # INVARIANT: what ended is counted before what is held for it is freed. What the ledger did
        # not take is left to the others: they find this replica dead.
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
        self._try("events", self._speak)
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
            self._try("ledger", self._tell_lost)
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
        """Count what ended since the last time."""
        if not self._outcomes:
            return
        taken, chain = [*self._outcomes], self._recorder.chain
        if chain != self._chain:
            # The ledger has moved to another chain: both are counted by what they say.
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
        # What is in the sums is part of every seed; counts that exist already follow.
        self._budgets.counted(name for _, name, _ in taken)

    def _speak(self) -> None:
        """Tell how calls ended; while nobody can be told, this replica believes itself."""
        for body in (untold := self._health.untold()):
            try:
                self._shared.events.tell(body)
            except PointsmanError:
                self._health.read(untold[untold.index(body) :])
                raise

    def _read_events(self) -> None:
        while found := self._shared.events.after(self._place):
            self._health.read([each.body for each in found])
            self._place = found[-1].place

    def _beat(self) -> None:
        quick = self._shared.quick
        # The epoch is looked at first: who is in none sets nothing aside any more.
        epoch = "" if quick is None or self._epochs is None else self._epochs.told
        holding = self._budgets.holding
        policy_id, version = self._about()
        began = _awake_s()
        is_new = self._shared.state.beat(
            Beat(
                self._shared.process, self._recorder.chain, policy_id, version, epoch, len(holding)
            ),
            self._shared.lease_s,
        )
        if self._was_known and (is_new or not self._living()):
            self._was_freed = True
            self._life += 1
        self._was_known = True
        if self._was_freed and (quick is None or quick.epoch):
            # It was thought dead, and what it holds was freed: it holds it all the same.
            durable = self._shared.durable
            hold_again(self._budgets, self._folding, durable, quick or durable)
            self._was_freed = False
        if not self._was_freed:
            # INVARIANT: counted from before the sign was given, so that this replica ceases to
            # set money aside before anybody may think it dead.
            self._alive_until = began + self._shared.lease_s

    def _living(self) -> int:
        return self._life if _awake_s() < self._alive_until else 0

    def _tend_epoch(self) -> None:
        if self._epochs is not None:
            self._epochs.tend(self._beat)

    def _look_at_eviction(self) -> None:
        """Ask Redis whether it forgets what must stay; raise where it does."""
        if self._shared.redis is None:
            return
        try:
            found = self._shared.redis.eviction()
        except RedisUnavailable:
            return  # told where the counts are
        if found != self.eviction:
            self.eviction = found
            if found.is_harmful or not found.is_known:
                self.warned(f"{found.told}: {found.hint}")
        if found.is_harmful:
            raise RedisEvicts(f"{found.told}: {found.hint}")

    def _sweep(self) -> None:
        """Clean up after the dead, and count what nobody else will."""
        self.peers = tuple(self._shared.state.peers())
        alive = [each.beat.process for each in self.peers if each.is_alive]
        self._health.is_speaker = not alive or min(alive) == self._shared.process
        # INVARIANT: what ended is counted before what is held for it is freed.
        self._folding.catch_up_all()
        known, self._silent = self._silent, {}
        counts = self._shared.quick or self._shared.durable
        for peer in self.peers:
            name = peer.beat.process
            if peer.is_alive or name == self._shared.process:
                continue
            # After a standstill of the database all look dead: who lives says so by the next look.
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
        # INVARIANT: what ended is counted before what is held for it is freed.
        self._folding.catch_up_all()
        self._budgets.audit()
        self._shared.durable.forget(now // DAY - 2)
        self._shared.state.forget(Instant(max(0, now - TURNS_KEPT)))

    def _tell_lost(self) -> None:
        """Record the ends of calls that the ledger did not take when they happened."""
        overdue = self._budgets.overdue(Instant(self._clock.now() - LOST_AFTER))
        known, submitted = self._missing, self._recorder.submitted_count
        self._missing = {name: known.get(name, submitted) for name, _ in overdue}
        settled = self._recorder.settled_count
        for name, spent in overdue:
            # INVARIANT: entries are settled in the order they came, so that what the ledger still
            # works at is never taken for lost: it would be recorded, and charged, twice.
            if name not in known or known[name] > settled:
                continue
            if self._shared.durable.is_recorded(name):
                # Another replica counted it, thinking this one dead.
                self._budgets.counted((name,))
                continue
            if not self._recorder.health.is_writable:
                raise LedgerError("the ledger takes nothing now")
            self._recorder.append(_lost(name, spent, self._clock.now())).result()


def _awake_s() -> float:
    """Give seconds that go on while the machine sleeps, where it can tell."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def _unheard(message: str) -> None:
    """Tell nobody."""
    del message


def _lost(name: str, spent: Spent | None, now: Instant) -> Draft:
    """Make the entry of a call's end that was lost; of the rest nobody knows any more."""
    detail = LOST_FORM.encode(LostEnd(spent))
    return outcome_draft(Names(name, "", now), Outcome("unknown", Raw(detail)))
