"""Message text by keyed digest: kept, redacted or not at all, and erasable.

Written by its own group commit beside the ledger's, so that keeping text costs no second wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

import apsw
from msgspec import Struct

from pointsman.errors import LedgerError, LedgerUnavailable
from pointsman.kernel.content import Retain, Sealed, seal_text
from pointsman.storage.place import Where
from pointsman.storage.sqlite.database import LOG_PAGES, SQL, insert_rows
from pointsman.storage.sqlite.place import place_of
from pointsman.storage.writer.group import CommitPolicy, GroupCommit, Waiter

SCHEMA = "content.sql"

T = TypeVar("T")


class _Kept(Struct, frozen=True):
    digest: str
    kept: str
    text: bytes


class ContentStore:
    """Keeps and erases the texts of one home; `reading.ContentReader` gives them back."""

    def __init__(
        self,
        where: Where,
        key: bytes,
        retain: Retain,
        redact: Callable[[str], str],
        policy: CommitPolicy | None = None,
    ) -> None:
        self._key = key
        self._retain = retain
        self._redact = redact
        self._place = place_of(where)
        self._connection = self._place.lasting(SCHEMA)
        self._group: GroupCommit[_Kept, Sequence[_Kept], None] = GroupCommit(
            "content", self._commit, self._tend, policy=policy
        )

    def keep(self, text: str) -> tuple[Sealed, Future[None] | None]:
        """Seal a text, and keep of it what the home retains; the future is done when durable."""
        seal = seal_text(text, self._key)
        if self._retain == "digest":
            return seal, None
        return seal, self._group.submit(self._item(seal, text))

    def hand_in(self, text: str, expect: Callable[[], Waiter]) -> Sealed:
        """Seal a text and keep it likewise; the waiter of `expect` is told when it is durable."""
        seal = seal_text(text, self._key)
        if self._retain != "digest":
            self._group.hand_in(self._item(seal, text), expect())
        return seal

    def begin_commit(self, started: SimpleQueue[None]) -> bool:
        """Begin a deferred commit; True where `started` will be told that it is being written."""
        return self._group.begin_commit(started)

    def _item(self, seal: Sealed, text: str) -> _Kept:
        kept = self._redact(text) if self._retain == "redacted" else text
        return _Kept(seal.digest, self._retain, kept.encode("utf-8", "surrogatepass"))

    def erase(self, digest: str) -> bool:
        """Forget a text for good: also from the log and from freed pages."""
        # Alone: the connection is shared with the writer thread.
        return self._group.commit_alone(lambda: self._write(lambda: self._erase(digest)))

    def close(self) -> None:
        """Write what was handed in and close."""
        self._group.close()
        self._connection.close()

    def _erase(self, digest: str) -> bool:
        connection = self._connection
        connection.execute(SQL["erase_content"], (digest,))
        was_kept = connection.changes() > 0
        connection.scrub()
        return was_kept

    def _commit(self, items: Sequence[_Kept]) -> list[None]:
        rows = [(item.digest, item.kept, item.text) for item in items]
        self._write(lambda: self._insert(rows))
        return [None] * len(items)

    def _insert(self, rows: Sequence[tuple[str, str, bytes]]) -> None:
        self._group.announce_start()
        insert_rows(self._connection, SQL["put_content"], rows)

    def _tend(self) -> None:
        # What cannot be written back is in the log, and the next text finds the connection renewed.
        with suppress(LedgerUnavailable):
            self._write(lambda: self._connection.tend(LOG_PAGES))

    def _write(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except (apsw.Error, LedgerUnavailable) as error:
            # A failed sync must not be tried again on the same connection.
            self._connection.close()
            self._reopen()
            raise LedgerUnavailable(f"the text could not be kept: {error}") from error

    def _reopen(self) -> None:
        # While this fails, so does every write on the closed connection, and comes here again.
        with suppress(apsw.Error, OSError, LedgerError):
            self._connection = self._place.lasting(SCHEMA)
