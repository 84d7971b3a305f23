"""The ranges of a plan cover every entry once, whatever the chains hold."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.audit.ranges import ChainSize, Range, count_entries, plan_ranges

SIZES = st.lists(st.integers(0, 5_000), max_size=5).map(
    lambda found: [ChainSize(f"c{n}", n, size) for n, size in enumerate(found)]
)
LENGTHS = st.integers(1, 3_000)


def of_chain(ranges: list[Range], chain: str) -> list[Range]:
    return [each for each in ranges if each.chain == chain]


@settings(deadline=None)
@given(SIZES, LENGTHS)
def test_every_entry_stands_in_one_range(sizes: list[ChainSize], length: int) -> None:
    found = plan_ranges(sizes, length)
    assert count_entries(found) == sum(each.size for each in sizes)
    for size in sizes:
        mine = of_chain(found, size.chain)
        assert [each.first for each in mine[:1]] in ([], [0])
        assert all(before.end == after.first for before, after in pairwise(mine))
        assert [each.end for each in mine[-1:]] == ([size.size] if size.size else [])
        assert all(0 < each.entries <= length and each.first % length == 0 for each in mine)


@settings(deadline=None)
@given(st.integers(0, 4_000), st.integers(0, 4_000), LENGTHS)
def test_a_longer_chain_has_the_same_ranges_but_for_the_last(
    size: int, more: int, length: int
) -> None:
    before = plan_ranges([ChainSize("c", 1, size)], length)
    after = plan_ranges([ChainSize("c", 1, size + more)], length)
    assert after[: max(0, len(before) - 1)] == before[:-1]
    assert [each.first for each in after[: len(before)]] == [each.first for each in before]


@settings(deadline=None)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=40), st.integers(1, 2_000))
def test_ranges_begin_and_end_where_they_may_be_cut(steps: list[int], length: int) -> None:
    cuts = tuple(sum(steps[: n + 1]) for n in range(len(steps)))
    found = plan_ranges([ChainSize("c", 1, cuts[-1], cuts)], length)
    assert count_entries(found) == cuts[-1]
    assert {each.end for each in found} <= set(cuts)
    assert {each.first for each in found} <= {0, *cuts}
    assert all(each.entries < length + 300 for each in found)


@pytest.mark.parametrize("size", [0, 1, 2_000, 2_001])
def test_a_chain_without_entries_has_no_range(size: int) -> None:
    assert len(plan_ranges([ChainSize("c", 1, size)])) == -(-size // 2_000)
