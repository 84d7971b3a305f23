"""Checkpoints in the database, for every replica to see, and a copy in the home where possible.

The home's copy makes a rewritten or rolled back database visible: the newest of both counts.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pointsman.kernel.entry import Chain
from pointsman.kernel.verification import HASH_SIZE
from pointsman.storage.postgres.connection import PostgresConnection
from pointsman.storage.writer.checkpoints import (
    CheckpointFolder,
    NewestNotes,
    chains_with_checkpoints,
    claimed_size,
)

_NOT_MINE: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_NOTES: Final = "SELECT note FROM checkpoints WHERE chain = ? ORDER BY size"
_LEAVES: Final = """
SELECT coalesce(string_agg(leaves, ''::bytea ORDER BY size), ''::bytea)
FROM checkpoints WHERE chain = ?
"""
_LEAF_RANGE: Final = """
SELECT size, leaves FROM checkpoints
WHERE chain = ? AND size > ? AND size - length(leaves) / 32 < ? ORDER BY size
"""
_ADDED: Final = """
INSERT INTO checkpoints (chain, size, note, leaves) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING
"""

Looking = Callable[[], PostgresConnection]
"""Opens a connection for a look, which closes it."""


class PostgresCheckpoints:
    """The checkpoints of a home, chain by chain."""

    def __init__(self, root: Path, looking: Looking) -> None:
        self._root = root
        self._looking = looking

    def chains(self) -> list[str]:
        """Name the chains that have checkpoints, whether or not the database knows them."""
        with _connection(self._looking) as connection:
            kept = chains_with_notes(connection)
        return sorted({*kept, *chains_with_checkpoints(self._root)})

    def of(self, chain: Chain) -> SharedCheckpoints:
        """Return those of one chain."""
        return SharedCheckpoints(self._root, chain, self._looking)


class SharedCheckpoints(CheckpointFolder):
    """The checkpoints of one chain. A writer sets `writing` to its connection."""

    def __init__(self, root: Path, chain: Chain, looking: Looking) -> None:
        super().__init__(root, chain)
        self._looking = looking
        self.writing: PostgresConnection | None = None

    def texts(self) -> tuple[list[str], str]:
        """Return the checkpoints of both places in order; of the home, also a torn end."""
        notes, rest = self._kept_texts()
        with self._connection() as connection:
            found = connection.execute(_NOTES, (self.chain.name,))
            shared = [str(note) for (note,) in found]
        return merge_notes(notes, shared), rest

    def newest(self, most: int, known: NewestNotes) -> NewestNotes:
        """Return the newest checkpoints of both places and their number."""
        del known
        texts = self.texts()[0]
        return NewestNotes(tuple(texts[-most:]), len(texts))

    def leaves(self) -> bytes:
        """Return the hashes of the entries that checkpoints cover."""
        with self._connection() as connection:
            return bytes(connection.execute(_LEAVES, (self.chain.name,)).get)

    def leaf_range(self, first: int, end: int) -> bytes:
        """Return the hashes of a range of entries, as far as checkpoints cover it."""
        with self._connection() as connection:
            rows = [*connection.execute(_LEAF_RANGE, (self.chain.name, first, end))]
        if not rows:
            return b""
        begun = int(rows[0][0]) - len(rows[0][1]) // HASH_SIZE
        data = b"".join(bytes(leaves) for _, leaves in rows)
        return data[(first - begun) * HASH_SIZE : (end - begun) * HASH_SIZE]

    def append(self, text: str, leaves: Sequence[bytes], *, before: int) -> None:
        """Add a checkpoint durably, with the hashes of the entries since the one before it."""
        values = (self.chain.name, before + len(leaves), text, b"".join(leaves))
        with self._connection() as connection:
            connection.execute(_ADDED, values)
        # A replica may have a home that it cannot write: the others' homes keep theirs.
        try:
            super().append(text, leaves, before=before)
        except OSError as error:
            if error.errno not in _NOT_MINE:
                raise

    def keep_leaves(self, leaves: Sequence[bytes], *, before: int) -> None:
        """Keep nothing more: the hashes stand beside their checkpoint."""

    @contextmanager
    def _connection(self) -> Iterator[PostgresConnection]:
        if self.writing is not None:
            yield self.writing
            return
        with _connection(self._looking) as connection:
            yield connection


def chains_with_notes(connection: PostgresConnection) -> list[str]:
    """Name the chains that have checkpoints in the database."""
    if connection.execute("SELECT to_regclass('checkpoints')::text").get is None:
        return []
    rows = connection.execute("SELECT DISTINCT chain FROM checkpoints ORDER BY chain")
    return [str(name) for (name,) in rows]


def merge_notes(kept: list[str], shared: list[str]) -> list[str]:
    """Put two lists of notes in one order, each note once.

    Two notes that claim one size both stay: one of them is not the writer's, and is found so.
    """
    notes = dict.fromkeys((*kept, *shared))
    return sorted(notes, key=claimed_size) if kept != shared else shared


@contextmanager
def _connection(looking: Looking) -> Iterator[PostgresConnection]:
    connection = looking()
    try:
        yield connection
    finally:
        connection.close()
