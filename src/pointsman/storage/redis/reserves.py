"""Counts of all replicas in Redis: quick, and made again from the ledger whenever they are lost.

Everything stands under an epoch. A Redis that was emptied has none, and one that forgot a part ends
it: nothing is reserved until every live replica has restored its holds into a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import msgspec
from msgspec import Struct

from pointsman.errors import BudgetUnavailable, RedisUnavailable
from pointsman.storage.redis.connection import lua, told_errors
from pointsman.storage.reserves import AccountCount, Batch, Bound, Hold, Seed, Short, UnknownAccount

if TYPE_CHECKING:
    from redis import Redis
    from redis.commands.core import Script

_COUNTING: Final = ("reserve", "seed", "fold", "free", "look")
_KEEPING: Final = ("current", "begin", "restore", "open", "finish")
_LOST: Final = "the counts were lost and are being made again"
_HOLD = msgspec.json.Encoder()


class Epoch(Struct, frozen=True):
    """Which epoch Redis is in, and whether money may be set aside in it yet."""

    name: str
    is_open: bool


class RedisReserves:
    """Counts what the replicas of one ledger spend and set aside; may be shared by threads."""

    def __init__(self, redis: Redis, ledger: str) -> None:
        self._redis = redis
        # One hash slot for all, so that a script may touch them together.
        self._root = f"{{pointsman:{ledger}}}:"
        self._scripts: dict[str, Script] = {
            **{name: redis.register_script(lua("whole") + lua(name)) for name in _COUNTING},
            **{name: redis.register_script(lua(name)) for name in _KEEPING},
        }
        self._epoch = ""

    @property
    def epoch(self) -> str:
        """The epoch this process has joined; empty while it has joined none."""
        return self._epoch

    def reserve(self, hold: Hold, bounds: Sequence[Bound]) -> Short | UnknownAccount | None:
        """Set money aside in all accounts or in none; twice the same hold is once."""
        argv: list[str | int] = [hold.id, _text(hold), hold.amount_microusd]
        for bound in bounds:
            argv += [hold.accounts.index(bound.account), bound.limit_microusd]
        epoch = self._join_epoch()
        keys = [*map(epoch.account, hold.accounts)]
        word, *rest = cast("list[bytes | int]", self._run(epoch, "reserve", keys, argv))
        if word == b"unknown":
            return UnknownAccount(tuple(hold.accounts[int(place)] for place in rest))
        if word == b"short":
            return Short(int(rest[0]), int(rest[1]))
        return None

    def read_counts(self, accounts: Sequence[str]) -> list[AccountCount | None]:
        """Return how accounts stand; None for those that are not counted yet."""
        epoch = self._join_epoch()
        keys = [*map(epoch.account, accounts)]
        found = cast("list[tuple[bytes, bytes]]", self._run(epoch, "look", keys, []))
        return [AccountCount(int(spent), int(held)) if spent else None for spent, held in found]

    def seed(self, seed: Seed) -> bool:
        """Begin to count an account; False where the seed is older than the counts made since."""
        epoch = self._join_epoch()
        argv: list[str | int] = [seed.account, seed.settled_microusd, seed.expires_at_s]
        for chain, mark in seed.marks.items():
            argv += [chain, mark]
        found = self._run(epoch, "seed", [epoch.account(seed.account)], argv)
        return found != b"stale"

    def fold(self, batch: Batch) -> int:
        """Count what ended, once; gives the mark the chain had before.

        Nothing is counted where that is not the batch's first entry.
        """
        epoch = self._join_epoch()
        argv: list[str | int] = [epoch.account(""), batch.chain, batch.first, batch.mark]
        for each in batch.ended:
            accounts = each.accounts if each.cost_microusd else ()
            argv += [each.id, each.seq, each.cost_microusd, len(accounts), *accounts]
        return int(cast("bytes", self._run(epoch, "fold", [], argv)))

    def marks(self) -> dict[str, int]:
        """Return up to which entry each chain is counted here."""
        epoch = self._join_epoch()
        with told_errors():
            found = cast("dict[bytes, bytes]", self._redis.hgetall(epoch.key("marks")))
        if b"" not in found:
            raise BudgetUnavailable(_LOST)
        return {chain.decode(): int(mark) for chain, mark in found.items() if chain}

    def give_back(self, ids: Iterable[str]) -> None:
        """Release the reservations of calls that were never made."""
        epoch = self._join_epoch()
        self._run(epoch, "free", [], [epoch.account(""), "", *ids])

    def lapse(self, process: str) -> int:
        """Free what a dead process had set aside; gives how many holds that were."""
        epoch = self._join_epoch()
        found = self._run(epoch, "free", [], [epoch.account(""), process])
        return int(cast("int", found))

    def held_by(self, process: str) -> list[str]:
        """Name the holds of a process."""
        epoch = self._join_epoch()
        with told_errors():
            found = cast("dict[bytes, bytes]", self._redis.hgetall(epoch.key("holds")))
        holds = (msgspec.json.decode(text, type=Hold) for name, text in found.items() if name)
        return [hold.id for hold in holds if hold.process == process]

    def current(self) -> str:
        """Return the epoch that is open and whole; empty where none is."""
        with told_errors():
            found = cast(
                "bytes | None", self._scripts["current"]([f"{self._root}epoch"], [self._root])
            )
        return (found or b"").decode()

    def begin_epoch(self, candidate: str) -> Epoch:
        """Return the epoch Redis is in, beginning one by this name where there is none."""
        keys = [f"{self._root}epoch", f"{self._root}building"]
        with told_errors():
            word, name = cast("list[bytes]", self._scripts["begin"](keys, [candidate, self._root]))
        return Epoch(name.decode(), is_open=word == b"open")

    def restore(self, epoch: str, holds: Iterable[Hold]) -> bool:
        """Bring what this process holds into an epoch that is being built."""
        argv: list[str] = [epoch]
        for hold in holds:
            argv += [hold.id, _text(hold)]
        keys = [f"{self._root}building", f"{self._root}{epoch}:holds"]
        with told_errors():
            return bool(self._scripts["restore"](keys, argv))

    def open(self, epoch: str, marks: Mapping[str, int]) -> str:
        """Open the new epoch, once every replica has restored its holds; return its name.

        `marks` are where the sums stand that accounts will be seeded from, or before.
        """
        root = self._root
        keys = [f"{root}epoch", f"{root}building", f"{root}{epoch}:holds", f"{root}{epoch}:marks"]
        argv = [epoch, *(part for pair in marks.items() for part in pair)]
        with told_errors():
            found = cast("bytes | None", self._scripts["open"](keys, argv))
        return (found or b"").decode()

    def finish(self, epoch: str) -> None:
        """End an epoch for all: its counts are made again from the ledger."""
        root = self._root
        keys = [f"{root}epoch", f"{root}{epoch}:holds", f"{root}{epoch}:marks"]
        with told_errors():
            self._scripts["finish"](keys, [epoch])

    def join(self, epoch: str) -> None:
        """Count in this epoch from now on; an empty one leaves."""
        self._epoch = epoch

    def _join_epoch(self) -> _Joined:
        if not self._epoch:
            raise BudgetUnavailable("what all replicas hold is being put together")
        return _Joined(self._root, self._epoch)

    def _run(self, epoch: _Joined, name: str, keys: list[str], argv: Sequence[str | int]) -> object:
        """Run a script in the epoch that was joined, or raise that the counts are not whole."""
        try:
            with told_errors():
                found = self._scripts[name]([*epoch.parts, *keys], [epoch.name, *argv])
        except RedisUnavailable as error:
            raise BudgetUnavailable(error.message) from error
        if found == b"epoch":
            if self._epoch == epoch.name:
                self._epoch = ""
            raise BudgetUnavailable(_LOST)
        return found


class _Joined(Struct, frozen=True):
    """The epoch of one call: another thread may leave it meanwhile."""

    root: str
    name: str

    @property
    def parts(self) -> tuple[str, str, str]:
        """The keys without which the epoch is not whole."""
        return f"{self.root}epoch", self.key("holds"), self.key("marks")

    def key(self, name: str) -> str:
        return f"{self.root}{self.name}:{name}"

    def account(self, name: str) -> str:
        return f"{self.root}{self.name}:account:{name}"


def _text(hold: Hold) -> str:
    return _HOLD.encode(hold).decode()
