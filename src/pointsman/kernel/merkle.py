"""The tree of RFC 6962 over a chain's entries, kept as its frontier: one hash per perfect subtree.

Appending costs about one hash; the root is a fold of at most 53 peaks. Proofs for outsiders are
not made here: a verifier recomputes the root from the entries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import reduce

from msgspec import Struct

EMPTY_ROOT = hashlib.sha256(b"").digest()


class Frontier(Struct, frozen=True):
    """The perfect subtrees of a tree, largest first."""

    size: int = 0
    peaks: tuple[bytes, ...] = ()


def leaf_hash(data: bytes) -> bytes:
    """Hash one leaf."""
    return hashlib.sha256(b"\0" + data).digest()


def append_leaves(frontier: Frontier, leaves: Iterable[bytes]) -> Frontier:
    """Append leaf hashes in order."""
    sha256 = hashlib.sha256
    peaks = list(frontier.peaks)
    size = frontier.size
    for leaf in leaves:
        node, carry = leaf, size
        while carry & 1:
            node = sha256(b"\1" + peaks.pop() + node).digest()
            carry >>= 1
        peaks.append(node)
        size += 1
    return Frontier(size, tuple(peaks))


def root(frontier: Frontier) -> bytes:
    """Return the tree's root."""
    if not frontier.peaks:
        return EMPTY_ROOT
    return reduce(
        lambda right, left: hashlib.sha256(b"\1" + left + right).digest(), reversed(frontier.peaks)
    )


def is_whole(frontier: Frontier) -> bool:
    """Tell whether the frontier has exactly the peaks its size calls for."""
    return frontier.size >= 0 and len(frontier.peaks) == frontier.size.bit_count()
