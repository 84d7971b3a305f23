"""Budgets: reserve before a call, settle after it, release when it never happened.

A state machine over whole micro-dollars. Time is given to it and never goes back; a port
tells the money spent before it began, and stores the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import UNSET, Struct

from pointsman.access.book import Spent
from pointsman.access.caps import (
    Account,
    Cap,
    Each,
    Owners,
    Per,
    account_of,
    accounts_of,
    is_counted,
    resets_at,
    windows_at,
)
from pointsman.access.charges import Charge, Quote, Used, charge_call
from pointsman.kernel.instant import DAY, SECOND, Instant, instant_text
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.turns.facts import BudgetLeft

RESERVED_FOR = 3_600 * SECOND
"""A reservation that no call settles or releases lapses after this: an hour, twice the longest
call. Its money is free again; should the call end after all, it is charged all the same."""

LAPSED_KEPT = DAY
MOST_ACCOUNTS = 10_000
FEW_ACCOUNTS = 4


class Book(Protocol):
    """Where spending is kept."""

    def cost(self, account: Account) -> int:
        """Return the amount an account has spent, everything handed to `add` included."""
        ...

    def add(self, spent: Spent) -> None:
        """Keep what a call spent. Does not wait."""
        ...


class Reservation(Struct, frozen=True):
    """Money set aside for one call; its day is the one it was reserved on.

    `id` is what the ledger's entry about the call's end is to be called; empty where it is free.
    """

    number: int
    owners: Owners
    quote: Quote
    at: Instant
    id: str = ""


class Refused(Struct, frozen=True):
    """Why no money was set aside."""

    budget: str
    left_microusd: MicroUsd
    needed_microusd: MicroUsd | None
    resets_at: Instant | None

    @property
    def message(self) -> str:
        """Say it to the caller."""
        left = f"budget {self.budget} has ${microusd_text(self.left_microusd)} left"
        when = f", until {instant_text(self.resets_at)}" if self.resets_at is not None else ""
        if self.needed_microusd is None:
            return f"{left}{when}; what this call costs is unknown"
        return f"{left}{when}; this call may need ${microusd_text(self.needed_microusd)}"


def refuse_unpriced(applied: tuple[Cap, Account], left: MicroUsd) -> Refused:
    """Refuse a call of unknown price, by the first budget that applies to it."""
    return Refused(applied[0].name, left, None, resets_at(applied[1]))


class Standing(Struct, frozen=True):
    """How a budget stands: the amount left once every reservation is spent."""

    name: str
    limit_microusd: MicroUsd
    left_microusd: MicroUsd
    resets_at: Instant | None


class BudgetPort(Protocol):
    """What callers of models need of budgets: those of one process, or those replicas share."""

    def reserve(
        self, owners: Owners, quote: Quote, caps: Sequence[Cap], now: Instant
    ) -> Reservation | Refused:
        """Set money aside in every budget that applies, or in none."""
        ...

    def settle(
        self, reservation: Reservation, used: Used | None, *, is_estimated: bool = False
    ) -> Spent | None:
        """Charge what a call used; None when it was settled or released before."""
        ...

    def release(self, reservation: Reservation) -> bool:
        """Release the reservation: the call cost nothing."""
        ...

    def forget(self, reservation: Reservation) -> None:
        """Release the money of a call that is never made. Does not wait."""
        ...

    def standings(self, owners: Owners, caps: Iterable[Cap], now: Instant) -> tuple[Standing, ...]:
        """Return how the budgets stand that apply to a caller."""
        ...

    def remaining(
        self, owners: Owners, caps: Iterable[Cap], now: Instant
    ) -> tuple[BudgetLeft, ...]:
        """Return the remaining budgets as facts for the router."""
        ...

    def amount_spent(self, owners: Owners, each: Each, per: Per, now: Instant) -> MicroUsd:
        """Return the amount spent so far, without reservations."""
        ...

    def spent_today(self, now: Instant) -> MicroUsd:
        """Return what everybody spent today."""
        ...


class _Counter:
    __slots__ = ("reserved", "settled")

    def __init__(self, settled: int) -> None:
        self.settled = settled
        self.reserved = 0


class _Held:
    __slots__ = ("counters", "has_lapsed", "reservation")

    def __init__(self, reservation: Reservation, counters: list[_Counter]) -> None:
        self.reservation = reservation
        self.counters = counters
        self.has_lapsed = False


class Budgets:
    """The budgets of one process; may be shared by threads.

    INVARIANT: of one account, settled and reserved together never pass its limit, unless a call
    cost more than was quoted or the limit was lowered.
    """

    def __init__(self, book: Book) -> None:
        self._book = book
        self._lock = threading.Lock()
        self._now = Instant(0)
        self._lapses_at = 0  # nothing does before
        self._last_number = 0
        self._accounts: dict[Account, _Counter] = {}
        # In the order they were made, which is the order they lapse in.
        self._held: dict[int, _Held] = {}
        self._lapsed: dict[int, _Held] = {}

    def reserve(
        self, owners: Owners, quote: Quote, caps: Sequence[Cap], now: Instant
    ) -> Reservation | Refused:
        """Set money aside in every budget that applies, or in none."""
        with self._lock:
            at = self._advance_clock(now)
            refused = self._find_refusal(owners, quote, caps, at) if caps else None
            if refused is not None:
                return refused
            self._last_number += 1
            reservation = Reservation(self._last_number, owners, quote, at)
            self._hold(reservation)
            return reservation

    def settle(
        self, reservation: Reservation, used: Used | None, *, is_estimated: bool = False
    ) -> Spent | None:
        """Charge the usage of a call, or its quote where the usage is unknown or not believable.

        `is_estimated` marks usage that was counted here, for a stream that was cut. None when this
        reservation was settled or released before: a call is charged once.
        """
        with self._lock:
            held = self._pop_hold(reservation.number)
            if held is None:
                return None
            charge = charge_call(reservation.quote, used)
            spent = spent_by(reservation, charge, is_estimated=is_estimated or charge.is_estimated)
            cost = charge.cost_microusd or 0
            for counter in held.counters:
                counter.settled += cost
            self._book.add(spent)
            return spent

    def release(self, reservation: Reservation) -> bool:
        """Release the reservation: the call cost nothing. False when it was settled or released."""
        with self._lock:
            return self._pop_hold(reservation.number) is not None

    def forget(self, reservation: Reservation) -> None:
        """Release the money of a call that is never made."""
        self.release(reservation)

    def standings(self, owners: Owners, caps: Iterable[Cap], now: Instant) -> tuple[Standing, ...]:
        """Return how the budgets stand that apply to a caller."""
        with self._lock:
            return tuple(
                Standing(cap.name, cap.limit_microusd, _remaining(cap, counter), resets_at(account))
                for cap, account, counter in self._counters_of(
                    owners, caps, self._advance_clock(now)
                )
            )

    def remaining(
        self, owners: Owners, caps: Iterable[Cap], now: Instant
    ) -> tuple[BudgetLeft, ...]:
        """Return the remaining budgets as facts for the router."""
        with self._lock:
            return tuple(
                BudgetLeft(cap.name, _remaining(cap, counter))
                for cap, _, counter in self._counters_of(owners, caps, self._advance_clock(now))
            )

    def amount_spent(self, owners: Owners, each: Each, per: Per, now: Instant) -> MicroUsd:
        """Return the amount spent so far, without reservations: for `cost_today`, all and day."""
        cap = Cap("", MicroUsd(0), per, each)
        with self._lock:
            found = self._counters_of(owners, (cap,), self._advance_clock(now))
            return MicroUsd(sum(counter.settled for _, _, counter in found))

    def spent_today(self, now: Instant) -> MicroUsd:
        """Return what everybody spent today: asked at every call, so it takes the shortest way."""
        day = max(self._now, now) // DAY
        found = self._accounts.get(("all", "", "", day, day + 1))
        if found is None:
            return self.amount_spent(Owners(), "all", "day", now)
        return MicroUsd(found.settled)

    def _advance_clock(self, now: Instant) -> Instant:
        # A clock set back must not bring yesterday's budget back: AB-31.
        if now > self._now:
            self._now = now
            if now >= self._lapses_at:
                self._lapse()
        return self._now

    def _lapse(self) -> None:
        # Reservations made from now on are younger than those looked at here.
        self._lapses_at = self._now + RESERVED_FOR
        while self._held:
            number = next(iter(self._held))
            held = self._held[number]
            if self._now - held.reservation.at < RESERVED_FOR:
                self._lapses_at = held.reservation.at + RESERVED_FOR
                break
            self._give_back(held)
            self._lapsed[number] = self._held.pop(number)
        while self._lapsed:
            number, held = next(iter(self._lapsed.items()))
            if self._now - held.reservation.at < LAPSED_KEPT:
                self._lapses_at = min(self._lapses_at, held.reservation.at + LAPSED_KEPT)
                break
            del self._lapsed[number]

    def _find_refusal(
        self, owners: Owners, quote: Quote, caps: Sequence[Cap], at: Instant
    ) -> Refused | None:
        amount = quote.amount_microusd
        if amount == 0:
            # What costs nothing can overdraw nothing.
            return None
        for cap, account, counter in self._counters_of(owners, caps, at):
            left = _remaining(cap, counter)
            if amount is None or amount > left:
                return Refused(cap.name, left, amount, resets_at(account))
        return None

    def _counters_of(
        self, owners: Owners, caps: Iterable[Cap], at: Instant
    ) -> list[tuple[Cap, Account, _Counter]]:
        windows = windows_at(at)
        found = []
        for cap in caps:
            account = account_of(cap, owners, windows)
            if account is not None:
                found.append(
                    (cap, account, self._accounts.get(account) or self._open_counter(account))
                )
        return found

    def _open_counter(self, account: Account) -> _Counter:
        """Begin to count an account, with its spending and reservations so far."""
        if len(self._accounts) >= MOST_ACCOUNTS:
            self._forget_idle()
        counter = _Counter(self._book.cost(account))
        for held in (*self._held.values(), *self._lapsed.values()):
            reservation = held.reservation
            if is_counted(account, reservation.owners, reservation.at // DAY):
                held.counters.append(counter)
                counter.reserved += 0 if held.has_lapsed else _amount(reservation)
        self._accounts[account] = counter
        return counter

    def _forget_idle(self) -> None:
        # A forgotten counter is read from the book again when it is next asked for.
        self._accounts = {
            account: counter
            for account, counter in self._accounts.items()
            if counter.reserved or account[0] in {"all", "key"}
        }

    def _hold(self, reservation: Reservation) -> None:
        """Count a reservation in its accounts, looked for from the side that has fewer of them."""
        owners, at = reservation.owners, reservation.at
        if len(self._accounts) <= FEW_ACCOUNTS:
            day = at // DAY
            counters = [
                counter
                for account, counter in self._accounts.items()
                if is_counted(account, owners, day)
            ]
        else:
            found = map(self._accounts.get, accounts_of(owners, windows_at(at)))
            counters = [counter for counter in found if counter is not None]
        for counter in counters:
            counter.reserved += reservation.quote.amount_microusd or 0
        self._held[reservation.number] = _Held(reservation, counters)

    def _pop_hold(self, number: int) -> _Held | None:
        held = self._held.pop(number, None)
        if held is None:
            return self._lapsed.pop(number, None)
        self._give_back(held)
        return held

    @staticmethod
    def _give_back(held: _Held) -> None:
        held.has_lapsed = True
        amount = held.reservation.quote.amount_microusd or 0
        for counter in held.counters:
            counter.reserved -= amount


def _remaining(cap: Cap, counter: _Counter) -> MicroUsd:
    return MicroUsd(cap.limit_microusd - counter.settled - counter.reserved)


def _amount(reservation: Reservation) -> int:
    return reservation.quote.amount_microusd or 0


def spent_by(reservation: Reservation, charge: Charge, *, is_estimated: bool) -> Spent:
    """Return what a call spent, as the ledger keeps it."""
    owners, tokens = reservation.owners, charge.tokens
    return Spent(
        model=reservation.quote.model,
        key_id=owners.key_id,
        session_id=owners.session_id,
        workspace=owners.workspace,
        input_tokens=tokens.input_tokens,
        output_tokens=tokens.output_tokens,
        cached_input_tokens=tokens.cached_input_tokens,
        cache_creation_input_tokens=tokens.cache_creation_input_tokens,
        cost_microusd=charge.cost_microusd,
        price_version=reservation.quote.price_version,
        is_estimated=is_estimated,
        at=reservation.at,
        tenant=owners.tenant or UNSET,
    )
