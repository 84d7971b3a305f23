"""Consistency proofs and tiles, against the definitions of RFC 6962 and tlog-tiles."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.kernel.consistency import MOST_HASHES, consistency_proof, is_consistent
from pointsman.kernel.merkle import EMPTY_ROOT, Frontier, append_leaves, root
from pointsman.kernel.tiles import Tile, has_tile, read_tile_path, tile_bytes, tiles_of


def leaf(number: int) -> bytes:
    return hashlib.sha256(b"leaf %d" % number).digest()


LEAVES = [leaf(number) for number in range(300)]


def tree_hash(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962, over leaf hashes."""
    if not leaves:
        return EMPTY_ROOT
    if len(leaves) == 1:
        return leaves[0]
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    return hashlib.sha256(b"\1" + tree_hash(leaves[:half]) + tree_hash(leaves[half:])).digest()


def subproof(size: int, leaves: list[bytes], *, is_whole: bool) -> list[bytes]:
    """SUBPROOF of RFC 6962."""
    if size == len(leaves):
        return [] if is_whole else [tree_hash(leaves)]
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    if size <= half:
        return [*subproof(size, leaves[:half], is_whole=is_whole), tree_hash(leaves[half:])]
    rest = subproof(size - half, leaves[half:], is_whole=False)
    return [*rest, tree_hash(leaves[:half])]


sizes = st.tuples(st.integers(0, 300), st.integers(0, 300)).map(sorted)


@given(sizes)
def test_proof_is_the_one_of_the_rfc_and_verifies(given_sizes: list[int]) -> None:
    old, new = given_sizes
    frontier = append_leaves(Frontier(), LEAVES[:old])
    proof = consistency_proof(frontier, LEAVES[old:new])
    assert proof == (subproof(old, LEAVES[:new], is_whole=True) if old else [])
    before, after = (old, tree_hash(LEAVES[:old])), (new, tree_hash(LEAVES[:new]))
    assert root(frontier) == before[1]
    assert is_consistent(before, after, proof)


@given(sizes, st.integers(0, 299), st.integers(0, 255), st.data())
def test_another_history_has_no_proof(
    given_sizes: list[int], changed: int, bit: int, data: st.DataObject
) -> None:
    """Neither the honest proof nor the forger's own shows a changed leaf below the old size."""
    old, new = given_sizes
    if changed >= old:
        return
    forged = list(LEAVES[:new])
    forged[changed] = leaf(1000 + bit)
    before, after = (old, tree_hash(LEAVES[:old])), (new, tree_hash(forged))
    honest = consistency_proof(append_leaves(Frontier(), LEAVES[:old]), LEAVES[old:new])
    own = consistency_proof(append_leaves(Frontier(), forged[:old]), forged[old:new])
    mixed = data.draw(st.permutations([*honest, *own])) if honest else []
    for proof in (honest, own, mixed, [], [*own, own[-1]] if own else []):
        assert not is_consistent(before, after, proof)


def test_sizes_that_go_back_and_proofs_that_are_too_long_are_refused() -> None:
    one, two = (1, LEAVES[0]), (2, tree_hash(LEAVES[:2]))
    assert not is_consistent(two, one, [])
    assert not is_consistent((-1, LEAVES[0]), one, [])
    assert not is_consistent(one, two, [LEAVES[1]] * (MOST_HASHES + 1))
    assert is_consistent((0, EMPTY_ROOT), two, [])
    assert not is_consistent((0, EMPTY_ROOT), two, [LEAVES[0]])
    assert is_consistent(two, two, [])
    assert not is_consistent(two, (2, LEAVES[0]), [])
    assert not is_consistent(one, two, [])


def naive_tile(level: int, index: int, width: int) -> bytes:
    span = 256**level
    hashes = (
        tree_hash(LEAVES[(index * 256 + at) * span : (index * 256 + at + 1) * span])
        for at in range(width)
    )
    return b"".join(hashes)


def read_leaves(first: int, end: int) -> bytes:
    return b"".join(LEAVES[first:end])


@pytest.mark.parametrize("size", [1, 255, 256, 257, 300])
def test_tiles_are_those_of_the_definition(size: int) -> None:
    tiles = [*tiles_of(size)]
    assert sum(tile.width for tile in tiles if tile.level == 0) == size
    for tile in tiles:
        assert has_tile(size, tile)
        assert read_tile_path(str(tile.level), tile.path.partition("/")[2]) == tile
        assert tile_bytes(tile, read_leaves) == naive_tile(tile.level, tile.index, tile.width)


def test_tiles_of_the_specifications_example() -> None:
    """70,000 entries: 273 full tiles and one of 112; one full and one of 17; one of 1."""
    widths: dict[int, list[int]] = {}
    for tile in tiles_of(70_000):
        widths.setdefault(tile.level, []).append(tile.width)
    assert widths == {0: [256] * 273 + [112], 1: [256, 17], 2: [1]}
    assert [tile.width for tile in tiles_of(256)] == [256, 1]
    assert Tile(0, 1_234_067).path == "0/x001/x234/067"
    assert len([*tiles_of(70_000, before=65_536)]) == 17 + 1 + 1 + 1


@pytest.mark.parametrize(
    "path",
    ["", "67", "0067", "x001/067x", "x000/067", "067.p/256", "067.p/0", "067.p/01", "067/", "../1",
     "x001/x002/x003/x004/x005/x006/x007/x008/x009/010"],
)  # fmt: skip
def test_only_the_one_path_of_a_tile_is_read(path: str) -> None:
    assert read_tile_path("0", path) is None
    assert read_tile_path("8", "067") is None
    assert read_tile_path("00", "067") is None
