"""The ranges of a ledger that work is split into: a pure function of the sizes of its chains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

RANGE = 2_000


class Range(Struct, frozen=True):
    """Some entries of one chain: from `first` to before `end`."""

    chain: str
    number: int
    first: int
    end: int

    @property
    def entries(self) -> int:
        """How many entries it has."""
        return self.end - self.first


class ChainSize(Struct, frozen=True):
    """A chain by its name and number, and how many entries it has.

    `cuts` are the places where its work may be split, in order; without any it may be anywhere.
    """

    chain: str
    number: int
    size: int
    cuts: tuple[int, ...] = ()


def plan_ranges(sizes: Iterable[ChainSize], length: int = RANGE) -> list[Range]:
    """Split chains into ranges of about this many entries, chain by chain, in order.

    Ranges begin at multiples of `length`, so that a plan made later has the same ranges and more
    behind them; only the last one of a chain may have grown.
    """
    return [each for size in sizes for each in _ranges_of_chain(size, length)]


def _ranges_of_chain(size: ChainSize, length: int) -> list[Range]:
    if not size.size:
        return []
    cuts = _space_cuts(size, length) if size.cuts else range(0, size.size, length)
    ends = (*cuts[1:], size.size)
    return [
        Range(size.chain, size.number, first, end) for first, end in zip(cuts, ends, strict=True)
    ]


def _space_cuts(size: ChainSize, length: int) -> Sequence[int]:
    """Choose the first cut at or past each multiple of `length`."""
    chosen = [0]
    for cut in size.cuts:
        if chosen[-1] // length < cut // length and cut < size.size:
            chosen.append(cut)
    return chosen


def count_entries(ranges: Iterable[Range]) -> int:
    """Count the entries of ranges together."""
    return sum(each.entries for each in ranges)
