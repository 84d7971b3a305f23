"""A leaf's path leads to the root of its tree, by RFC 9162 §2.1.3.2, and no other leaf's does."""

import hashlib

import pytest

from pointsman.kernel.merkle import Frontier, append_leaves, inclusion_path, root

LEAVES = [hashlib.sha256(bytes([n])).digest() for n in range(70)]


def root_by_path(leaf, index, size, path):
    """The check of the RFC, which a verifier makes; None where the path does not fit the size."""
    place, last, found = index, size - 1, leaf
    for each in path:
        if last == 0:
            return None
        if place & 1 or place == last:
            found = hashlib.sha256(b"\1" + each + found).digest()
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            found = hashlib.sha256(b"\1" + found + each).digest()
        place, last = place >> 1, last >> 1
    return found if last == 0 else None


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 31, 64, 70])
def test_every_leaf_s_path_leads_to_the_root_whatever_was_signed_before(size):
    tree = root(append_leaves(Frontier(), LEAVES[:size]))
    for index in range(size):
        paths = {
            tuple(
                inclusion_path(
                    index, append_leaves(Frontier(), LEAVES[:signed]), LEAVES[signed:size]
                )
            )
            for signed in range(index + 1)
        }
        assert len(paths) == 1
        (path,) = paths
        assert root_by_path(LEAVES[index], index, size, path) == tree
        assert root_by_path(LEAVES[(index + 1) % 70], index, size, path) != tree
