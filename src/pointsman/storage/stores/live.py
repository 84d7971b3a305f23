"""The knowledge that the gateways of a home share at once, in one file beside the ledger.

Nothing in it outlives them, and nothing is proved from it. Commits are not synced: a killed process
loses nothing, and after a power cut the first gateway begins with an empty file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from pointsman.errors import ChainHeld, LedgerUnavailable
from pointsman.storage.sqlite.database import SqliteConnection, named_blocks, sql_text
from pointsman.storage.sqlite.folder import SqliteFolder
from pointsman.storage.writer.lease import Lease, first_free_lease

LIVE: Final = "live"
"""What the file and its leases are called in a home."""

BUSY_MS: Final = 100
"""How long the event loop waits for another process: only one that was stopped in the middle of a
change, which takes a tenth of a millisecond, keeps others waiting."""

TAINTS: Final = "taints"
BUCKETS: Final = "buckets"
GATEWAYS: Final = "gateways"

_SQL = named_blocks(sql_text("live_queries.sql"))


class HeldTurn(NamedTuple):
    """The turn that a session goes on with, as every gateway sees it."""

    turn_id: str
    decision_id: str
    model: str
    calls: int
    is_escalated: bool
    is_stored: bool


BucketRow = tuple[int, int, int]
"""A limit a minute, its rest in parts, and since when."""


class LiveStore:
    """One process's view of the file; may be shared by threads. Each change is one transaction.

    `gateway` is what the workers of one gateway have in common, `process` what this one is called.
    """

    def __init__(self, home: Path, gateway: str, process: str) -> None:
        self.gateway = gateway
        self.process = process
        self._leases = home / "leases"
        self._lock = threading.Lock()
        place = SqliteFolder(home).place(LIVE)
        self._where = str(place)
        opening = Lease(self._leases, f"{LIVE}-opening", waits=True)
        try:
            self._lease = first_free_lease(self._leases, LIVE)
            try:
                self._connection: SqliteConnection = place.writing(
                    "live.sql", sync="NORMAL", is_lean=True
                )
                self._join()
            except BaseException:
                self._lease.release()
                raise
        finally:
            opening.release()
        self._connection.set_busy_timeout(BUSY_MS)

    def close(self) -> None:
        """Tell the others that this one serves no more."""
        with self._lock:
            try:
                with self._connection.transaction():
                    self._run("drop_gateway", self.process)
                    self._run("mark", GATEWAYS)
            except apsw.Error:
                pass  # the free lease tells it, too
            self._connection.close()
            self._lease.release()

    def version(self) -> int:
        """Return a number that changes when another process changed something; in microseconds."""
        try:
            with self._lock:
                return self._connection.version()
        except apsw.Error as error:
            raise self._error(error) from error

    def marks(self) -> dict[str, int]:
        """Return how often each kind of thing was changed."""
        with self._lock, self._errors_told():
            return dict(self._connection.execute(_SQL["read_marks"]))

    def mark(self, name: str) -> None:
        """Note that a kind of thing was changed."""
        with self._writing():
            self._run("mark", name)

    def living(self) -> dict[str, str]:
        """Return the gateways by the processes that live, this one among them."""
        with self._lock, self._errors_told():
            rows = [*self._connection.execute(_SQL["list_gateways"])]
        return {name: gateway for name, gateway, lease in rows if self._is_living(name, lease)}

    def find_turn(self, session_id: str) -> HeldTurn | None:
        """Return the turn that a session goes on with."""
        with self._lock, self._errors_told():
            row = self._connection.execute(_SQL["find_turn"], (session_id,)).fetchone()
        if row is None:
            return None
        turn_id, decision_id, model, calls, is_escalated, is_stored = row
        return HeldTurn(turn_id, decision_id, model, calls, bool(is_escalated), bool(is_stored))

    def hold_turn(self, session_id: str, turn: HeldTurn, at: int) -> None:
        """Bind a session's turn to a model."""
        with self._writing():
            self._run("hold_turn", session_id, *turn, at)

    def add_taint(self, session_id: str, body: bytes, at: int, forget_before: int) -> None:
        """Tell the others of a session that stays here or, without a body, no longer does."""
        with self._writing():
            self._run("forget_taints", forget_before)
            self._run("add_taint", session_id, body, at)
            self._run("mark", TAINTS)

    def taints_after(self, number: int) -> list[tuple[int, str, bytes]]:
        """Return the taints that were added since one."""
        with self._lock, self._errors_told():
            return [*self._connection.execute(_SQL["taints_after"], (number,))]

    def change_bucket(self, name: str, step: Callable[[BucketRow | None], BucketRow]) -> None:
        """Change the rest of a limit."""
        with self._writing():
            row = self._connection.execute(_SQL["read_bucket"], (name,)).fetchone()
            self._run("write_bucket", name, *step(row))
            self._run("mark", BUCKETS)

    def buckets(self) -> dict[str, BucketRow]:
        """Return the rest of each limit."""
        with self._lock, self._errors_told():
            return {row[0]: row[1:] for row in self._connection.execute(_SQL["read_buckets"])}

    def add_login(self, digest: bytes, key_id: str, now: int, expires_at: int, most: int) -> None:
        """Keep a login, and no more than so many."""
        with self._writing():
            self._run("trim_logins", now, self.gateway, most - 1)
            self._run("add_login", digest, self.gateway, key_id, expires_at)

    def find_login(self, digest: bytes) -> tuple[str, int] | None:
        """Return the key of a login, and when it ends."""
        with self._lock, self._errors_told():
            bound = (digest, self.gateway)
            return self._connection.execute(_SQL["find_login"], bound).fetchone()

    def drop_login(self, digest: bytes) -> None:
        """End a login."""
        with self._writing():
            self._run("drop_login", digest)

    def write_counts(self, body: bytes, forget_turns_before: int) -> None:
        """Keep the counts of this process; forget turns that were not continued for long."""
        with self._writing():
            self._run("write_counts", self.process, self.gateway, body)
            self._run("forget_turns", forget_turns_before)

    def counts(self) -> dict[str, bytes]:
        """Return the counts of each worker of this gateway, also of those that live no more."""
        with self._lock, self._errors_told():
            return dict(self._connection.execute(_SQL["read_counts"], (self.gateway,)))

    def _join(self) -> None:
        """Register; where no other gateway lives, their knowledge of each other is void."""
        with self._connection.transaction():
            rows = [*self._connection.execute(_SQL["list_gateways"])]
            is_begun = any(gateway == self.gateway for _, gateway, _ in rows)
            living = [row for row in rows if self._is_living(row[0], row[2])]
            for name, _, _ in rows:
                if all(name != each[0] for each in living):
                    self._run("drop_gateway", name)
            # Workers of one gateway that died together find theirs again.
            if not living and not is_begun:
                for name in ("clear_turns", "clear_buckets", "clear_taints"):
                    self._run(name)
            self._run("add_gateway", self.process, self.gateway, self._lease.chain)
            self._run("forget_counts")
            self._run("forget_logins")
            self._run("mark", GATEWAYS)

    def _is_living(self, process: str, lease: str) -> bool:
        if process == self.process:
            return True
        if lease == self._lease.chain:
            return False  # its lease is this process's now
        try:
            Lease(self._leases, lease).release()
        except ChainHeld:
            return True
        return False

    def _run(self, name: str, *values: str | int | bytes) -> None:
        self._connection.execute(_SQL[name], values)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock, self._errors_told(), self._connection.transaction():
            yield

    @contextmanager
    def _errors_told(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise self._error(error) from error

    def _error(self, error: apsw.Error) -> LedgerUnavailable:
        message = f"the gateways of this home do not see each other: {error}"
        return LedgerUnavailable(message, where=self._where)
