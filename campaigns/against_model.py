"""Runs a room against the naive model of it, on many random cases, over both cores."""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable

from campaigns.evidence import write
from msgspec import Struct

PROCESSES = 2
SHOWN = 3


class Comparison(Struct, frozen=True):
    """What is compared: `case` and `group` name what is counted, a seed makes `size` cases."""

    name: str
    case: str
    group: str
    size: int
    sometimes: frozenset[str]
    compared: Callable[[int], tuple[Counter[str], list[str]]]
    count: int = 200_000


def run(comparison: Comparison, described: str) -> None:
    """Compare, write the evidence, and exit with 1 where anything differs or never happened."""
    cases = comparison.case
    parser = argparse.ArgumentParser(description=described)
    parser.add_argument(f"--{cases}", dest="count", type=int, default=comparison.count)
    parser.add_argument("--seed", type=int, default=1_000_000)
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.count // comparison.size)
    start = time.perf_counter()
    seen: Counter[str] = Counter()
    different: list[str] = []
    with multiprocessing.Pool(PROCESSES) as pool:
        for occurred, differing in pool.imap_unordered(comparison.compared, seeds, chunksize=50):
            seen += occurred
            different += differing
    seconds = time.perf_counter() - start
    never = sorted(comparison.sometimes - seen.keys())
    found: dict[str, object] = {
        cases: seen[cases],
        comparison.group: len(seeds),
        "first_seed": given.seed,
        "different": len(different),
        "never_occurred": never,
        "occurred": {name: seen[name] for name in sorted(comparison.sometimes)},
        "seconds": round(seconds, 1),
        f"{cases}_per_second": round(seen[cases] / seconds),
    }
    print("\n\n".join(different[:SHOWN]), found, write(comparison.name, found))
    raise SystemExit(1 if different or never else 0)
