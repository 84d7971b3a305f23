"""Answers of decisions kept for a while, shared by every process of a home.

INVARIANT: an answer comes out as it went in, or not at all: each is sealed under the home's key. A
cache that cannot be read is an empty one; no decision waits for it or fails because of it.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import apsw
from msgspec import Struct

from pointsman.errors import PointsmanError
from pointsman.kernel.instant import Instant
from pointsman.storage.sqlite.database import (
    SqliteConnection,
    in_transaction,
    named_blocks,
    open_database,
    opened_for_reading,
    sql_text,
    told_errors,
)

MOST_ANSWERS = 10_000

_SQL = named_blocks(sql_text("decision_cache_queries.sql"))
_SCHEMA = "decision_cache.sql"
_FAILS = (apsw.Error, OSError, PointsmanError)


class Kept(Struct, frozen=True):
    """An answer and until when it may be given: not at `expires_at` or later."""

    decision_id: str
    body: bytes
    stored_at: Instant
    expires_at: Instant


class CacheCount(Struct, frozen=True):
    """How many answers of a decision are kept, and how many of them have expired."""

    decision_id: str
    entries: int
    expired: int


class DecisionCache:
    """The cache of one home; may be shared by threads."""

    def __init__(self, path: Path, secret: bytes, most: int = MOST_ANSWERS) -> None:
        self._path = path
        self._secret = hashlib.sha256(b"pointsman/decision-cache/1\0" + secret).digest()
        self._most = most
        self._connection: SqliteConnection | None = None
        self._lock = threading.RLock()

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def get(self, key: bytes, now: Instant) -> Kept | None:
        """Return an answer that may still be given; one that may not is removed."""
        if not self._path.exists():
            return None
        try:
            with self._lock:
                kept = self._find(key)
                # A clock that was set back must not make an answer last longer.
                is_fresh = kept is not None and kept.stored_at <= now < kept.expires_at
                self._write([("touch" if is_fresh else "forget", (key,))])
        except _FAILS:
            return None
        return kept if is_fresh else None

    def store(self, key: bytes, kept: Kept) -> None:
        """Keep an answer; those used longest ago make room for it."""
        times = (kept.stored_at, kept.expires_at)
        row = (key, kept.decision_id, *times, kept.body, self._seal(key, kept))
        with suppress(*_FAILS), self._lock:
            self._write(
                [
                    ("forget_expired", (kept.stored_at,)),
                    ("keep", row),
                    ("forget_oldest", (self._most,)),
                ]
            )

    def invalidate(self, decision_id: str) -> int:
        """Forget the answers of one decision; give how many there were."""
        return self._remove("forget_decision", (decision_id,))

    def clear(self) -> int:
        """Forget everything, also in freed pages; return how many answers there were."""
        count = self._remove("forget_all", ())
        if self._connection is not None:
            self._connection.scrub()
        return count

    def _remove(self, name: str, values: tuple[str, ...]) -> int:
        if not self._path.exists():
            return 0
        with told_errors(self._path), self._lock:
            connection = self._open()
            before = connection.total_changes()
            self._write([(name, values)])
            return connection.total_changes() - before

    def _find(self, key: bytes) -> Kept | None:
        row = self._open().execute(_SQL["find"], (key,)).fetchone()
        if row is None:
            return None
        name, stored_at, expires_at, body, seal = row
        kept = Kept(str(name), bytes(body), Instant(int(stored_at)), Instant(int(expires_at)))
        return kept if hmac.compare_digest(bytes(seal), self._seal(key, kept)) else None

    def _write(self, work: Sequence[tuple[str, tuple[str | int | bytes, ...]]]) -> None:
        connection = self._open()

        def run() -> None:
            for name, values in work:
                connection.execute(_SQL[name], values)

        in_transaction(connection, run)

    def _open(self) -> SqliteConnection:
        if self._connection is None:
            # Nothing here is worth waiting for a disk.
            self._connection = open_database(str(self._path), _SCHEMA, sync="OFF")
        return self._connection

    def _seal(self, key: bytes, kept: Kept) -> bytes:
        times = b"".join(each.to_bytes(8, "big") for each in (kept.stored_at, kept.expires_at))
        name = kept.decision_id.encode()
        said = b"".join(
            len(part).to_bytes(4, "big") + part for part in (key, name, times, kept.body)
        )
        return hmac.digest(self._secret, said, "sha256")


def cache_counts(path: Path, now: Instant) -> list[CacheCount]:
    """Tell what a cache holds; nothing is written or removed."""
    if not path.exists():
        return []
    with told_errors(path):
        connection = opened_for_reading(str(path))
        try:
            rows = connection.execute(_SQL["counted"], (now,)).fetchall()
        finally:
            connection.close()
    return [CacheCount(*row) for row in rows]  # type: ignore[arg-type] # STRICT tables fix the types
