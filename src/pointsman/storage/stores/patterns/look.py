"""A turn as the pattern store looks at it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from pointsman.storage.connection import Connection
from pointsman.storage.sqlite.database import named_blocks, sql_text
from pointsman.turns.learning.evidence_look import MINILM, TOKENS
from pointsman.turns.learning.fingerprint import DIMENSIONS, Fingerprint, fingerprint_id

SQL = named_blocks(sql_text("patterns_queries.sql"))


class Changed(Struct, frozen=True):
    """The fingerprints that are new or counted on, and those that are gone."""

    names: Sequence[str]
    gone: Sequence[str] = ()

    @property
    def names_json(self) -> str:
        """The names as a JSON list."""
        return msgspec.json.encode(self.names).decode()

    @classmethod
    def since(cls, connection: Connection, version: int) -> Changed | None:
        """Return what changed after a version; None where the store does not know that.

        SQLite tells only that another process wrote. Where many processes write all the time, the
        store numbers its changes: reading all of it at every turn would not do.
        """
        if version < connection.execute(SQL["numbered_from"]).get:
            return None
        rows = connection.execute(SQL["changed_since"], (version,)).fetchall()
        return cls([name for name, is_gone in rows if not is_gone], [n for n, gone in rows if gone])


_TOKEN_LENGTHS = frozenset({TOKENS, TOKENS + len(MINILM)})


class Look(Struct, frozen=True):
    """A fingerprint with the vectors of its text and the name it goes by.

    `vector` are the letters; the tokens, with the mark of their maker, are no part of the name:
    turns recorded without them keep theirs.
    """

    id: str
    fingerprint: Fingerprint
    vector: bytes
    tokens: bytes = b""

    @classmethod
    def of(cls, fingerprint: Fingerprint, vector: bytes) -> Look:
        """Name the two; a vector is letters, or letters and tokens, and of another length none."""
        letters, tokens = halves(vector)
        return cls(fingerprint_id(fingerprint, letters), fingerprint, letters, tokens)


def halves(vector: bytes) -> tuple[bytes, bytes]:
    """Split the vector of a text into letters and tokens, empty where they are not there."""
    if len(vector) == DIMENSIONS:
        return vector, b""
    if len(vector) - DIMENSIONS in _TOKEN_LENGTHS:
        return vector[:DIMENSIONS], vector[DIMENSIONS:]
    return b"", b""


def made_by(maker: bytes, tokens: bytes) -> bytes:
    """Return the numbers of tokens, without their mark; those of another maker count as none."""
    return tokens[:TOKENS] if tokens[TOKENS:] == maker else b""
