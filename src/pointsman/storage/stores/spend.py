"""Spending, in sums by day, key, session, workspace, model and price version.

Written behind: a thread adds up the calls handed in and commits them twice a second, so that no
caller waits. Sums lost in a crash are made again from the ledger.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Literal, NamedTuple

import apsw
from msgspec import Struct

from pointsman.errors import LedgerError, LedgerUnavailable
from pointsman.storage.connection import Connection
from pointsman.storage.place import Where
from pointsman.storage.sqlite.database import (
    MOST_ROWS,
    in_transaction,
    named_blocks,
    put_rows,
    sql_text,
)
from pointsman.storage.sqlite.place import place_of

By = Literal["all", "day", "key", "session", "workspace", "model", "tenant"]

_EVER = 2**53


class Total(Struct, frozen=True):
    """The sum over all calls of one day, key, session, workspace, model or tenant."""

    what: str
    amounts: SpendAmounts


class SpendQuery(Struct, frozen=True):
    """Which calls to add up: of one session, key or tenant or all, from one day up to another."""

    session_id: str | None = None
    key_id: str | None = None
    first_day: int = 0
    end_day: int = _EVER
    tenant: str | None = None


class SpendReader:
    """A view of the sums as they are on disk."""

    def __init__(self, where: Where) -> None:
        self._place = place_of(where)
        with self._place.told_errors():
            self._connection = self._place.reading()

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def totals(self, by: By, asked: SpendQuery = SpendQuery()) -> list[Total]:  # noqa: B008 - frozen
        """Return sums in the order of their groups; a day counts from 1970."""
        bound = {
            "by": by,
            "session": asked.session_id,
            "key": asked.key_id,
            "tenant": asked.tenant,
            "first": asked.first_day,
            "end": asked.end_day,
        }
        with self._place.told_errors():
            rows = [*self._connection.execute(SQL["totals"], bound)]
        return [Total(str(row[0]), SpendAmounts(*map(int, row[1:]))) for row in rows]


SQL = named_blocks(sql_text("spend_queries.sql"))

SPEND = "spend"
"""What the store is called in a home."""

LINGER_S = 0.5
FLUSH_S = 10
LOG_PAGES = 4000
MOST_UNWRITTEN = 100_000
"""So many calls wait at most while the disk takes nothing."""


class SpendKey(NamedTuple):
    """Which sum; `day` counts from 1970 in UTC."""

    day: int
    key_id: str
    session_id: str
    workspace: str
    model: str
    price_version: str
    tenant: str = ""


class SpendAmounts(NamedTuple):
    """Sums over calls."""

    calls: int
    estimated_calls: int
    unpriced_calls: int
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    cache_creation_input_tokens: int
    cost_microusd: int


Sums = dict[SpendKey, SpendAmounts]
NamesOf = Callable[[SpendKey], Sequence[str]]


def add_to(sums: Sums, key: SpendKey, amounts: SpendAmounts) -> None:
    """Add amounts to one of many sums."""
    before = sums.get(key)
    if before is None:
        sums[key] = amounts
    else:
        sums[key] = SpendAmounts(*map(int.__add__, before, amounts))


def read_accounts(connection: Connection, names: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return those of these accounts that are counted: the name, settled and reserved."""
    found: list[tuple[str, int, int]] = []
    for at in range(0, len(names), MOST_ROWS):
        some = names[at : at + MOST_ROWS]
        found += connection.execute(_query_accounts(len(some)), some)
    return found


@cache
def _query_accounts(count: int) -> str:
    return SQL["read_accounts"].replace("(?)", f"({', '.join('?' * count)})")


class _Batch:
    """The calls committed together under one number."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.calls: list[tuple[SpendKey, SpendAmounts]] = []


class SpendStore:
    """Adds up the spending of one home of files; may be shared by threads.

    `writer` names who adds: no two that are open at once may have the same name. `names_of` names
    the accounts that a sum belongs to.
    """

    def __init__(self, where: Where, writer: str, names_of: NamesOf = lambda _: ()) -> None:
        self._names_of = names_of
        self._place = place = place_of(where)
        self._names = {"writer": writer}
        with place.told_errors():
            self._connection = place.lasting("spend.sql", sync="NORMAL", is_lean=True)
            self._reading = place.lasting("spend.sql", sync="NORMAL", is_lean=True)
            self._reading_lock = threading.Lock()
            last = self._reading.execute(SQL["cost_all"], self._bindings("", "", 0, 0)).fetchone()
        self._changed = threading.Condition()
        self._is_closing = self._is_hurried = self._is_lacking = self._has_begun = False
        self._failure = ""
        self._written = int(last[1]) if last else 0
        self._pending = _Batch(self._written + 1)
        self._writing: _Batch | None = None
        self._thread: threading.Thread | None = None

    def add(self, key: SpendKey, amounts: SpendAmounts) -> None:
        """Hand in what a call spent; it is on disk within a second. Does not wait."""
        with self._changed:
            if self._is_closing:
                raise LedgerUnavailable("the spend store was closed", where=str(self._place))
            if len(self._pending.calls) >= MOST_UNWRITTEN:
                # The call was made and its outcome is in the ledger: the sums are made again from
                # there, because a store that lacks something is not closed as clean.
                self._is_lacking = True
                return
            self._pending.calls.append((key, amounts))
            if self._thread is None:
                # Begun at the first call, so that a reader has no thread.
                self._thread = threading.Thread(target=self._run, name="spend", daemon=True)
                self._thread.start()
            elif len(self._pending.calls) == 1:
                self._changed.notify()

    def cost(
        self,
        each: Literal["all", "key", "session", "workspace", "tenant"],
        key_id: str,
        owner: str,
        first_day: int,
        end_day: int,
        is_counted: Callable[[SpendKey], bool],
    ) -> int:
        """Return the amount an owner spent from one day up to another, unwritten calls included.

        `is_counted` tells the same of a call in memory as the other arguments say to the database.
        """
        with self._changed:
            batches = [batch for batch in (self._writing, self._pending) if batch is not None]
            held = [(batch.number, [*batch.calls]) for batch in batches]
        bound = self._bindings(key_id, owner, first_day, end_day)
        with self._reading_lock, self._place.told_errors():
            row = self._reading.execute(SQL[f"cost_{each}"], bound).fetchone()
        stored, last = (int(row[0]), int(row[1])) if row else (0, 0)
        # A batch that was committed since it was looked at is in the stored sum already.
        waiting = (calls for number, calls in held if number > last)
        return stored + sum(
            amounts.cost_microusd for calls in waiting for key, amounts in calls if is_counted(key)
        )

    def unwritten(self, is_counted: Callable[[SpendKey], bool]) -> int:
        """Return the amount of such calls that wait to be written."""
        with self._changed:
            batches = [batch for batch in (self._writing, self._pending) if batch is not None]
            calls = [call for batch in batches for call in batch.calls]
        return sum(amounts.cost_microusd for key, amounts in calls if is_counted(key))

    def writers(self) -> list[str]:
        """Name the writers that have not closed; those that live no more were killed."""
        with self._reading_lock, self._place.told_errors():
            return [str(name) for (name,) in self._reading.execute(SQL["writers"])]

    def forget_writer(self, name: str) -> None:
        """Take note that the sums hold all that a writer had handed in."""
        with self._place.told_errors():
            self._connection.execute(SQL["forget_writer"], {"writer": name})

    def last_day(self) -> int:
        """Return the newest day that anything was spent on; 0 when nothing was."""
        with self._reading_lock, self._place.told_errors():
            row = self._reading.execute(SQL["last_day"], self._names).fetchone()
        return int(row[0]) if row else 0

    def begin(self) -> None:
        """Mark the sums as being written: until `close`, they may lack the last calls."""
        with self._place.told_errors():
            # DURABILITY: sums are not synced, for the ledger has them. A power cut that took the
            # mark along with them would leave sums that lack calls, and nothing would say so.
            durable = self._place.writing("spend.sql", is_lean=True)
            try:
                durable.execute(SQL["write_batch"], {**self._names, "number": self._written})
            finally:
                durable.close()
        self._has_begun = True

    def replace(self, first_day: int, sums: Sums) -> None:
        """Put other sums in the place of those of a day and all after it; count accounts anew."""
        with self._place.told_errors():
            in_transaction(self._connection, lambda: self._replace(first_day, sums))

    def flush(self) -> None:
        """Write all pending calls before this returns. Blocks: not for an event loop."""
        with self._changed:
            last = self._pending.number if self._pending.calls else self._pending.number - 1
            self._is_hurried = True
            self._changed.notify_all()
            is_written = self._changed.wait_for(lambda: self._written >= last, FLUSH_S)
        if not is_written:
            raise LedgerUnavailable(
                f"spending cannot be written: {self._failure}", where=str(self._place)
            )

    def close(self) -> None:
        """Write the pending sums and close."""
        with self._changed:
            if self._is_closing:
                return
            self._is_closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        if self._has_begun and self._writing is None and not self._is_lacking:
            with suppress(apsw.Error, LedgerError):
                self._run_sql("forget_writer")
        self._connection.close()
        self._reading.close()

    def _bindings(self, key_id: str, owner: str, first: int, end: int) -> dict[str, str | int]:
        return {**self._names, "key": key_id, "owner": owner, "first": first, "end": end}

    def _run_sql(self, name: str, **values: int) -> None:
        self._connection.execute(SQL[name], {**self._names, **values})

    def _replace(self, first_day: int, sums: Sums) -> None:
        self._connection.execute(SQL["forget_accounts"])
        self._run_sql("delete_since", first=first_day)
        self._add_spent(sums)

    def _add_spent(self, sums: Sums) -> None:
        put_rows(self._connection, SQL["add_spent"], [key + sums[key] for key in sums])

    def _count_in_accounts(self, sums: Sums) -> None:
        """Add sums to the accounts that budgets are checked against, where any are counted."""
        costs: dict[str, int] = {}
        for key, amounts in sums.items():
            for name in self._names_of(key) if amounts.cost_microusd else ():
                costs[name] = costs.get(name, 0) + amounts.cost_microusd
        for name, _, _ in read_accounts(self._connection, [*costs]):
            self._connection.execute(SQL["change_account"], (0, costs[name], name))

    def _run(self) -> None:
        while True:
            batch = self._take_batch()
            if batch is None:
                return
            if self._is_committed(batch):
                with self._changed:
                    self._writing, self._written = None, batch.number
                    self._changed.notify_all()
                self._tend()
            elif self._is_closing:
                return

    def _take_batch(self) -> _Batch | None:
        """Wait for something to write and take it; None when all is written and closed."""
        with self._changed:
            self._changed.wait_for(self._has_work)
            # Calls of the next moment share the commit; after a failure this is the pause.
            self._changed.wait_for(lambda: self._is_closing or self._is_hurried, LINGER_S)
            self._is_hurried = False
            if self._writing is None and self._pending.calls:
                self._writing, self._pending = self._pending, _Batch(self._pending.number + 1)
            return self._writing

    def _has_work(self) -> bool:
        return bool(self._pending.calls) or self._writing is not None or self._is_closing

    def _tend(self) -> None:
        # Sessions come in random order: a page written back seldom is written back once.
        with suppress(apsw.Error, LedgerError):
            self._connection.tend(LOG_PAGES)

    def _is_committed(self, batch: _Batch) -> bool:
        try:
            in_transaction(self._connection, lambda: self._commit(batch))
        except (apsw.Error, LedgerError, OSError) as error:
            self._failure = str(error)
            return False
        except Exception as error:  # noqa: BLE001 - a thread's outermost edge: it must go on
            # A call that can never be written is left to the ledger, and does not hold up the rest.
            self._failure, self._is_lacking = f"{type(error).__name__}: {error}", True
        return True

    def _commit(self, batch: _Batch) -> None:
        calls = batch.calls
        # A statement after the other: added up at a stretch, thousands of calls would keep the
        # interpreter from the threads that serve meanwhile.
        for at in range(0, len(calls), MOST_ROWS):
            sums: Sums = {}
            for key, amounts in calls[at : at + MOST_ROWS]:
                add_to(sums, key, amounts)
            self._add_spent(sums)
            self._count_in_accounts(sums)
        # INVARIANT: the number is committed with its sums, so a reader knows which calls they hold.
        self._run_sql("write_batch", number=batch.number)
