"""The router of agents against the naive model of it, on 200,000 random jobs, over both cores.

Writes `evidence/agents.json`; fails when one job comes out differently, or when something that must
sometimes happen never did.
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

from tests.property.test_agents_against_model import JOBS_A_HOUSE, SOMETIMES, compared

PROCESSES = 2
SHOWN = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1_000_000)
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.jobs // JOBS_A_HOUSE)
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
        "jobs": seen["jobs"],
        "houses": len(seeds),
        "first_seed": given.seed,
        "different": len(different),
        "never_occurred": never,
        "occurred": {name: seen[name] for name in sorted(SOMETIMES)},
        "seconds": round(seconds, 1),
        "jobs_per_second": round(seen["jobs"] / seconds),
    }
    print("\n\n".join(different[:SHOWN]), found, write("agents", found))
    raise SystemExit(1 if different or never else 0)


if __name__ == "__main__":
    main()
