"""The tree of RFC 6962 over a chain's entries, kept as its frontier: one hash per perfect subtree.

Appending costs about one hash; the root is a fold of at most 53 peaks. A proof that a leaf is in a
tree needs the peaks of an earlier tree and the leaves since, not all leaves; a proof that one tree
is the beginning of another is made in `kernel.consistency`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
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


def inclusion_path(index: int, before: Frontier, since: Sequence[bytes]) -> list[bytes]:
    """Return the path of RFC 6962 from a leaf to the root, the leaf's neighbour first.

    `since` are the leaves behind `before`; the leaf is one of them.
    """
    known: dict[tuple[int, int], bytes] = {}
    start = 0
    for peak, bit in zip(before.peaks, _bits(before.size), strict=True):
        known[start, start + bit] = peak
        start += bit

    def subtree(first: int, end: int) -> bytes:
        if (first, end) in known:
            return known[first, end]
        if end - first == 1:
            return since[first - before.size]
        middle = first + _left_size(end - first)
        return hashlib.sha256(b"\1" + subtree(first, middle) + subtree(middle, end)).digest()

    path: list[bytes] = []
    first, end = 0, before.size + len(since)
    while end - first > 1:
        middle = first + _left_size(end - first)
        if index < middle:
            path.append(subtree(middle, end))
            end = middle
        else:
            path.append(subtree(first, middle))
            first = middle
    return path[::-1]


def _left_size(size: int) -> int:
    """Return the largest power of two below a size."""
    return 1 << (size - 1).bit_length() - 1


def _bits(size: int) -> list[int]:
    return [1 << place for place in range(size.bit_length() - 1, -1, -1) if size >> place & 1]
