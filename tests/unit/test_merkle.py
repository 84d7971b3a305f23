"""The tree against a naive recursive reading of RFC 6962 and the vectors published for it."""

import hashlib

import pytest

from pointsman.kernel.merkle import EMPTY_ROOT, Frontier, append_leaves, is_whole, leaf_hash, root

DATA = [bytes.fromhex(text) for text in (
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
)]  # fmt: skip
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def naive_root(leaves):
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    left, right = naive_root(leaves[:split]), naive_root(leaves[split:])
    return hashlib.sha256(b"\1" + left + right).digest()


@pytest.mark.parametrize("size", range(1, 9))
def test_roots_are_those_published_for_rfc_6962(size):
    frontier = append_leaves(Frontier(), map(leaf_hash, DATA[:size]))
    assert root(frontier).hex() == ROOTS[size - 1]


def test_roots_equal_the_recursive_definition_for_every_size_to_200():
    leaves = [leaf_hash(str(number).encode()) for number in range(201)]
    for size in range(201):
        assert root(append_leaves(Frontier(), leaves[:size])) == naive_root(leaves[:size])


def test_appending_in_parts_gives_the_tree_of_appending_at_once():
    leaves = [leaf_hash(str(number).encode()) for number in range(100)]
    for cut in range(101):
        assert append_leaves(
            append_leaves(Frontier(), leaves[:cut]), leaves[cut:]
        ) == append_leaves(Frontier(), leaves)


def test_the_empty_tree_has_the_hash_of_nothing():
    assert root(Frontier()) == EMPTY_ROOT == hashlib.sha256(b"").digest()


def test_a_frontier_is_whole_when_its_peaks_fit_its_size():
    assert is_whole(Frontier())
    assert is_whole(Frontier(5, (b"a", b"b")))
    assert not is_whole(Frontier(5, (b"a",)))
    assert not is_whole(Frontier(-1, (b"a",)))


def test_a_leaf_is_never_taken_for_a_node():
    left, right = leaf_hash(b"left"), leaf_hash(b"right")
    assert leaf_hash(left + right) != root(append_leaves(Frontier(), [left, right]))
