"""Opening a chain of a home to write, under its newest key, while no process replaces that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pointsman.errors import ForeignKey
from pointsman.kernel.entry import Chain, Draft
from pointsman.kernel.rotation import ROTATED, rotation_draft
from pointsman.kernel.signing import SigningKey
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.chain_rows import LeasedLedger
from pointsman.storage.writer.group import CommitPolicy
from pointsman.storage.writer.ledger import LedgerWriter

SIGNING_KEY = "signing-key"
"""The lease under which chains are opened and the key is replaced: never both at one time."""


@contextmanager
def signing_key_held(home: Home) -> Iterator[SigningKey]:
    """Keep the newest signing key in force until a chain is opened under it."""
    lease = home.lease(SIGNING_KEY, waits=True)
    try:
        home.read_identity()
        home.finish_rotation()
        yield home.signing_key()
    finally:
        lease.release()


def chain_writer(
    home: Home,
    leased: LeasedLedger,
    key: SigningKey,
    opening: Draft,
    policy: CommitPolicy | None = None,
) -> LedgerWriter:
    """Open a leased chain under a key; where an older key signed it, the chain says so."""
    return LedgerWriter(
        leased.place,
        Chain(home.identity.ledger, leased.chain),
        key,
        opening,
        older_keys=home.keys[:-1],
        rotations=[rotation_draft(each) for each in home.identity.rotations],
        policy=policy,
    )


def check_newest_key(home: Home, reader: LedgerReader) -> None:
    """Raise where the ledger was signed by a key that this home does not know yet."""
    known = {key.id for key in home.keys}
    for stored in reader.of_kind(ROTATED):
        if stored.entry.id not in known:
            raise ForeignKey(
                f"the ledger is signed by `{stored.entry.id}`, which this home does not know",
                where=str(home.path),
                hint="copy identity.json and keys/signing from the home where it was replaced",
            )
