"""No action without a quorum, none twice: 10,000 interleavings, some of them over a real ledger.

Writes `evidence/approvals.json`; fails when something was carried out that may not be, or when
something that must sometimes happen never did.
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

from tests.property.test_action_interleavings import (
    SOMETIMES,
    SOMETIMES_REAL,
    interleaved,
    lived,
)
from tests.unit.governance.chamber import in_memory

PROCESSES = 2
SHOWN = 3
REQUESTS = 50
"""So many requests are made on one real home."""


def over_a_ledger(seed: int) -> tuple[Counter[str], list[str]]:
    for path in in_memory():
        return lived(path / "home", seed, REQUESTS)
    raise AssertionError("there is no folder to work in")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1_000_000)
    given = parser.parse_args()
    real = max(1, given.runs // 10 // REQUESTS)
    pure = range(given.seed, given.seed + given.runs - real * REQUESTS)
    start = time.perf_counter()
    seen: Counter[str] = Counter()
    seen_real: Counter[str] = Counter()
    broken: list[str] = []
    with multiprocessing.Pool(PROCESSES) as pool:
        for occurred, wrong in pool.imap_unordered(interleaved, pure, chunksize=50):
            seen += occurred
            broken += wrong
        for occurred, wrong in pool.imap_unordered(over_a_ledger, range(real)):
            seen_real += occurred
            broken += wrong
    seconds = time.perf_counter() - start
    never = sorted(SOMETIMES - seen.keys() | SOMETIMES_REAL - seen_real.keys())
    found = {
        "interleavings": len(pure) + real * REQUESTS,
        "over_a_real_ledger": real * REQUESTS,
        "first_seed": given.seed,
        "broken": len(broken),
        "never_occurred": never,
        "occurred": dict(sorted(seen.items())),
        "occurred_over_a_real_ledger": dict(sorted(seen_real.items())),
        "seconds": round(seconds, 1),
    }
    print("\n".join(broken[:SHOWN]), found, write("approvals", found))
    raise SystemExit(1 if broken or never else 0)


if __name__ == "__main__":
    main()
