"""Budgets of all replicas together: the same promises as `Budgets`, kept by counts they share.

Setting money aside asks the network and blocks. What a call cost is worked out here and recorded in
the ledger; from there it is counted, under the id that was given out with the reservation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pointsman.access.accounts import (
    account_row,
    accounts_of_caps,
    expires_at_s,
    names_of,
)
from pointsman.access.book import Spent
from pointsman.access.budgets import (
    RESERVED_FOR,
    Refused,
    Reservation,
    Standing,
    refuse_unpriced,
    spent_by,
)
from pointsman.access.caps import (
    Account,
    Cap,
    Each,
    Owners,
    Per,
    resets_at,
)
from pointsman.access.charges import Quote, Used, charge_call
from pointsman.errors import BudgetUnavailable, LedgerError
from pointsman.kernel.instant import DAY, IdSource, Instant
from pointsman.kernel.number import MicroUsd
from pointsman.storage.postgres.shared.reserves import PostgresReserves
from pointsman.storage.redis.reserves import RedisReserves
from pointsman.storage.reserves import AccountCount, Bound, Hold, Reserves, Short, UnknownAccount
from pointsman.turns.facts import BudgetLeft

MOST_TRIES: Final = 50
THOUGHT_DEAD: Final = "this replica gave no sign of life for too long"


class SharedBudgets:
    """The budgets of one replica among several; may be shared by threads."""

    def __init__(
        self,
        durable: PostgresReserves,
        quick: RedisReserves | None,
        process: str,
        ids: IdSource,
    ) -> None:
        self._durable = durable
        self._quick = quick
        self._counts: Reserves = quick or durable
        self._process = process
        self._ids = ids
        self._lock = threading.Lock()
        self._now = Instant(0)
        self._open: dict[str, tuple[Hold | None, Instant]] = {}
        """Calls that have not ended: the amount set aside for each, and since when."""
        self._closing: dict[str, tuple[Hold | None, Spent | None, Instant]] = {}
        """Calls that have ended, until the ledger's entry about it is counted."""
        self._asking: dict[str, Hold] = {}
        """Holds that the counts are being asked for."""
        self._unsure: dict[str, Hold] = {}
        """Holds that the counts may have although no answer came: to be released."""
        self._today: tuple[int, int] = (0, 0)
        self.life: Callable[[], int] = _first
        """How often this process began to hold anew, or 0 where it may be thought dead by now."""

    def reserve(
        self, owners: Owners, quote: Quote, caps: Sequence[Cap], now: Instant
    ) -> Reservation | Refused:
        """Set money aside in every budget that applies, or in none. Blocks."""
        at, name = self._advance_clock(now), self._ids.new_id()
        applied = accounts_of_caps(owners, caps, at)
        amount = quote.amount_microusd
        if amount is None and applied:
            return refuse_unpriced(applied[0], self._remaining(applied)[0])
        if amount and applied:
            hold = Hold(name, self._process, amount, names_of(owners, at))
            short = self._hold_money(hold, applied, at)
            if short is not None:
                cap, account = applied[short.place]
                room = MicroUsd(short.left_microusd)
                return Refused(cap.name, room, amount, resets_at(account))
        else:
            with self._lock:
                self._open[name] = (None, at)
        return Reservation(0, owners, quote, at, name)

    def settle(
        self, reservation: Reservation, used: Used | None, *, is_estimated: bool = False
    ) -> Spent | None:
        """Return what a call is charged, once; the ledger's entry about it is what counts."""
        charge = charge_call(reservation.quote, used)
        spent = spent_by(reservation, charge, is_estimated=is_estimated or charge.is_estimated)
        return spent if self._end_hold(reservation.id, spent) else None

    def release(self, reservation: Reservation) -> bool:
        """Say that a call cost nothing. False when it was settled or released before."""
        return self._end_hold(reservation.id, None)

    def standings(self, owners: Owners, caps: Iterable[Cap], now: Instant) -> tuple[Standing, ...]:
        """Return how the budgets stand that apply to a caller. Blocks."""
        applied = accounts_of_caps(owners, caps, self._advance_clock(now))
        return tuple(
            Standing(cap.name, cap.limit_microusd, left, resets_at(account))
            for (cap, account), left in zip(applied, self._remaining(applied), strict=True)
        )

    def remaining(
        self, owners: Owners, caps: Iterable[Cap], now: Instant
    ) -> tuple[BudgetLeft, ...]:
        """Return the remaining budgets as facts for the router. Blocks."""
        applied = accounts_of_caps(owners, caps, self._advance_clock(now))
        return tuple(
            BudgetLeft(cap.name, left)
            for (cap, _), left in zip(applied, self._remaining(applied), strict=True)
        )

    def amount_spent(self, owners: Owners, each: Each, per: Per, now: Instant) -> MicroUsd:
        """Return the amount spent so far, as far as it is counted. Blocks."""
        applied = accounts_of_caps(
            owners, (Cap("", MicroUsd(0), per, each),), self._advance_clock(now)
        )
        found = (self._durable.amount_spent(account_row(account)) for _, account in applied)
        return MicroUsd(sum(found))

    def spent_today(self, now: Instant) -> MicroUsd:
        """Return what everybody spent today, as of the last look; does not block."""
        day, cost = self._today
        return MicroUsd(cost if day == max(self._now, now) // DAY else 0)

    def look(self, now: Instant) -> None:
        """Look at what everybody spent today. Blocks."""
        self._today = now // DAY, self.amount_spent(Owners(), "all", "day", now)

    @property
    def open_holds(self) -> tuple[Hold, ...]:
        """The amounts set aside for calls that were admitted and are not counted as spent yet."""
        with self._lock:
            holds = [hold for hold, _ in self._open.values()]
            holds += [hold for hold, _, _ in self._closing.values()]
        return tuple(hold for hold in holds if hold is not None)

    @property
    def holding(self) -> tuple[Hold, ...]:
        """The same, and what the counts may have set aside beside it."""
        with self._lock:
            doubtful = {**self._asking, **self._unsure}
        # A hold that is admitted meanwhile is in both.
        return tuple({**doubtful, **{each.id: each for each in self.open_holds}}.values())

    def mark_counted(self, ids: Iterable[str]) -> None:
        """Take note that the ledger's entries about these calls are counted."""
        with self._lock:
            for name in ids:
                self._closing.pop(name, None)
                self._open.pop(name, None)

    def overdue(self, before: Instant) -> list[tuple[str, Spent | None]]:
        """Return the calls that ended before an instant and whose entry is not counted yet."""
        with self._lock:
            return [(name, spent) for name, (_, spent, at) in self._closing.items() if at < before]

    @property
    def has_strays(self) -> bool:
        """Whether there is something to give back."""
        return bool(self._unsure)

    def forget(self, reservation: Reservation) -> None:
        """Return the reservation of a call that is never made; does not wait."""
        with self._lock:
            hold, _ = self._open.pop(reservation.id, (None, reservation.at))
            if hold is not None:
                self._unsure[hold.id] = hold

    def tidy(self, now: Instant) -> None:
        """Release reservations that no call will settle. Blocks."""
        with self._lock:
            for name in [name for name, (_, at) in self._open.items() if now - at > RESERVED_FOR]:
                hold, _ = self._open.pop(name)
                if hold is not None:
                    self._unsure[name] = hold
            ids = [*self._unsure]
        if ids:
            self._counts.give_back(ids)
            with self._lock:
                for name in ids:
                    self._unsure.pop(name, None)

    def audit(self) -> int:
        """Release reservations counted for this process that it does not know. Blocks."""
        before = {each.id for each in self.holding}
        found = self._counts.held_by(self._process)
        # A reservation made while the counts were asked is known by now.
        known = before | {each.id for each in self.holding}
        stray = [name for name in found if name not in known and not self._is_closing(name)]
        if stray:
            self._counts.give_back(stray)
        return len(stray)

    def _is_closing(self, name: str) -> bool:
        with self._lock:
            return name in self._closing or name in self._open

    def _end_hold(self, name: str, spent: Spent | None) -> bool:
        with self._lock:
            if name not in self._open:
                return False
            hold, _ = self._open.pop(name)
            self._closing[name] = (hold, spent, self._now)
            return True

    def _advance_clock(self, now: Instant) -> Instant:
        # A clock set back must not bring yesterday's budget back.
        self._now = max(self._now, now)
        return self._now

    def _hold_money(
        self, hold: Hold, applied: Sequence[tuple[Cap, Account]], at: Instant
    ) -> Short | None:
        """Set money aside; where no answer comes, it may be set aside all the same."""
        bounds = [Bound(account_row(each).name, cap.limit_microusd) for cap, each in applied]
        life = self._life()
        if not life[0]:
            raise BudgetUnavailable(THOUGHT_DEAD)
        with self._lock:
            self._asking[hold.id] = hold
        try:
            short = self._try_hold(hold, bounds, applied)
            if short is None:
                self._admit(hold, at, life)
        except BaseException:
            with self._lock:
                self._unsure[hold.id] = self._asking.pop(hold.id)
            raise
        if short is not None:
            with self._lock:
                del self._asking[hold.id]
        return short

    def _life(self) -> tuple[int, str]:
        """Return life and epoch, which must not change between a reservation and its admission."""
        return self.life(), "" if self._quick is None else self._quick.epoch

    def _admit(self, hold: Hold, at: Instant, life: tuple[int, str]) -> None:
        with self._lock:
            # INVARIANT: reservations of an earlier life or epoch are gone, and a call that is
            # admitted before the next one begins is among those held anew.
            if self._life() != life:
                raise BudgetUnavailable("what is set aside was counted anew meanwhile")
            self._open[hold.id] = (hold, at)
            del self._asking[hold.id]

    def _try_hold(
        self, hold: Hold, bounds: Sequence[Bound], applied: Sequence[tuple[Cap, Account]]
    ) -> Short | None:
        for _ in range(MOST_TRIES):
            found = self._counts.reserve(hold, bounds)
            if not isinstance(found, UnknownAccount):
                return found
            self._seed(applied, found.accounts)
        raise BudgetUnavailable

    def _remaining(self, applied: Sequence[tuple[Cap, Account]]) -> list[MicroUsd]:
        names = [account_row(account).name for _, account in applied]
        for _ in range(MOST_TRIES if names else 0):
            found = self._counts.read_counts(names)
            lacking = [name for name, each in zip(names, found, strict=True) if each is None]
            if not lacking:
                return [
                    _remaining(cap, each) for (cap, _), each in zip(applied, found, strict=True)
                ]
            self._seed(applied, lacking)
        if names:
            raise BudgetUnavailable
        return []

    def _seed(self, applied: Sequence[tuple[Cap, Account]], names: Iterable[str]) -> None:
        """Begin to count accounts, with what the ledger says was spent."""
        rows = {row.name: row for row in (account_row(each) for _, each in applied)}
        try:
            for name in names:
                if self._quick is None:
                    self._durable.begin(rows[name])
                else:
                    self._quick.seed(self._durable.seed_of(rows[name], expires_at_s(rows[name])))
        except LedgerError as error:
            raise BudgetUnavailable(error.message) from error


def _first() -> int:
    return 1


def _remaining(cap: Cap, counted: AccountCount | None) -> MicroUsd:
    if counted is None:
        raise BudgetUnavailable
    spent = counted.settled_microusd + counted.reserved_microusd
    return MicroUsd(cap.limit_microusd - spent)
