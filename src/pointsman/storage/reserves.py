"""Money that replicas set aside together: requests to the keeper of the counts, and its answers.

Accounts are named by opaque keys here; whole micro-dollars throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import Struct


class Hold(Struct, frozen=True):
    """Money set aside for one call by one process; it counts in every one of the accounts."""

    id: str
    process: str
    amount_microusd: int
    accounts: tuple[str, ...]


class Bound(Struct, frozen=True):
    """How much an account may hold, spent and set aside together."""

    account: str
    limit_microusd: int


class Short(Struct, frozen=True):
    """Nothing was set aside: an account has too little left. `place` is the bound's."""

    place: int
    left_microusd: int


class UnknownAccount(Struct, frozen=True):
    """Nothing was set aside: these accounts are not counted yet."""

    accounts: tuple[str, ...]


class AccountRow(Struct, frozen=True):
    """An account by its key, and the calls it adds up: scope, key, owner and days."""

    name: str
    owner: tuple[str, str, str]
    first_day: int
    end_day: int


class EndedHold(Struct, frozen=True):
    """A call that ended: its entry, its cost, and the accounts that count it."""

    id: str
    seq: int
    cost_microusd: int
    accounts: tuple[str, ...]


class Batch(Struct, frozen=True):
    """What a chain of the ledger says ended, from one entry up to but without another."""

    chain: str
    first: int
    mark: int
    ended: tuple[EndedHold, ...]


class Seed(Struct, frozen=True):
    """What an account has spent by the ledger, and up to where in each chain that holds."""

    account: str
    settled_microusd: int
    marks: dict[str, int]
    expires_at_s: int


class AccountCount(Struct, frozen=True):
    """The settled and the reserved sum of an account."""

    settled_microusd: int
    reserved_microusd: int


class Reserves(Protocol):
    """Counts what all replicas spend and set aside. Every call blocks on the network.

    Raises `BudgetUnavailable` where the counts cannot be had or are not whole.
    """

    def reserve(self, hold: Hold, bounds: Sequence[Bound]) -> Short | UnknownAccount | None:
        """Set money aside in all accounts or in none; twice the same hold is once."""
        ...

    def read_counts(self, accounts: Sequence[str]) -> list[AccountCount | None]:
        """Return how accounts stand; None for those that are not counted yet."""
        ...

    def give_back(self, ids: Iterable[str]) -> object:
        """Release the reservations of calls that were never made."""
        ...

    def lapse(self, process: str) -> int:
        """Free what a dead process had set aside; gives how many holds that were."""
        ...

    def held_by(self, process: str) -> list[str]:
        """Name the holds of a process."""
        ...
