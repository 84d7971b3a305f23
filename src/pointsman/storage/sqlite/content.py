"""Message text by keyed digest: kept, redacted or not at all, and erasable.

Written by its own group commit beside the ledger's, so that keeping text costs no second wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import apsw
from msgspec import Struct

from pointsman.errors import LedgerUnavailable, MissingSnapshot
from pointsman.kernel.content import Retain, Sealed, sealed
from pointsman.storage.sqlite.database import SQL, in_transaction, opened, opened_for_reading
from pointsman.storage.sqlite.group import GroupCommit

T = TypeVar("T")

_WHY_NOT = {
    "redacted": "was kept only in redacted form",
    "erased": "was erased",
}


class _Kept(Struct, frozen=True):
    digest: str
    kept: str
    text: bytes


class ContentStore:
    """Texts of one home."""

    def __init__(
        self, path: Path, key: bytes, retain: Retain, redact: Callable[[str], str]
    ) -> None:
        self._key = key
        self._retain = retain
        self._redact = redact
        self._path = path
        # A connection is used by one thread at a time; reading does not wait for syncs.
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._connection = opened(str(path), "content.sql")
        self._reader = opened_for_reading(str(path))
        self._group: GroupCommit[_Kept, None] = GroupCommit("content", self._committed)

    def keep(self, text: str) -> tuple[Sealed, Future[None] | None]:
        """Seal a text, and keep of it what the home retains; the future is done when durable."""
        seal = sealed(text, self._key)
        if self._retain == "digest":
            return seal, None
        kept = self._redact(text) if self._retain == "redacted" else text
        data = kept.encode("utf-8", "surrogatepass")
        return seal, self._group.submit(_Kept(seal.digest, self._retain, data))

    def text(self, seal: Sealed) -> str:
        """Give a text back whole, or say why it cannot be had."""
        found = self._found(seal)
        if found is None:
            raise MissingSnapshot("the message text was not kept")
        if found.kept != "full":
            raise MissingSnapshot(f"the message text {_WHY_NOT[found.kept]}")
        text = found.text.decode("utf-8", "surrogatepass")
        if sealed(text, self._key) != seal:
            raise MissingSnapshot("the message text is not the one that was sealed")
        return text

    def shown(self, seal: Sealed) -> str | None:
        """Give what is kept of a text for showing, redacted or not; None when nothing is."""
        found = self._found(seal)
        if found is None or found.kept == "erased":
            return None
        return found.text.decode("utf-8", "surrogatepass")

    def erase(self, digest: str) -> bool:
        """Forget a text for good: also from the log and from freed pages."""
        return self._written(lambda: self._erased(digest))

    def close(self) -> None:
        """Write what was handed in and close."""
        self._group.close()
        self._reader.close()
        self._connection.close()

    def _found(self, seal: Sealed) -> _Kept | None:
        with self._reading:
            row = self._reader.execute(SQL["get_content"], (seal.digest,)).get
        return _Kept(seal.digest, *row) if row else None

    def _erased(self, digest: str) -> bool:
        connection = self._connection
        in_transaction(connection, lambda: connection.execute(SQL["erase_content"], (digest,)))
        was_kept = connection.changes() > 0
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        return was_kept

    def _committed(self, items: Sequence[_Kept]) -> list[None]:
        rows = [(item.digest, item.kept, item.text) for item in items]
        self._written(lambda: self._put(rows))
        return [None] * len(items)

    def _put(self, rows: Sequence[tuple[str, str, bytes]]) -> None:
        connection = self._connection
        in_transaction(connection, lambda: connection.executemany(SQL["put_content"], rows))

    def _written(self, work: Callable[[], T]) -> T:
        with self._writing:
            try:
                return work()
            except apsw.Error as error:
                # A failed sync must not be tried again on the same connection.
                self._connection.close()
                self._reopen()
                raise LedgerUnavailable(f"the text could not be kept: {error}") from error

    def _reopen(self) -> None:
        # While this fails, so does every write on the closed connection, and comes here again.
        with suppress(apsw.Error, OSError):
            self._connection = opened(str(self._path), "content.sql")
