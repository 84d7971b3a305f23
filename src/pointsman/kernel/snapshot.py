"""Snapshots: configuration and state frozen under a content id and signed for one ledger.

A snapshot is verified whenever it is loaded. Defaults are filled in when it is made; a key that is
missing when it is read back is an error, never a default of today.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from pointsman.errors import IntegrityFailure
from pointsman.kernel.canonical import ContentId, Form, check_content, content_id
from pointsman.kernel.entry import Draft, Entry
from pointsman.kernel.instant import Instant
from pointsman.kernel.signing import SigningKey, VerifyKey, signed_bytes

T = TypeVar("T")

SNAPSHOT = "snapshot"


class Snapshot(Struct, frozen=True):
    """The stored form: what kind of thing, its canonical bytes, and who signed them."""

    id: ContentId
    kind: str
    schema_version: int
    body: bytes
    key_id: str
    signature: bytes


class SnapshotForm(Generic[T]):
    """How one kind of snapshot is made, verified and read back."""

    def __init__(self, kind: str, schema_version: int, type_: type[T]) -> None:
        self.kind = kind
        self.schema_version = schema_version
        self.form = Form(type_)

    def id(self, value: T) -> ContentId:
        """Name a value without signing it."""
        return self.form.id(value)

    def make(self, value: T, ledger: str, key: SigningKey) -> Snapshot:
        """Freeze and sign a value; every field is written, defaults too."""
        body = self.form.encode(value)
        name = content_id(body)
        message = _statement(name, self.kind, self.schema_version, ledger)
        return Snapshot(name, self.kind, self.schema_version, body, key.id, key.sign(message))

    def load(self, snapshot: Snapshot, ledger: str, keys: Sequence[VerifyKey]) -> T:
        """Verify a stored snapshot and read it; nothing is filled in."""
        verify_snapshot(snapshot, ledger, keys)
        if (snapshot.kind, snapshot.schema_version) != (self.kind, self.schema_version):
            raise IntegrityFailure(
                f"snapshot `{snapshot.id}` is a {snapshot.kind} of version "
                f"{snapshot.schema_version}, not a {self.kind} of version {self.schema_version}"
            )
        return self.form.decode(snapshot.body)


class _Signed(Struct, frozen=True, forbid_unknown_fields=True):
    schema_version: int
    key_id: str
    signature: str


_SIGNED_FORM = Form(_Signed)


def snapshot_draft(snapshot: Snapshot, at: Instant) -> Draft:
    """Make the entry that records a snapshot, its body attached; `ref` is its kind."""
    payload = _Signed(snapshot.schema_version, snapshot.key_id, snapshot.signature.hex())
    body = (snapshot.body,)
    return Draft(SNAPSHOT, snapshot.id, snapshot.kind, at, _SIGNED_FORM.encode(payload), body)


def read_snapshot(entry: Entry, body: bytes) -> Snapshot:
    """Read a recorded snapshot back; the caller verifies it by loading it."""
    signed = _SIGNED_FORM.decode(entry.payload)
    signature = bytes.fromhex(signed.signature)
    name = ContentId(entry.id)
    return Snapshot(name, entry.ref, signed.schema_version, body, signed.key_id, signature)


def verify_snapshot(snapshot: Snapshot, ledger: str, keys: Sequence[VerifyKey]) -> None:
    """Raise unless the snapshot's id matches its body and a key of the ledger signed it."""
    check_content(snapshot.id, snapshot.body, "snapshot")
    message = _statement(snapshot.id, snapshot.kind, snapshot.schema_version, ledger)
    signers = [key for key in keys if key.id == snapshot.key_id]
    if not any(key.verifies(message, snapshot.signature) for key in signers):
        raise IntegrityFailure(f"snapshot `{snapshot.id}` is not signed by a key of this ledger")


def _statement(name: ContentId, kind: str, schema_version: int, ledger: str) -> bytes:
    # Length-prefixed, so that no two statements share their bytes.
    parts = [part.encode() for part in (ledger, kind, str(schema_version), name)]
    return signed_bytes("snapshot", b"".join(len(p).to_bytes(2, "big") + p for p in parts))
