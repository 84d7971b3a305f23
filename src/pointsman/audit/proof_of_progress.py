"""How far a ledger was proved before: signed, so that the next proof reads only new entries.

The signature says that the holder of the ledger's key saw the chains intact, or their decisions
come out the same, up to a checkpoint. A change before it, made since then, shows when all is read
again, from scratch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, Literal

import msgspec
from msgspec import Struct

from pointsman.audit.chain_notes import chain_notes, claimed_size, notes_of
from pointsman.errors import PointsmanError
from pointsman.kernel.checkpoint import Checkpoint, read_checkpoint
from pointsman.kernel.entry import Chain
from pointsman.kernel.signing import signed_bytes
from pointsman.storage.files import replace_file
from pointsman.storage.home import Home

FEWEST: Final = 100_000
"""A chain with fewer entries is read as a whole each time: that takes a second or two."""

Proving = Literal["verified", "replayed"]


class _ChainProgress(Struct, frozen=True, forbid_unknown_fields=True):
    size: int
    root: str


class _Progress(Struct, frozen=True, forbid_unknown_fields=True):
    what: Proving
    ledger: str
    whole_at: str
    version: str
    chains: dict[str, _ChainProgress]


class _SignedProgress(Struct, frozen=True, forbid_unknown_fields=True):
    progress: msgspec.Raw
    key: str
    signature: str


class Proved(Struct, frozen=True):
    """The checkpoints up to which chains were proved before, and when all was read last."""

    whole_at: str = ""
    checkpoints: dict[str, Checkpoint] = {}

    @property
    def sizes(self) -> dict[str, int]:
        """How many entries of each chain were proved before."""
        return {name: each.size for name, each in self.checkpoints.items()}


def read_progress(home: Home, what: Proving, version: str) -> Proved:
    """Return how far a home's ledger was proved by a version; nothing where no proof holds."""
    found = _read_signed(home, what)
    if found is None or (found.what, found.version) != (what, version):
        return Proved()
    if found.ledger != home.identity.ledger:
        return Proved()
    checkpoints = {}
    for name, each in found.chains.items():
        checkpoint = _find_checkpoint(home, name, each.size)
        if checkpoint is not None and checkpoint.root.hex() == each.root:
            checkpoints[name] = checkpoint
    return Proved(found.whole_at, checkpoints)


def keep_progress(
    home: Home, what: Proving, version: str, whole_at: str, sizes: Mapping[str, int]
) -> None:
    """Keep that chains were proved up to the checkpoints of these sizes.

    Short chains are left out. Without the key to sign it, nothing is kept.
    """
    chains = {}
    for name, size in sizes.items():
        checkpoint = _find_checkpoint(home, name, size) if size >= FEWEST else None
        if checkpoint is not None:
            chains[name] = _ChainProgress(size, checkpoint.root.hex())
    if not chains:
        return
    progress = _Progress(what, home.identity.ledger, whole_at, version, chains)
    text = msgspec.json.encode(progress)
    with suppress(OSError, PointsmanError):
        key = home.signing_key()
        signed = _SignedProgress(msgspec.Raw(text), key.id, key.sign(_statement(text)).hex())
        replace_file(home.path / f"{what}.json", msgspec.json.encode(signed) + b"\n")


def signed_sizes(home: Home) -> dict[str, int]:
    """Return up to which entry each chain is signed, as its newest checkpoint claims."""
    found = {}
    for name, notes in notes_of(home).items():
        texts, _ = notes.with_later(0)
        found[name] = max(map(claimed_size, texts), default=0)
    return found


def entries_before(proved: Proved) -> int:
    """Count the entries that an earlier proof vouches for."""
    return sum(proved.sizes.values())


def told_before(entries: int, whole_at: str) -> Iterable[str]:
    """Say how much an earlier proof vouches for, where it does."""
    if entries:
        yield (
            f"{entries} entries were proved before, all of them last at {whole_at}:"
            " `--from-scratch` reads them again"
        )


def _read_signed(home: Home, what: Proving) -> _Progress | None:
    try:
        signed = msgspec.json.decode(
            (home.path / f"{what}.json").read_bytes(), type=_SignedProgress
        )
        key, signature = home.keys[-1], bytes.fromhex(signed.signature)
        # A key that was replaced since then vouches for nothing.
        if signed.key != key.id or not key.verifies(_statement(bytes(signed.progress)), signature):
            return None
        return msgspec.json.decode(signed.progress, type=_Progress)
    except (OSError, ValueError):
        return None


def _statement(text: bytes) -> bytes:
    return signed_bytes("progress", text)


def _find_checkpoint(home: Home, name: str, size: int) -> Checkpoint | None:
    """Return the checkpoint of a chain at a size; None where there is none that verifies."""
    try:
        chain = Chain(home.identity.ledger, name)
        texts, _ = chain_notes(home, name).with_later(size)
        text = next((each for each in texts if claimed_size(each) == size), None)
        return None if text is None else read_checkpoint(chain, text, home.keys)
    except PointsmanError:
        return None
