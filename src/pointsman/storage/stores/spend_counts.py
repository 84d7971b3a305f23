"""Money that the processes of one home set aside together, in the database of spending.

INVARIANT: a call under a budget is counted in one transaction with the sums it belongs to, so an
account that begins to be counted later begins with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import apsw
import msgspec

from pointsman.errors import BudgetUnavailable, LedgerError
from pointsman.kernel.canonical import MAX_INT
from pointsman.storage.home import Home
from pointsman.storage.reserves import AccountCount, AccountRow, Bound, Hold, Short
from pointsman.storage.sqlite.place import place_of
from pointsman.storage.stores.spend import SPEND, SQL, SpendAmounts, SpendKey, read_accounts

BucketRow = tuple[int, int, int]
ChangeBucket = Callable[[BucketRow | None], BucketRow]

_NAMES: Final = msgspec.json.Decoder(tuple[str, ...])


class SpendCounts:
    """The accounts of one home; may be shared by threads. Each call is a short transaction.

    `writer` is the book's, whose lease tells others that its holds are in use.
    """

    def __init__(self, home: Home, writer: str) -> None:
        self._writer = writer
        self._place = place_of(home.place(SPEND))
        self._connection = self._place.lasting("spend.sql", sync="NORMAL", is_lean=True)
        self._lock = threading.Lock()

    def close(self) -> None:
        """Free the holds of this process, and close the database."""
        with suppress(BudgetUnavailable):
            self.free_writers([self._writer])
        self._connection.close()

    def reserve(
        self, hold: Hold, at: int, bounds: Sequence[Bound], rows: Sequence[AccountRow]
    ) -> Short | None:
        """Set money aside in all accounts or in none."""
        with self._writing():
            found = self._counts(hold.accounts, rows)
            for place, bound in enumerate(bounds):
                counted = found[bound.account]
                left = bound.limit_microusd - counted.settled_microusd - counted.reserved_microusd
                if hold.amount_microusd > left:
                    return Short(place, left)
            names = msgspec.json.encode(hold.accounts).decode()
            for name in found:
                self._run("change_account", (hold.amount_microusd, 0, name))
            self._run("add_hold", (hold.id, self._writer, hold.amount_microusd, names, at))
        return None

    def settle(self, hold: Hold, key: SpendKey, amounts: SpendAmounts) -> None:
        """Count the cost of a call in the place of its hold."""
        with self._writing():
            # One that has lapsed was freed before.
            is_held = self._run("delete_id", (hold.id,)) > 0
            freed = -hold.amount_microusd if is_held else 0
            for name, _, _ in read_accounts(self._connection, hold.accounts):
                self._run("change_account", (freed, amounts.cost_microusd, name))
            self._connection.execute(SQL["add_spent"], key + amounts)

    def enter(self, hold_id: str, names: Mapping[str, int], at: int) -> str:
        """Count a call in each of these, up to a number; return the first that is full."""
        with self._writing():
            found = self._find_accounts([*names])
            for name, most in names.items():
                if name not in found:
                    self._run("begin_account", (name, 0, name, MAX_INT))
                elif found[name].reserved_microusd >= most:
                    return name
            for name in names:
                self._run("change_account", (1, 0, name))
            accounts = msgspec.json.encode([*names]).decode()
            self._run("add_hold", (hold_id, self._writer, 1, accounts, at))
        return ""

    def change_bucket(self, name: str, change: ChangeBucket) -> None:
        """Change the row of a limit: its number a minute, its level, and since when."""
        with self._writing():
            row = self._connection.execute(SQL["read_bucket"], (name,)).fetchone()
            self._run("write_bucket", (name, *change(row)))

    def free(self, names: Iterable[str]) -> None:
        """Free the holds of calls that cost nothing."""
        with self._writing():
            for name in names:
                self._free("id", name)

    def free_before(self, at: int) -> None:
        """Free the holds from before an instant."""
        with self._writing():
            self._free("before", at)

    def free_writers(self, names: Iterable[str]) -> int:
        """Free the holds of writers that have ended; return how many there were."""
        with self._writing():
            return sum(self._free("writer", name) for name in names)

    def holders(self) -> list[str]:
        """Name the writers that have set something aside."""
        with self._lock, _report_errors():
            return [str(name) for (name,) in self._connection.execute(SQL["holders"])]

    def read(self, rows: Sequence[AccountRow]) -> list[AccountCount]:
        """Return how accounts stand; one that is new begins to be counted."""
        names = [row.name for row in rows]
        with self._lock, _report_errors():
            known = self._find_accounts(names)
        if any(name not in known for name in names):
            with self._writing():
                known = self._counts(names, rows)
        return [known[name] for name in names]

    def _free(self, by: str, value: str | int) -> int:
        held = [*self._connection.execute(SQL[f"held_{by}"], (value,))]
        for amount, names in held:
            for name, _, _ in read_accounts(self._connection, _NAMES.decode(names)):
                self._run("change_account", (-amount, 0, name))
        if held:
            self._run(f"delete_{by}", (value,))
        return len(held)

    def _counts(self, names: Sequence[str], rows: Sequence[AccountRow]) -> dict[str, AccountCount]:
        """Return how accounts stand; those of the rows begin to be counted where they are new."""
        known = self._find_accounts(names)
        lacking = [row for row in rows if row.name not in known]
        for row in lacking:
            each, key_id, owner = row.owner
            bound: dict[str, str | int] = {
                "key": key_id, "owner": owner, "first": row.first_day, "end": row.end_day,
                "writer": "",
            }  # fmt: skip
            spent = self._connection.execute(SQL[f"cost_{each}"], bound).fetchone()
            settled = int(spent[0]) if spent else 0
            self._run("begin_account", (row.name, settled, row.name, row.end_day))
        return self._find_accounts(names) if lacking else known

    def _find_accounts(self, names: Sequence[str]) -> dict[str, AccountCount]:
        rows = read_accounts(self._connection, names)
        return {name: AccountCount(settled, reserved) for name, settled, reserved in rows}

    def _run(self, name: str, bound: tuple[str | int, ...]) -> int:
        self._connection.execute(SQL[name], bound)
        return self._connection.changes()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock, _report_errors(), self._connection.transaction():
            yield


@contextmanager
def _report_errors() -> Iterator[None]:
    try:
        yield
    except (apsw.Error, LedgerError) as error:
        raise BudgetUnavailable(f"the counts of this home cannot be had: {error}") from error
