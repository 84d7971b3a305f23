"""What sessions keep across restarts: pins, and the locks of turns that wait for a tool."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future

import apsw
from msgspec import Struct

from pointsman.errors import LedgerError, LedgerUnavailable
from pointsman.kernel.instant import Instant
from pointsman.storage.place import Where
from pointsman.storage.sqlite.database import in_transaction, named_blocks, sql_text
from pointsman.storage.sqlite.place import place_of
from pointsman.storage.writer.group import GroupCommit

LOOK_S = 1.0

_SQL = named_blocks(sql_text("sessions_queries.sql"))


class KeptSession(Struct, frozen=True):
    """The kept state of one session; empty texts where there is none."""

    pinned_model: str = ""
    turn_id: str = ""
    decision_id: str = ""
    locked_model: str = ""


class Pin(Struct, frozen=True):
    """A session and the model it is bound to."""

    session_id: str
    model: str
    since: Instant


_Write = tuple[str, tuple[str | int | None, ...]]


class SessionStore:
    """Keeps sessions; writes are gathered and synced by a thread of their own."""

    def __init__(self, where: Where) -> None:
        place = place_of(where)
        self._connection = place.lasting("sessions.sql")
        self._reading = place.lasting("sessions.sql")
        self._pinned: dict[str, str] = {}
        self._looked_at = float("-inf")
        self._commits = self._commits_seen = 0
        self._group: GroupCommit[_Write, Sequence[_Write], None] = GroupCommit(
            "sessions", self._commit
        )

    def find(self, session_id: str) -> KeptSession:
        """Return the kept part of a session."""
        row = self._reading.execute(_SQL["find"], (session_id,)).fetchone()
        return KeptSession() if row is None else KeptSession(*(str(part or "") for part in row))

    def pinned_model(self, session_id: str) -> str:
        """Return the model a session is bound to; what another process pins counts in a second."""
        now, commits = time.monotonic(), self._commits
        # A look that began before a pin was committed must not stand after its caller was answered.
        if commits != self._commits_seen or now - self._looked_at > LOOK_S:
            self._pinned = {each.session_id: each.model for each in self.pins()}
            self._looked_at, self._commits_seen = now, commits
        return self._pinned.get(session_id, "")

    def look_again(self) -> None:
        """Have the next question for a pin answered by the database."""
        self._looked_at = float("-inf")

    def pins(self) -> list[Pin]:
        """Return every pin."""
        rows = self._reading.execute(_SQL["pinned"])
        return [Pin(str(name), str(model), Instant(int(at))) for name, model, at in rows]

    def pin(self, session_id: str, model: str | None, at: Instant) -> Future[None]:
        """Bind a session to a model, or to none."""
        if model is None:
            self._pinned.pop(session_id, None)
        else:
            self._pinned[session_id] = model
        kept = self._group.append(("pin", (session_id, model, at)))
        kept.add_done_callback(self._count_commit)
        return kept

    def lock(
        self, session_id: str, turn_id: str, decision_id: str, model: str, at: Instant
    ) -> Future[None]:
        """Remember the model of a turn that waits for a tool."""
        return self._group.append(("lock", (session_id, turn_id, decision_id, model, at)))

    def _count_commit(self, _kept: Future[None]) -> None:
        self._commits += 1

    def close(self) -> None:
        """Write all pending rows and close."""
        self._group.close()
        self._connection.close()
        self._reading.close()

    def _commit(self, items: Sequence[_Write]) -> list[None]:
        try:
            in_transaction(self._connection, lambda: self._write(items))
        except (apsw.Error, LedgerError) as error:
            raise LedgerUnavailable(f"the session could not be kept: {error}") from error
        return [None] * len(items)

    def _write(self, items: Sequence[_Write]) -> None:
        for name, values in items:
            self._connection.execute(_SQL[name], values)
