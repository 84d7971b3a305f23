"""The ledger's entries and the chain they form: each entry's hash covers the one before it.

The hash of an entry is also its leaf hash in the tree that checkpoints sign, so one hash per entry
serves both. `docs/ledger-format.md` gives the bytes for other implementations.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from struct import Struct as Packing

from msgspec import Struct

from pointsman.errors import InputError
from pointsman.kernel.instant import LATEST, Instant
from pointsman.kernel.merkle import leaf_hash

MAX_NAME = 128
MAX_PAYLOAD = 1 << 20
MAX_ATTACHMENT = 1 << 24
MAX_ATTACHMENTS = 64

_MAGIC = b"pointsman/entry/1\0"
_GENESIS = b"pointsman/genesis/1\0"
_CHAIN_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_LEDGER_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_HEAD = Packing(">Q32sqHHHHI")


class Draft(Struct, frozen=True):
    """A record that waits for its place in a chain.

    `id` names the event, `ref` its subject: a decision's turn, an attempt's decision.
    `attachments` are larger bytes that the entry names by digest: facts, snapshots.
    """

    kind: str
    id: str
    ref: str
    at: Instant
    payload: bytes
    attachments: tuple[bytes, ...] = ()


class Entry(Struct, frozen=True):
    """One recorded entry; `attached` is the SHA-256 of each attachment, one after the other."""

    seq: int
    at: Instant
    kind: str
    id: str
    ref: str
    payload: bytes
    attached: bytes
    prev: bytes
    hash: bytes


@dataclass(frozen=True)
class Chain:
    """Which chain of which ledger: part of every entry's hash, so no entry fits elsewhere.

    `prefix` is what the bytes of every entry begin with, `genesis` what the first entry has in
    place of a predecessor's hash.
    """

    ledger: str
    name: str
    prefix: bytes = field(init=False, repr=False, compare=False)
    genesis: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not _CHAIN_NAME.fullmatch(self.name) or not _LEDGER_ID.fullmatch(self.ledger):
            raise InputError(f"`{self.name}` of `{self.ledger}` cannot name a chain")
        name = self.name.encode()
        prefix = _MAGIC + bytes.fromhex(self.ledger) + len(name).to_bytes(2, "big") + name
        object.__setattr__(self, "prefix", prefix)
        object.__setattr__(self, "genesis", hashlib.sha256(_GENESIS + prefix).digest())


class Head(Struct, frozen=True):
    """Where a chain ends: how many entries, the last one's hash and time."""

    size: int
    hash: bytes
    at: Instant


def empty_head(chain: Chain) -> Head:
    """Return the head of a chain that has no entry yet."""
    return Head(0, chain.genesis, Instant(0))


def entry_bytes(prefix: bytes, entry: Entry) -> bytes:
    """Return the bytes an entry's hash is taken over."""
    named = (entry.kind, entry.id, entry.ref)
    place = (entry.seq, entry.prev, entry.at)
    return _entry_hash(prefix, place, named, entry.attached, entry.payload)


def _entry_hash(
    prefix: bytes,
    place: tuple[int, bytes, Instant],
    named: tuple[str, str, str],
    attached: bytes,
    payload: bytes,
) -> bytes:
    kind, name, ref = named[0].encode(), named[1].encode(), named[2].encode()
    lengths = (len(kind), len(name), len(ref), len(attached), len(payload))
    head = _HEAD.pack(*place, *lengths)
    return b"".join((prefix, head, kind, name, ref, attached, payload))


def next_entry(chain: Chain, head: Head, draft: Draft) -> Entry:
    """Return the entry that puts a draft at the end of a chain."""
    attached = b""
    if draft.attachments:
        attached = b"".join([hashlib.sha256(body).digest() for body in draft.attachments])
    # INVARIANT: a chain's time never goes back, whatever the clock does.
    at = max(head.at, draft.at)
    named, payload = (draft.kind, draft.id, draft.ref), draft.payload
    data = _entry_hash(chain.prefix, (head.size, head.hash, at), named, attached, payload)
    return Entry(head.size, at, *named, payload, attached, head.hash, leaf_hash(data))


def head_after(entry: Entry) -> Head:
    """Return the head of a chain that ends in this entry."""
    return Head(entry.seq + 1, entry.hash, entry.at)


def check_draft(draft: Draft) -> None:
    """Refuse what cannot be recorded, before it is queued with others."""
    names = f"{draft.kind}{draft.id}{draft.ref}"
    if len(names) > MAX_NAME or not names.isascii() or not names.isprintable():
        _check_names(draft)
    if len(draft.payload) > MAX_PAYLOAD:
        raise InputError(f"an entry holds at most {MAX_PAYLOAD} bytes")
    if draft.attachments and max(map(len, draft.attachments)) > MAX_ATTACHMENT:
        raise InputError(f"an attachment holds at most {MAX_ATTACHMENT} bytes")
    if len(draft.attachments) > MAX_ATTACHMENTS:
        raise InputError(f"an entry carries at most {MAX_ATTACHMENTS} attachments")
    if not 0 <= draft.at <= LATEST:
        raise InputError(f"`{draft.at}` is not an instant between 1970 and 9999")


def _check_names(draft: Draft) -> None:
    for name in (draft.kind, draft.id, draft.ref):
        if len(name) > MAX_NAME or not name.isascii() or not name.isprintable():
            raise InputError(f"`{name[:MAX_NAME]}` cannot name a ledger entry")
