"""Tiles of a chain's tree in the C2SP tlog-tiles form: 256 hashes a tile, level by level."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from pointsman.kernel.merkle import Frontier, append_leaves, root
from pointsman.kernel.verification import HASH_SIZE

TILE_WIDTH = 256
MOST_LEVELS = 8
"""More than any chain has: a tile of level 7 stands for 2⁶⁴ entries."""

Leaves = Callable[[int, int], bytes]
"""Reads the hashes of the entries of a range."""

_PATH = re.compile(r"((?:x[0-9]{3}/)*)([0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?", re.ASCII)


class Tile(Struct, frozen=True):
    """Which tile: its level, its place in the level, and how many of its hashes."""

    level: int
    index: int
    width: int = TILE_WIDTH

    @property
    def path(self) -> str:
        """The tile's path below `tile/`, in parts of three digits."""
        digits = str(self.index)
        digits = digits.zfill(-(-len(digits) // 3) * 3)
        parts = [digits[at : at + 3] for at in range(0, len(digits), 3)]
        number = "/".join([*(f"x{part}" for part in parts[:-1]), parts[-1]])
        return f"{self.level}/{number}" + ("" if self.width == TILE_WIDTH else f".p/{self.width}")


def read_tile_path(level: str, rest: str) -> Tile | None:
    """Read the path of a tile; None where it is the path of none."""
    found = _PATH.fullmatch(rest)
    is_level = level.isascii() and level.isdigit() and len(level) == 1
    if found is None or not is_level or int(level) >= MOST_LEVELS or len(rest) > 40:
        return None
    width = int(found[3] or TILE_WIDTH)
    tile = Tile(int(level), int(found[1].replace("x", "").replace("/", "") + found[2]), width)
    # One path for one tile: neither leading zeroes nor a full tile written as a part of one.
    is_exact = tile.path == f"{level}/{rest}" and 0 < width <= TILE_WIDTH
    return tile if is_exact else None


def has_tile(size: int, tile: Tile) -> bool:
    """Tell whether a tree of this size has all the hashes of a tile."""
    return tile.index * TILE_WIDTH + tile.width <= size >> (8 * tile.level)


def tiles_of(size: int, before: int = 0) -> Iterator[Tile]:
    """Return the tiles of a tree, without the full ones that a tree of size `before` had."""
    for level in range(MOST_LEVELS):
        hashes = size >> (8 * level)
        if not hashes:
            return
        full = hashes // TILE_WIDTH
        yield from (Tile(level, at) for at in range((before >> (8 * level)) // TILE_WIDTH, full))
        if hashes % TILE_WIDTH:
            yield Tile(level, full, hashes % TILE_WIDTH)


def tile_bytes(tile: Tile, leaves: Leaves) -> bytes:
    """Return the hashes of a tile, worked out from the leaves below it."""
    span = TILE_WIDTH**tile.level
    first = tile.index * TILE_WIDTH
    if tile.level == 0:
        return leaves(first, first + tile.width)
    return b"".join(
        subtree_root(leaves, at * span, (at + 1) * span) for at in range(first, first + tile.width)
    )


def subtree_root(leaves: Leaves, first: int, end: int) -> bytes:
    """Return the root over the entries of a range, a tile's worth of hashes at a time."""
    frontier = Frontier()
    for at in range(first, end, TILE_WIDTH):
        data = leaves(at, min(at + TILE_WIDTH, end))
        parts = (data[place : place + HASH_SIZE] for place in range(0, len(data), HASH_SIZE))
        frontier = append_leaves(frontier, parts)
    return root(frontier)
