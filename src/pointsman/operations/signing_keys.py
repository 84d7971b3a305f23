"""Replacing the key that signs a home's ledger, while no process writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from msgspec import Struct

from pointsman.errors import ChainHeld, InputError
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Instant
from pointsman.kernel.rotation import rotate_key
from pointsman.kernel.signing import SigningKey
from pointsman.recording.chain_writer import chain_writer, signing_key_held
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.ledger import LedgerWriter

_NO_OPENING = Draft("chain.opened", "", "", Instant(0), b"")
"""Never appended: only chains that have entries are opened here."""


class RotatedKey(Struct, frozen=True):
    """The key that was replaced, the one that signs now, and how long each chain was."""

    old_key_id: str
    new_key_id: str
    public_key: str
    chains: Mapping[str, int]


def rotate_signing_key(
    home: Home, secret: bytes, at: Instant, compromised_since: Instant | None = None
) -> RotatedKey:
    """Put a new signing key in force; the old one counts for recorded entries, and no more.

    Every chain is verified up to its end and closed under the old key, then begins anew under the
    other: its next checkpoint covers all that was ever recorded. Raises `ChainHeld` while a process
    writes.
    """
    if compromised_since is not None and compromised_since > at:
        raise InputError("the key cannot be compromised since an instant to come")
    with signing_key_held(home) as old:
        chains = {}
        for name in _chains(home):
            with _chain_held(home, name, old) as writer:
                chains[name] = writer.size
        new = SigningKey(secret)
        rotation = rotate_key(home.identity.ledger, (old, new), chains, at, compromised_since)
        home.replace_signing_key(secret, rotation)
        for name in chains:
            with _chain_held(home, name, new):
                pass  # opening says which key signs from here on, closing signs
    return RotatedKey(old.id, new.id, new.public.hex(), chains)


def _chains(home: Home) -> list[str]:
    """Name the chains that have entries."""
    if not home.database.exists():
        return []
    with closing(LedgerReader(home.database)) as reader:
        return [name for name, number in reader.chains().items() if reader.size(number)]


@contextmanager
def _chain_held(home: Home, name: str, key: SigningKey) -> Iterator[LedgerWriter]:
    leased = home.ledger(name)
    try:
        if leased.chain != name:
            raise ChainHeld(
                f"another process writes the chain `{name}`",
                hint="stop what runs in this home, on every host, then try again",
            )
        writer = chain_writer(home, leased, key, _NO_OPENING)
        try:
            yield writer
        finally:
            writer.close()
    finally:
        leased.release()
