"""Cosignatures of witnesses (C2SP tlog-cosignature, tlog-witness), and the requests for them.

A cosignature says: at this second, the largest tree that the witness had seen of this log was this
one, and it grew from every tree the witness had seen before. Pure: `witnessing` keeps the trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pointsman.kernel.consistency import MOST_HASHES
from pointsman.kernel.note import (
    WITNESS,
    NoteKey,
    from_base64,
    note_key_id,
    signature_line,
    split_note,
    to_base64,
)
from pointsman.kernel.signing import SigningKey

LATEST_S: Final = 253_402_300_799
"""The last second of the year 9999: a later time in a cosignature says nothing."""


class TreeHead(Struct, frozen=True):
    """What the first three lines of a checkpoint say: which log, how many entries, which root."""

    origin: str
    size: int
    root: bytes


class Cosignature(Struct, frozen=True):
    """A verified cosignature: which witness, and when, in seconds since 1970."""

    witness: str
    at_s: int


class CosignRequest(Struct, frozen=True):
    """A request to cosign: the size the witness saw last, the proof since, the checkpoint."""

    old: int
    proof: tuple[bytes, ...]
    note: str


def read_tree_head(body: str) -> TreeHead:
    """Read the text of a checkpoint: its first three lines count; raise ValueError."""
    lines = body.split("\n")
    if len(lines) < 4 or not lines[0] or "" in lines[:-1]:
        raise ValueError("it is not a checkpoint")
    size, tree = _decimal(lines[1]), from_base64(lines[2])
    if len(tree) != 32:
        raise ValueError("its root is not 32 bytes")
    return TreeHead(lines[0], size, tree)


def cosignature_line(name: str, key: SigningKey, body: str, at_s: int) -> str:
    """Cosign the text of a checkpoint."""
    timed = at_s.to_bytes(8, "big") + key.sign(_statement(body, at_s))
    return signature_line(name, note_key_id(name, WITNESS, key.public), timed)


def read_cosigned(
    text: str, witnesses: Sequence[NoteKey]
) -> tuple[TreeHead, tuple[Cosignature, ...]]:
    """Read a checkpoint and the cosignatures of known witnesses that verify; raise ValueError.

    Signatures of others, the log's own among them, are not looked at.
    """
    body, signatures = split_note(text)
    known = {(each.name, each.id): each for each in witnesses}
    found = {}
    for each in signatures:
        witness = known.get((each.name, each.key_id))
        at_s = int.from_bytes(each.signature[:8], "big")
        if witness is None or at_s > LATEST_S:
            continue
        if witness.key.verifies(_statement(body, at_s), each.signature[8:]):
            found[each.name] = Cosignature(each.name, at_s)
    return read_tree_head(body), tuple(found.values())


def write_request(request: CosignRequest) -> bytes:
    """Write a request as a witness takes it."""
    proof = "".join(f"{to_base64(each)}\n" for each in request.proof)
    return f"old {request.old}\n{proof}\n{request.note}".encode()


def read_request(data: bytes) -> CosignRequest:
    """Read a request, or raise ValueError."""
    head, gap, note = data.decode().partition("\n\n")
    first, *proof = head.split("\n")
    if not gap or not first.startswith("old ") or len(proof) > MOST_HASHES:
        raise ValueError("it does not begin with an old size and a proof")
    hashes = tuple(from_base64(line) for line in proof)
    if any(len(each) != 32 for each in hashes):
        raise ValueError("a hash of the proof is not 32 bytes")
    return CosignRequest(_decimal(first.removeprefix("old ")), hashes, note)


def _statement(body: str, at_s: int) -> bytes:
    return f"cosignature/v1\ntime {at_s}\n{body}".encode()


def _decimal(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18 or str(int(text)) != text:
        raise ValueError("a size is not a plain number")
    return int(text)
