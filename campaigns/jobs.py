"""Jobs of agents run for real, 10,000 of them, and replayed byte for byte under three hash seeds.

Writes `evidence/jobs.json`; fails when a job's replay differs, when the ledger is not whole, or
when something that must happen never did.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from campaigns.evidence import write

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.models import fleet_jobs
from tests.property.test_jobs_properties import SOMETIMES

from pointsman.audit.verify import verify_ledger
from pointsman.storage.home import open_home

A_PART = 500
"""So many jobs share a home: their trust goes up and down together."""
SHOWN = 5


def differing_elsewhere(home: Path, seeds: range, hash_seed: str) -> list[str]:
    """Return the differences that a process under another hash seed finds."""
    done = subprocess.run(
        [sys.executable, fleet_jobs.__file__, str(home), str(seeds.start), str(seeds.stop)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(fleet_jobs.ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1_000_000)
    given = parser.parse_args()
    start = time.perf_counter()
    seen: Counter[str] = Counter()
    different: list[str] = []
    entries, broken = 0, []
    memory = Path("/dev/shm")
    last = given.seed + given.jobs
    for first in range(given.seed, last, A_PART):
        seeds = range(first, min(first + A_PART, last))
        with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
            home = Path(folder) / "home"
            seen += fleet_jobs.run_jobs(home, seeds)
            for hash_seed in ("0", "1", "4294967295"):
                different += differing_elsewhere(home, seeds, hash_seed)
            report = verify_ledger(open_home(home, create=False))
            entries += report.entries
            broken += [] if report.fault is None else [first]
    never = sorted(name for name in SOMETIMES if not seen[name])
    found = {
        "jobs": given.jobs,
        "first_seed": given.seed,
        "iterations": seen["iterations"],
        "ledger_entries": entries,
        "replays": 3 * given.jobs,
        "replays_that_differ": len(different),
        "ledgers_that_are_broken": broken,
        "never_occurred": never,
        "occurred": {name: seen[name] for name in sorted(SOMETIMES)},
        "seconds": round(time.perf_counter() - start, 1),
    }
    print("\n".join(different[:SHOWN]), found, write("jobs", found))
    sys.exit(1 if different or broken or never else 0)


if __name__ == "__main__":
    main()
