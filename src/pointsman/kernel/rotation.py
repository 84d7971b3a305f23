"""Replacing a ledger's signing key: the old key names the new one, and where its own word ends.

Pure. A ledger is known by its first key; every later one follows from it by rotations, each signed
by both keys. A key that was replaced counts for the entries its chains had then, and for no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pointsman.errors import IntegrityFailure
from pointsman.kernel.canonical import Form
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Instant, instant_text, read_instant
from pointsman.kernel.signing import SigningKey, VerifyKey, key_id, signed_bytes

ROTATED: Final = "key.rotated"
"""The entry that a chain begins with under a new key; its id is that of the new key."""


class KeyRotation(Struct, frozen=True, forbid_unknown_fields=True):
    """One key named another as its successor; both signed it."""

    at: str
    chains: dict[str, int]
    """How many entries each chain had: the old key counts for these, and for no later ones."""
    compromised_since: str
    """From when on the old key may have been in other hands; empty where it was not."""
    ledger: str
    new: str
    old: str
    by_new: str = ""
    by_old: str = ""

    @property
    def statement(self) -> bytes:
        """What both keys sign."""
        return signed_bytes("rotation", _FORM.encode(replace(self, by_new="", by_old="")))


_FORM: Final = Form(KeyRotation)


class RetiredKey(VerifyKey):
    """A public key that was replaced: it counts only for what chains held then."""

    def __init__(self, public: bytes, ends: Mapping[str, int]) -> None:
        super().__init__(public)
        self._ends = ends

    def covers(self, chain: str, size: int) -> bool:
        """Tell whether the key may have signed that a chain had so many entries."""
        return size <= self._ends.get(chain, 0)


def rotate_key(
    ledger: str,
    keys: tuple[SigningKey, SigningKey],
    chains: Mapping[str, int],
    at: Instant,
    compromised_since: Instant | None = None,
) -> KeyRotation:
    """Make and sign the statement that the second key takes the place of the first."""
    old, new = keys
    since = "" if compromised_since is None else instant_text(compromised_since)
    public = (ledger, new.public.hex(), old.public.hex())
    made = KeyRotation(instant_text(at), dict(chains), since, *public)
    by_new, by_old = (key.sign(made.statement).hex() for key in (new, old))
    return replace(made, by_new=by_new, by_old=by_old)


def key_ring(
    ledger: str, publics: Sequence[str], rotations: Sequence[KeyRotation]
) -> list[VerifyKey]:
    """Return a ledger's keys, the newest last, or raise where one does not follow from the first.

    Who can write the list but holds no key can add none.
    """
    keys = [VerifyKey(bytes.fromhex(public)) for public in publics]
    if len(rotations) != len(keys) - 1:
        raise IntegrityFailure(f"{len(keys)} keys need {len(keys) - 1} rotations between them")
    found: list[VerifyKey] = []
    for old, new, rotation in zip(keys, keys[1:], rotations, strict=False):
        _check_rotation(ledger, old, new, rotation)
        found.append(RetiredKey(old.public, rotation.chains))
    return [*found, *keys[-1:]]


def _check_rotation(ledger: str, old: VerifyKey, new: VerifyKey, rotation: KeyRotation) -> None:
    named = (rotation.ledger, rotation.old, rotation.new)
    signatures = [bytes.fromhex(each) for each in (rotation.by_old, rotation.by_new)]
    pairs = zip((old, new), signatures, strict=True)
    is_signed = all(key.verifies(rotation.statement, signature) for key, signature in pairs)
    if named != (ledger, old.public.hex(), new.public.hex()) or not is_signed:
        raise IntegrityFailure(f"the key before it did not name `{new.id}` as its successor")


def rotation_draft(rotation: KeyRotation) -> Draft:
    """Make the entry that says which key a chain is signed by from here on."""
    new, old = (key_id(bytes.fromhex(each)) for each in (rotation.new, rotation.old))
    return Draft(ROTATED, new, old, read_instant(rotation.at), _FORM.encode(rotation))


def covering(keys: Sequence[VerifyKey], chain: str, seq: int) -> list[VerifyKey]:
    """Return the keys that may have signed what an entry of a chain holds."""
    return [key for key in keys if key.covers(chain, seq + 1)]
