"""Budgets of all processes of one home: each call under one is a short transaction in its database.

A call that no budget applies to costs nothing here; the book adds it to the sums behind it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Final

from pointsman.access.accounts import account_row, accounts_of_caps, names_of
from pointsman.access.book import HomeBook, Spent, spend_amounts, spend_key
from pointsman.access.budgets import (
    RESERVED_FOR,
    Refused,
    Reservation,
    Standing,
    refuse_unpriced,
    spent_by,
)
from pointsman.access.caps import Account, Cap, Each, Owners, Per, resets_at
from pointsman.access.charges import Quote, Used, charge_call
from pointsman.errors import BudgetUnavailable
from pointsman.kernel.instant import DAY, SECOND, IdSource, Instant
from pointsman.kernel.number import MicroUsd
from pointsman.storage.reserves import Bound, Hold, Short
from pointsman.turns.facts import BudgetLeft

LOOKED_EVERY: Final = SECOND
"""How long money of a killed process may stay set aside while it is not missed."""

SEEN_EVERY: Final = SECOND // 4
"""How old the sum of today's spending may be, but for this process's own calls."""


class HomeBudgets:
    """The budgets of one process of a home; may be shared by threads.

    INVARIANT: of one account, settled and reserved together never pass its limit, over all
    processes, unless a call cost more than was quoted or the limit was lowered.
    """

    def __init__(self, book: HomeBook, ids: IdSource) -> None:
        self._book = book
        self._counts = book.counts
        self._ids = ids
        self._lock = threading.Lock()
        self._now = Instant(0)
        self._looked_at = Instant(0)
        self._last_number = 0
        self._open: dict[int, Hold | None] = {}
        self._unfreed: list[str] = []
        self._today: tuple[int, int] = (0, 0)
        self._seen_at = Instant(-SEEN_EVERY)

    def reserve(
        self, owners: Owners, quote: Quote, caps: Sequence[Cap], now: Instant
    ) -> Reservation | Refused:
        """Set money aside in every budget that applies, or in none."""
        at = self._advance_clock(now)
        applied = accounts_of_caps(owners, caps, at)
        amount = quote.amount_microusd
        hold = None
        if amount is None and applied:
            return refuse_unpriced(applied[0], self._remaining(applied[:1])[0])
        if amount and applied:
            hold = Hold(self._ids.new_id(), "", amount, names_of(owners, at))
            short = self._hold_money(hold, at, applied)
            if short is not None:
                cap, account = applied[short.place]
                left = MicroUsd(short.left_microusd)
                return Refused(cap.name, left, amount, resets_at(account))
        with self._lock:
            self._last_number += 1
            self._open[self._last_number] = hold
            return Reservation(self._last_number, owners, quote, at)

    def settle(
        self, reservation: Reservation, used: Used | None, *, is_estimated: bool = False
    ) -> Spent | None:
        """Charge what a call used, once."""
        if reservation.number not in self._open:
            return None
        with self._lock:
            hold = self._open.pop(reservation.number)
        charge = charge_call(reservation.quote, used)
        spent = spent_by(reservation, charge, is_estimated=is_estimated or charge.is_estimated)
        self._add_today(spent)
        if hold is None:
            self._book.add(spent)
            return spent
        try:
            self._counts.settle(hold, spend_key(spent), spend_amounts(spent))
        except BudgetUnavailable:
            # The call was made: its sum is written later, and its hold is freed later.
            self._book.add(spent)
            self._unfreed.append(hold.id)
        return spent

    def release(self, reservation: Reservation) -> bool:
        """Release the reservation: the call cost nothing. False when it was settled or released."""
        with self._lock:
            if reservation.number not in self._open:
                return False
            hold = self._open.pop(reservation.number)
            if hold is not None:
                self._unfreed.append(hold.id)
        self._free_unused()
        return True

    def forget(self, reservation: Reservation) -> None:
        """Release the money of a call that is never made."""
        self.release(reservation)

    def standings(self, owners: Owners, caps: Iterable[Cap], now: Instant) -> tuple[Standing, ...]:
        """Return how the budgets stand that apply to a caller."""
        applied = accounts_of_caps(owners, caps, self._advance_clock(now))
        return tuple(
            Standing(cap.name, cap.limit_microusd, left, resets_at(account))
            for (cap, account), left in zip(applied, self._remaining(applied), strict=True)
        )

    def remaining(
        self, owners: Owners, caps: Iterable[Cap], now: Instant
    ) -> tuple[BudgetLeft, ...]:
        """Return the remaining budgets as facts for the router."""
        at = self._advance_clock(now)
        # By the clock as it is: one set back must not keep money set aside until it has caught up.
        if not 0 <= now - self._looked_at < LOOKED_EVERY:
            self._looked_at = now
            self._tend(at)
        applied = accounts_of_caps(owners, caps, at)
        return tuple(
            BudgetLeft(cap.name, left)
            for (cap, _), left in zip(applied, self._remaining(applied), strict=True)
        )

    def amount_spent(self, owners: Owners, each: Each, per: Per, now: Instant) -> MicroUsd:
        """Return the amount spent so far, reservations left out."""
        cap = Cap("", MicroUsd(0), per, each)
        applied = accounts_of_caps(owners, (cap,), self._advance_clock(now))
        return MicroUsd(sum(self._book.cost(account) for _, account in applied))

    def spent_today(self, now: Instant) -> MicroUsd:
        """Return what all processes spent today, as of a moment ago, and this one by now."""
        at = self._advance_clock(now)
        day, cost = self._today
        if day != at // DAY or not 0 <= now - self._seen_at < SEEN_EVERY:
            cost = self._read_today(at, now)
        return MicroUsd(cost)

    def _read_today(self, at: Instant, now: Instant) -> int:
        account: Account = ("all", "", "", at // DAY, at // DAY + 1)
        (counted,) = self._counts.read([account_row(account)])
        cost = counted.settled_microusd + self._book.unwritten(account)
        with self._lock:
            self._today, self._seen_at = (at // DAY, cost), now
        return cost

    def _add_today(self, spent: Spent) -> None:
        with self._lock:
            day, cost = self._today
            if day == spent.at // DAY:
                self._today = day, cost + (spent.cost_microusd or 0)

    def _hold_money(
        self, hold: Hold, at: Instant, applied: Sequence[tuple[Cap, Account]]
    ) -> Short | None:
        rows = [account_row(account) for _, account in applied]
        bounds = [
            Bound(row.name, cap.limit_microusd) for row, (cap, _) in zip(rows, applied, strict=True)
        ]
        short = self._counts.reserve(hold, at, bounds, rows)
        # Before a caller is refused: money of a process that was killed is free.
        if short is not None and self._book.free_dead():
            short = self._counts.reserve(hold, at, bounds, rows)
        return short

    def _remaining(self, applied: Sequence[tuple[Cap, Account]]) -> list[MicroUsd]:
        if not applied:
            return []
        found = self._counts.read([account_row(account) for _, account in applied])
        return [
            MicroUsd(cap.limit_microusd - each.settled_microusd - each.reserved_microusd)
            for (cap, _), each in zip(applied, found, strict=True)
        ]

    def _tend(self, at: Instant) -> None:
        self._book.free_dead()
        self._counts.free_before(at - RESERVED_FOR)
        self._free_unused()

    def _free_unused(self) -> None:
        with self._lock:
            names, self._unfreed = self._unfreed, []
        if names:
            try:
                self._counts.free(names)
            except BudgetUnavailable:
                with self._lock:
                    self._unfreed += names

    def _advance_clock(self, now: Instant) -> Instant:
        # A clock set back must not bring yesterday's budget back.
        self._now = max(self._now, now)
        return self._now
