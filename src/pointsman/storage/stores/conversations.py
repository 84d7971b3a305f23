"""Sessions, their turns and messages on disk: kept as the home retains words, and erasable.

Ids and instants come from the callers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Literal

import apsw
from msgspec import Struct

from pointsman.errors import LedgerError, LedgerUnavailable
from pointsman.kernel.content import Retain
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import Billionths, MicroUsd
from pointsman.storage.place import Where
from pointsman.storage.sqlite.database import in_transaction, named_blocks, sql_text
from pointsman.storage.sqlite.place import place_of
from pointsman.storage.writer.group import GroupCommit

CONVERSATIONS = "conversations"
"""What the store is called in a home."""

TurnStatus = Literal["open", "completed", "cancelled", "failed", "refused"]
Kept = Literal["full", "redacted", "digest", "erased"]

_SQL = named_blocks(sql_text("conversations_queries.sql"))
_Value = str | int | bytes | None
_Write = tuple[str, tuple[_Value, ...]]


class StoredSession(Struct, frozen=True):
    """A session; those of workers name their planner's."""

    id: str
    parent_session_id: str
    parent_tool_use_id: str
    workspace: str | None
    privacy: Literal["local", "cloud", "auto"]
    sticky_model: str | None
    started_at: Instant
    changed_at: Instant
    ended_at: Instant | None


class StoredTurn(Struct, frozen=True):
    """A turn: its model, cost, fingerprint and feedback."""

    id: str
    session_id: str
    decision_id: str
    model: str
    status: TurnStatus
    started_at: Instant
    ended_at: Instant | None = None
    cost_microusd: MicroUsd = MicroUsd(0)
    latency_ms: int = 0
    pricing_version: str = ""
    fingerprint: bytes = b""
    vector: bytes = b""
    score: Billionths | None = None
    is_score_explicit: bool = False
    score_confidence: Billionths = Billionths(0)
    is_learned: bool = False


class MessageRow(Struct, frozen=True):
    """A message; its content and metadata as they are given."""

    id: str
    session_id: str
    turn_id: str
    role: str
    metadata: bytes
    created_at: Instant
    schema_version: int
    kept: Kept
    content: bytes


class TurnClose(Struct, frozen=True):
    """How a turn ended, for its row."""

    id: str
    status: TurnStatus
    model: str
    decision_id: str
    ended_at: Instant
    cost_microusd: MicroUsd = MicroUsd(0)
    latency_ms: int = 0
    pricing_version: str = ""


class ConversationStore:
    """Keeps conversations; writes are gathered and synced by a thread of their own."""

    def __init__(self, where: Where, retain: Retain) -> None:
        place = place_of(where)
        self.retain = retain
        self._connection = place.lasting("conversations.sql")
        self._reading = place.lasting("conversations.sql")
        # The commit thread and a caller that erases share the connection.
        self._writing = threading.Lock()
        self._looking = threading.Lock()
        self._group: GroupCommit[_Write, Sequence[_Write], None] = GroupCommit(
            "conversations", self._commit
        )

    def begin(self, row: StoredSession) -> Future[None]:
        """Keep a new session."""
        values = (row.id, row.parent_session_id, row.parent_tool_use_id, row.workspace)
        more = (row.privacy, row.sticky_model, row.started_at, row.started_at)
        return self._append("begin", *values, *more)

    def stick(self, session_id: str, model: str | None, at: Instant) -> Future[None]:
        """Bind a session to a model, or to none."""
        return self._append("stick", model, at, session_id)

    def end(self, session_id: str, ended_at: Instant | None, at: Instant) -> Future[None]:
        """Close a session, or open it again."""
        return self._append("end", ended_at, at, session_id)

    def begin_turn(self, row: StoredTurn) -> Future[None]:
        """Keep a turn that begins."""
        self._append("touch", row.started_at, row.session_id)
        values = (row.id, row.session_id, row.decision_id, row.model, row.started_at)
        return self._append("begin_turn", *values, row.fingerprint, row.vector)

    def end_turn(self, close: TurnClose) -> Future[None]:
        """Keep how a turn ended."""
        return self._append(
            "end_turn",
            close.status,
            close.model,
            close.decision_id,
            close.ended_at,
            close.cost_microusd,
            close.latency_ms,
            close.pricing_version,
            close.id,
        )

    def score(
        self, turn_id: str, score: Billionths, confidence: Billionths, *, is_explicit: bool
    ) -> Future[None]:
        """Keep a rating of a turn; an explicit one beats one inferred from behaviour."""
        told = int(is_explicit)
        return self._append("score", score, confidence, told, turn_id, told)

    def mark_learned(self, turn_id: str) -> Future[None]:
        """Note that a turn is in the pattern store."""
        return self._append("learned", turn_id)

    def append_message(self, row: MessageRow) -> Future[None]:
        """Keep a message."""
        return self._append(
            "keep",
            row.id,
            row.session_id,
            row.turn_id,
            row.role,
            row.metadata,
            row.created_at,
            row.schema_version,
            row.kept,
            row.content,
        )

    def erase(self, session_id: str) -> int:
        """Forget the words of a session for good: also from the log and from freed pages."""
        return self._erase([("erase", (session_id,)), ("forget_looks", (session_id,))])

    def erase_turns(self, turn_ids: Iterable[str]) -> int:
        """Forget the words and the looks of turns, likewise."""
        pairs = [[("erase_turn", (each,)), ("forget_look", (each,))] for each in turn_ids]
        return self._erase([each for pair in pairs for each in pair])

    def _erase(self, writes: Sequence[_Write]) -> int:
        """Run deletions after all pending writes; return how many rows of text were erased."""
        # An update of no row: once it is durable, every write before it is, too.
        self._group.append(("touch", (0, ""))).result()
        with self._writing:
            connection, count = self._connection, 0
            with connection.transaction():
                for name, values in writes:
                    connection.execute(_SQL[name], values)
                    count += connection.changes() if name.startswith("erase") else 0
            connection.scrub()
        return count

    def session(self, session_id: str) -> StoredSession | None:
        """Return a session."""
        rows = self._rows("session", session_id)
        return _session(rows[0]) if rows else None

    def sessions(self, most: int = 100) -> list[StoredSession]:
        """Return the sessions of users, the one with the latest turn first."""
        return [_session(each) for each in self._rows("sessions", most)]

    def workers(self, session_id: str) -> list[StoredSession]:
        """Return the workers of a session, in the order they began."""
        return [_session(each) for each in self._rows("workers", session_id)]

    def turns(self, session_id: str) -> list[StoredTurn]:
        """Return the turns of a session, in their order."""
        return [_turn(each) for each in self._rows("turns", session_id)]

    def turn(self, turn_id: str) -> StoredTurn | None:
        """Return a turn."""
        rows = self._rows("turn", turn_id)
        return _turn(rows[0]) if rows else None

    def messages(self, session_id: str) -> list[MessageRow]:
        """Return the messages of a session, in their order."""
        return [MessageRow(*each) for each in self._rows("messages", session_id)]  # type: ignore[arg-type] # STRICT tables fix the types

    def close(self) -> None:
        """Write all pending rows and close."""
        self._group.close()
        self._connection.close()
        self._reading.close()

    def _append(self, name: str, *values: _Value) -> Future[None]:
        return self._group.append((name, values))

    def _rows(self, name: str, value: str | int) -> list[tuple[object, ...]]:
        with self._looking:
            try:
                return list(self._reading.execute(_SQL[name], (value,)))
            except (apsw.Error, LedgerError) as error:
                raise LedgerUnavailable(f"conversations cannot be read: {error}") from error

    def _commit(self, items: Sequence[_Write]) -> list[None]:
        try:
            with self._writing:
                in_transaction(self._connection, lambda: self._write(items))
        except (apsw.Error, LedgerError) as error:
            raise LedgerUnavailable(f"the conversation could not be kept: {error}") from error
        return [None] * len(items)

    def _write(self, items: Sequence[_Write]) -> None:
        for name, values in items:
            self._connection.execute(_SQL[name], values)


def _session(row: tuple[object, ...]) -> StoredSession:
    return StoredSession(*row)  # type: ignore[arg-type] # STRICT tables fix the types


def _turn(row: tuple[object, ...]) -> StoredTurn:
    values = [*row]
    values[13], values[15] = bool(row[13]), bool(row[15])
    return StoredTurn(*values)  # type: ignore[arg-type] # STRICT tables fix the types
