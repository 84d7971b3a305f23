"""A turn as the pattern store looks at it."""

from __future__ import annotations

from msgspec import Struct

from pointsman.turns.evidence_look import TOKENS
from pointsman.turns.fingerprint import DIMENSIONS, Fingerprint, fingerprint_id


class Look(Struct, frozen=True):
    """A fingerprint with the vectors of its text and the name it goes by.

    `vector` are the letters; the tokens are no part of the name: turns recorded without them keep
    theirs.
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
    if len(vector) == DIMENSIONS + TOKENS:
        return vector[:DIMENSIONS], vector[DIMENSIONS:]
    return b"", b""
