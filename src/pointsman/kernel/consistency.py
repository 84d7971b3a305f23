"""Consistency proofs of RFC 6962: that a tree is the beginning of a larger one.

The frontier of the smaller tree and the leaves added since are enough to prove it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pointsman.kernel.merkle import Frontier, append_leaves, root

MOST_HASHES = 63
"""No proof of a tree that can be counted in 63 bits is longer."""


def consistency_proof(old: Frontier, leaves: Sequence[bytes]) -> list[bytes]:
    """Prove that the tree `old` is the beginning of the one with these leaves behind it."""
    if not old.size:
        return []
    proof: list[bytes] = []
    first, end, is_known = 0, old.size + len(leaves), True
    while old.size < end:
        split = first + (1 << ((end - first - 1).bit_length() - 1))
        if old.size <= split:
            proof.append(_subtree(old, leaves, split, end))
            end = split
        else:
            proof.append(_subtree(old, leaves, first, split))
            first, is_known = split, False
    if not is_known:
        # Otherwise this is the root of the smaller tree, which the verifier has.
        proof.append(_subtree(old, leaves, first, end))
    return proof[::-1]


def is_consistent(old: tuple[int, bytes], new: tuple[int, bytes], proof: Sequence[bytes]) -> bool:
    """Tell whether a proof shows that the tree `old` is the beginning of `new` (RFC 9162, 2.1.4).

    A tree is its size and its root. Every tree begins with the empty one, for which there is no
    proof.
    """
    (old_size, old_root), (new_size, new_root) = old, new
    if not 0 <= old_size <= new_size or len(proof) > MOST_HASHES:
        return False
    if old_size in {0, new_size}:
        return not proof and (old_size == 0 or old_root == new_root)
    path = [old_root, *proof] if old_size.bit_count() == 1 else [*proof]
    return bool(path) and _roots(old_size - 1, new_size - 1, path) == (old_root, new_root)


def _roots(old: int, new: int, path: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """Fold a proof into both roots; `old` and `new` are the places of the trees' last leaves."""
    while old & 1:
        old, new = old >> 1, new >> 1
    before = after = path[0]
    for node in path[1:]:
        if new == 0:
            return None
        if old & 1 or old == new:
            before, after = _join(node, before), _join(node, after)
            while not old & 1 and old:
                old, new = old >> 1, new >> 1
        else:
            after = _join(after, node)
        old, new = old >> 1, new >> 1
    return None if new else (before, after)


def _subtree(old: Frontier, leaves: Sequence[bytes], first: int, end: int) -> bytes:
    """Return the root over a range that lies in the smaller tree, or behind it."""
    if first >= old.size:
        return root(append_leaves(Frontier(), leaves[first - old.size : end - old.size]))
    at, inside = 0, []
    for place, peak in enumerate(old.peaks):
        if first <= at < end:
            inside.append(peak)
        at += _peak_size(old.size, place)
    return root(Frontier(end - first, tuple(inside)))


def _peak_size(size: int, place: int) -> int:
    """Return how many leaves are below a peak: the peaks are the ones of the binary size."""
    for _ in range(place):
        size -= 1 << (size.bit_length() - 1)
    return 1 << (size.bit_length() - 1)


def _join(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()
