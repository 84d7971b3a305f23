"""BrainState on 10,000 random jobs, over both cores: replays byte-equal, ticks as the model says.

Writes `evidence/brainstate.json`; fails when a job's replay or one tick differs, when a process
under another hash seed comes to other bytes, or when something that must happen never did.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from campaigns.evidence import write

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.models import brainstate_runs as runs
from tests.property.test_brainstate_against_model import SOMETIMES, compared

PROCESSES = 2
SHOWN = 3
A_PART = 50


def replay_seed(seed: int) -> list[int]:
    return list(runs.differing(range(seed, seed + 1)))


def digest_elsewhere(first: int, last: int, hash_seed: str) -> str:
    """Return the digest that another process under another hash seed comes to."""
    done = subprocess.run(
        [sys.executable, runs.__file__, str(first), str(last)],
        env={
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": str(Path(__file__).parents[1]),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1_000_000)
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.jobs)
    start = time.perf_counter()
    seen: Counter[str] = Counter()
    different: list[str] = []
    broken: list[int] = []
    with multiprocessing.Pool(PROCESSES) as pool:
        for occurred, differing in pool.imap_unordered(compared, seeds, chunksize=A_PART):
            seen += occurred
            different += differing
        for found in pool.imap_unordered(replay_seed, seeds, chunksize=A_PART):
            broken += found
    some = (given.seed, given.seed + min(given.jobs, 200))
    digests = {digest_elsewhere(*some, each) for each in ("0", "1", "4294967295")}
    never = sorted(SOMETIMES - seen.keys())
    found = {
        "jobs": given.jobs,
        "ticks": seen["ticks"],
        "first_seed": given.seed,
        "replays_that_differ": broken,
        "ticks_that_differ_from_the_model": len(different),
        "digests_under_three_hash_seeds": sorted(digests),
        "never_occurred": never,
        "occurred": {name: seen[name] for name in sorted(SOMETIMES)},
        "seconds": round(time.perf_counter() - start, 1),
    }
    print("\n\n".join(different[:SHOWN]), found, write("brainstate", found))
    raise SystemExit(1 if different or broken or never or len(digests) != 1 else 0)


if __name__ == "__main__":
    main()
