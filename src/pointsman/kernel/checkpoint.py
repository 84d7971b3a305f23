"""Signed checkpoints of a chain, in the C2SP tlog-checkpoint form: text anybody can verify.

A checkpoint says "this chain had so many entries with this root". It carries the tree's frontier
and the last entry's hash as extension lines, so a writer can go on from it without the entries.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pointsman.errors import InputError, LedgerBroken
from pointsman.kernel.entry import Chain
from pointsman.kernel.instant import Instant, instant_text, read_instant
from pointsman.kernel.merkle import Frontier, is_whole, root
from pointsman.kernel.note import (
    DASH,
    LOG,
    NoteKey,
    from_base64,
    note_key_id,
    signature_line,
    to_base64,
)
from pointsman.kernel.signing import SigningKey, VerifyKey

EVERY_ENTRIES = 256
EVERY_SECONDS = 5


class Checkpoint(Struct, frozen=True):
    """What a checkpoint says, once its signature was verified."""

    size: int
    root: bytes
    head: bytes
    frontier: Frontier
    at: Instant
    text: str


def origin(chain: Chain) -> str:
    """Name a chain in its checkpoints; also the name of the signing key."""
    return f"pointsman/{chain.ledger}/{chain.name}"


def log_key(ledger: str, key: VerifyKey) -> NoteKey:
    """Return a ledger's key as witnesses take it: under it they know every chain of the ledger."""
    return NoteKey(f"pointsman/{ledger}", LOG, key)


def signed_checkpoint(
    chain: Chain, frontier: Frontier, head: bytes, at: Instant, key: SigningKey
) -> str:
    """Write and sign a checkpoint; `head` and `at` are the last entry's hash and time."""
    lines = [
        origin(chain),
        str(frontier.size),
        to_base64(root(frontier)),
        f"head {to_base64(head)}",
        f"at {instant_text(at)}",
        *(f"peak {to_base64(peak)}" for peak in frontier.peaks),
    ]
    body = "\n".join(lines) + "\n"
    signature = signature_line(origin(chain), _key_hash(chain, key), key.sign(body.encode()))
    return f"{body}\n{signature}"


def read_checkpoint(chain: Chain, text: str, keys: Sequence[VerifyKey]) -> Checkpoint:
    """Read a checkpoint and verify everything it says about itself."""
    body, signature = _split_note(chain, text)
    signers = [key for key in keys if _is_signed(chain, key, body, signature)]
    if not signers:
        raise LedgerBroken("its signature is not by a key of this ledger", where=origin(chain))
    # INVARIANT: from here on every byte is what a holder of the key wrote.
    try:
        found = _read_statement(chain, body.split("\n"), text)
    except (ValueError, InputError) as error:
        message = "it is signed, but speaks of another tree"
        raise LedgerBroken(message, where=origin(chain)) from error
    if not any(key.covers(chain.name, found.size) for key in signers):
        message = f"`{signers[0].id}`, which signed it, was replaced before"
        raise LedgerBroken(message, where=origin(chain))
    return found


def _read_statement(chain: Chain, lines: Sequence[str], text: str) -> Checkpoint:
    name, size, tree, head, at, *peaks, _ = lines
    frontier = Frontier(int(size), tuple(from_base64(peak.removeprefix("peak ")) for peak in peaks))
    if name != origin(chain) or not is_whole(frontier) or root(frontier) != from_base64(tree):
        raise ValueError(name)
    instant = read_instant(at.removeprefix("at "))
    last = from_base64(head.removeprefix("head "))
    return Checkpoint(frontier.size, root(frontier), last, frontier, instant, text)


def split_checkpoints(text: str) -> tuple[list[str], str]:
    """Split a file of checkpoints, each followed by an empty line, and give the torn rest."""
    parts = text.split("\n\n")
    notes = [f"{body}\n\n{sig}\n" for body, sig in zip(parts[:-1:2], parts[1:-1:2], strict=False)]
    whole = "".join(note + "\n" for note in notes)
    return notes, text[len(whole) :]


def _split_note(chain: Chain, text: str) -> tuple[str, bytes]:
    body, gap, line = text.partition("\n\n")
    name = f"{DASH}{origin(chain)} "
    if not gap or not line.startswith(name) or not line.endswith("\n") or "\n" in line[:-1]:
        raise LedgerBroken("it is not a signed checkpoint of this chain", where=origin(chain))
    try:
        return body + "\n", from_base64(line[len(name) : -1])
    except ValueError as error:
        raise LedgerBroken("its signature cannot be read", where=origin(chain)) from error


def _is_signed(chain: Chain, key: VerifyKey, body: str, signature: bytes) -> bool:
    return signature[:4] == _key_hash(chain, key) and key.verifies(body.encode(), signature[4:])


def _key_hash(chain: Chain, key: VerifyKey) -> bytes:
    return note_key_id(origin(chain), LOG, key.public)
