"""Nothing that must stay leaves: 100,000 random conversations, over both cores.

Writes `evidence/egress.json`; fails when a model in the cloud was called for a turn that stays, or
when something that must sometimes happen never did.
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

from tests.property.test_egress import SOMETIMES, conversed

PROCESSES = 2
SHOWN = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1_000_000)
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.runs)
    start = time.perf_counter()
    seen: Counter[str] = Counter()
    broken: list[str] = []
    with multiprocessing.Pool(PROCESSES) as pool:
        for occurred, wrong in pool.imap_unordered(conversed, seeds, chunksize=50):
            seen += occurred
            broken += wrong
    seconds = time.perf_counter() - start
    never = sorted(SOMETIMES - seen.keys())
    found = {
        "runs": len(seeds),
        "turns": seen["done"] + seen["failed"] + seen["no_model"],
        "calls": seen["called here"] + seen["left"],
        "first_seed": given.seed,
        "broken": len(broken),
        "never_occurred": never,
        "occurred": {name: seen[name] for name in sorted(SOMETIMES)},
        "seconds": round(seconds, 1),
    }
    print("\n".join(broken[:SHOWN]), found, write("egress", found))
    raise SystemExit(1 if broken or never else 0)


if __name__ == "__main__":
    main()
