"""Expressions against the naive model and zen-engine, and the shares of wb1, over both cores.

Writes `evidence/expressions.json`; fails when one expression comes out differently, when something
that must sometimes happen never did, or when a share is off by more than 3 sigma.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from math import sqrt
from pathlib import Path
from typing import Any

from campaigns.evidence import write

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.property.test_expressions_against_model import SOMETIMES, compared
from tests.property.test_expressions_against_zen import agreed

from pointsman.kernel.wb1 import Salted, ends, pick_weight, unit_bytes

PROCESSES = 2
SHOWN = 3
SHARES = (70, 20, 10)
SLOWEST_S = 2.0


def time_seed(seed: int) -> tuple[Counter[str], list[str], float]:
    """Compare one expression, and tell how long it took."""
    start = time.process_time()
    seen, different = compared(seed)
    return seen, different, time.process_time() - start


def zen_difference(seed: int) -> str:
    text, found, other, agree = agreed(seed)
    return "" if agree else f"seed {seed}: {text}: ours {found!r}, zen {other!r}"


def shares(ids: int) -> dict[str, Any]:
    """Place ids by wb1; tell how many sigma each share is off, and the agreement of two salts."""
    salted, bounds = Salted("decision-ab-prompt-variant"), ends(SHARES)
    one, two = Salted("exp-1"), Salted("exp-2")
    found: Counter[int] = Counter()
    alike = 0
    for number in range(ids):
        unit = unit_bytes(f"request-{number}") or b""
        found[pick_weight(salted.slot(unit, bounds[-1]), bounds)] += 1
        alike += one.slot(unit, 2) == two.slot(unit, 2)
    sigma = {
        share: round((found[case] - ids * p) / sqrt(ids * p * (1 - p)), 2)
        for case, share in enumerate(SHARES)
        for p in (share / 100,)
    }
    independent = round((alike - ids / 2) / sqrt(ids / 4), 2)
    return {"ids": ids, "sigma": sigma, "two_decisions_alike_sigma": independent}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--expressions", type=int, default=2_000_000)
    parser.add_argument("--zen", type=int, default=100_000)
    parser.add_argument("--ids", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=10_000_000)
    given = parser.parse_args()
    start = time.perf_counter()
    seen: Counter[str] = Counter()
    different: list[str] = []
    slowest = 0.0
    with multiprocessing.Pool(PROCESSES) as pool:
        seeds = range(given.seed, given.seed + given.expressions)
        for occurred, differing, seconds in pool.imap_unordered(time_seed, seeds, chunksize=2_000):
            seen += occurred
            different += differing
            slowest = max(slowest, seconds)
        zen_seeds = range(given.seed, given.seed + given.zen)
        zen = [each for each in pool.imap_unordered(zen_difference, zen_seeds, 1_000) if each]
    placed = shares(given.ids)
    sigma = [*placed["sigma"].values(), placed["two_decisions_alike_sigma"]]
    never = sorted(SOMETIMES - seen.keys())
    found = {
        "expressions": seen["expressions"],
        "evaluations": seen["evaluations"],
        "first_seed": given.seed,
        "different": len(different),
        "zen_expressions": given.zen,
        "zen_different": len(zen),
        "never_occurred": never,
        "occurred": {name: seen[name] for name in sorted(SOMETIMES)},
        "slowest_expression_ms": round(slowest * 1000, 1),
        "wb1": placed,
        "seconds": round(time.perf_counter() - start, 1),
    }
    print("\n\n".join([*different[:SHOWN], *zen[:SHOWN]]), found, write("expressions", found))
    is_off = any(abs(each) > 3 for each in sigma)
    raise SystemExit(1 if different or zen or never or is_off or slowest > SLOWEST_S else 0)


if __name__ == "__main__":
    main()
