"""Message text by keyed digest: kept, redacted or not at all, and erasable.

Written by its own group commit beside the ledger's, so that keeping text costs no second wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

import apsw

from pointsman.errors import LedgerError, LedgerUnavailable
from pointsman.kernel.content import Retain, Sealed, seal_text
from pointsman.storage.place import Where
from pointsman.storage.sqlite.database import LOG_PAGES, SQL, in_transaction, insert_rows
from pointsman.storage.sqlite.place import place_of
from pointsman.storage.writer.chain_rows import KeptText
from pointsman.storage.writer.group import CommitPolicy, GroupCommit, Waiter

SCHEMA = "content.sql"

A = TypeVar("A")
T = TypeVar("T")


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
        self._is_down = False
        self._group: GroupCommit[KeptText, Sequence[KeptText], None] = GroupCommit(
            "content", self._commit, self._tend, policy=policy
        )

    def hand_in(self, text: str, expect: Callable[[], Waiter]) -> Sealed:
        """Seal a text and hand in the form that the home retains; `expect` makes its waiter."""
        seal = seal_text(text, self._key)
        if self._retain != "digest":
            self._group.hand_in(self._item(seal, text), expect())
        return seal

    def seal(self, text: str) -> tuple[Sealed, KeptText | None]:
        """Seal a text, and return the form to keep with its entry, if the home keeps any."""
        seal = seal_text(text, self._key)
        return seal, None if self._retain == "digest" else self._item(seal, text)

    def begin_commit(self, started: SimpleQueue[None]) -> bool:
        """Begin a deferred commit; True where `started` will be told that it is being written."""
        return self._group.begin_commit(started)

    def _item(self, seal: Sealed, text: str) -> KeptText:
        kept = self._redact(text) if self._retain == "redacted" else text
        return KeptText(seal.digest, self._retain, kept.encode("utf-8", "surrogatepass"))

    def erase(self, digests: Iterable[str]) -> int:
        """Forget texts for good, also from the log and from freed pages; count those there were.

        Texts that were forgotten before are wiped again from wherever they may still stand.
        """
        # Alone: the connection is shared with the writer thread.
        return self._group.commit_alone(lambda: self._write(self._erase, digests))

    def close(self) -> None:
        """Write all pending texts and close."""
        self._group.close()
        self._connection.close()

    def _erase(self, digests: Iterable[str]) -> int:
        connection, before = self._connection, self._connection.total_changes()
        rows = [(digest,) for digest in digests]
        in_transaction(connection, lambda: connection.executemany(SQL["erase_content"], rows))
        count = connection.total_changes() - before
        connection.scrub()
        return count

    def _commit(self, items: Sequence[KeptText]) -> list[None]:
        rows = [(item.digest, item.kept, item.text) for item in items]
        self._write(self._insert, rows)
        return [None] * len(items)

    def _insert(self, rows: Sequence[tuple[str, str, bytes]]) -> None:
        self._group.announce_start()
        insert_rows(self._connection, SQL["put_content"], rows)

    def _tend(self) -> None:
        # What cannot be written back is in the log, and the next text finds the connection renewed.
        with suppress(LedgerUnavailable):
            self._write(self._connection.tend, LOG_PAGES)

    def _write(self, work: Callable[[A], T], about: A) -> T:
        try:
            if self._is_down:
                # The disk may have room again: the first text must not be the one to find out.
                self._reopen()
            return work(about)
        except (apsw.Error, LedgerUnavailable) as error:
            # A failed sync must not be tried again on the same connection.
            self._connection.close()
            self._is_down = True
            self._reopen()
            raise LedgerUnavailable(f"the text could not be kept: {error}") from error

    def _reopen(self) -> None:
        # While this fails, so does every write on the closed connection, and comes here again.
        with suppress(apsw.Error, OSError, LedgerError):
            self._connection = self._place.lasting(SCHEMA)
            self._is_down = False
