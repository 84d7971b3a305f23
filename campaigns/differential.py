"""The policy chain against the naive model of it, on 200,000 random turns, over both cores.

Writes `evidence/differential.json`; fails when one turn comes out differently, or when something
that must sometimes happen never did.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from pathlib import Path

from campaigns.evidence import write

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.property.test_chain_against_model import (
    SOMETIMES,
    TURNS_A_POLICY,
    compared,
)

PROCESSES = 2
SHOWN = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1_000_000)
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.turns // TURNS_A_POLICY)
    start = time.perf_counter()
    seen: Counter[str] = Counter()
    different: list[str] = []
    with multiprocessing.Pool(PROCESSES) as pool:
        for occurred, differing in pool.imap_unordered(compared, seeds, chunksize=50):
            seen += occurred
            different += differing
    seconds = time.perf_counter() - start
    never = sorted(SOMETIMES - seen.keys())
    found = {
        "turns": seen["turns"],
        "policies": len(seeds),
        "first_seed": given.seed,
        "different": len(different),
        "never_occurred": never,
        "occurred": {name: seen[name] for name in sorted(SOMETIMES)},
        "seconds": round(seconds, 1),
        "turns_per_second": round(seen["turns"] / seconds),
    }
    print("\n\n".join(different[:SHOWN]), found, write("differential", found))
    raise SystemExit(1 if different or never else 0)


if __name__ == "__main__":
    main()
