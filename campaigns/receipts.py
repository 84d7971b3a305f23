"""Decisions derived again by both programs for receipts, and changed receipts that both refuse.

Writes `evidence/receipts.json`; fails when one decision comes out differently, when one changed
receipt is accepted, or when the two programs do not take the same steps to the same end.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaigns.evidence import write
from tests.property.test_chain_against_model import TURNS_A_POLICY
from tests.receipts.receipts import Given, made_receipts, mutants
from tests.receipts.told import derived, derived_by_page, differing, drawn_turns, page_answers

from pointsman.receipt_verifier import audit_receipt

PROCESSES = 2
POLICIES = 100
MUTANTS = 500
Counts = tuple[Counter[str], list[str]]


def derive_batch(seed: int) -> Counts:
    """Derive the turns of some policies with both programs."""
    told = [*drawn_turns(range(seed, seed + POLICIES))]
    wrong = differing(told, [derived(each) for each in told])
    wrong += differing(told, derived_by_page(told))
    return Counter(decisions=len(told)), [each.decided.decode() for each, _ in wrong]


def refuse_batch(given: dict[str, Given], seed: int) -> Counts:
    """Change receipts, and let both programs look at them."""
    draw, names = random.Random(seed), [*given]
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    asked, wanted = [], []
    for _ in range(MUTANTS):
        data, message = given[draw.choice(names)]
        changed, key = mutants(data, draw), json.loads(data)["signature"]["key"]
        report = audit_receipt(changed, key, message)
        seen[report["checks"][-1]["step"]] += 1
        wrong += [] if report["verdict"] == "failed" else [f"accepted: {changed!r}"]
        try:
            asked.append({"receipt": changed.decode(), "key": key, "message": message.decode()})
            wanted.append(report)
        except UnicodeDecodeError:
            continue
    for want, said in zip(wanted, page_answers(asked), strict=True):
        found = json.loads(said)
        ends = [(each["verdict"], each["checks"][-1]["step"]) for each in (want, found)]
        wrong += [] if ends[0] == ends[1] else [f"other ends: {ends}"]
    return seen, wrong


def main() -> None:
    """Run both parts in batches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=3_000_000)
    options = parser.parse_args()
    start = time.perf_counter()
    derivations, refusals = Counter[str](), Counter[str]()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder, multiprocessing.Pool(PROCESSES) as pool:
        given = made_receipts(Path(folder) / "home")
        seeds = range(options.seed, sys.maxsize, POLICIES)
        # Some drawn messages are refused before a decision: a few batches more are made.
        batches = -(-options.decisions // (POLICIES * TURNS_A_POLICY * 3 // 4))
        for counts, found in pool.imap_unordered(derive_batch, islice(seeds, batches)):
            derivations += counts
            wrong += found
        numbers = range(options.seed, options.seed + -(-options.mutants // MUTANTS))
        for counts, found in pool.imap_unordered(partial(refuse_batch, given), numbers):
            refusals += counts
            wrong += found
    result: dict[str, object] = {
        "decisions_derived_by_both": derivations["decisions"],
        "mutants_refused_by_both": refusals.total(),
        "wrong": len(wrong),
        "steps_that_refused": dict(sorted(refusals.items())),
        "first_seed": options.seed,
        "seconds": round(time.perf_counter() - start, 1),
    }
    print("\n\n".join(wrong[:3]), result, write("receipts", result))
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
