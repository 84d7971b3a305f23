"""A turn as the pattern store looks at it."""

from __future__ import annotations

from msgspec import Struct

from pointsman.turns.fingerprint import DIMENSIONS, Fingerprint, fingerprint_id


class Look(Struct, frozen=True):
    """A fingerprint with its vector and the name the two go by."""

    id: str
    fingerprint: Fingerprint
    vector: bytes

    @classmethod
    def of(cls, fingerprint: Fingerprint, vector: bytes) -> Look:
        """Name the two; a vector of another length counts as none."""
        kept = vector if len(vector) == DIMENSIONS else b""
        return cls(fingerprint_id(fingerprint, kept), fingerprint, kept)
