"""10,000 mixed calls with faults: `python -m campaigns.agreement [--calls N] [--seed N]`.

Whole answers, streams, tools, shadow runs, judges, embeddings, delegations, callers who hang up.
Writes `evidence/agreement.json`; fails where ledger, `/metrics`, the cost page and the budgets do
not agree to the micro-dollar and the token.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from campaigns.evidence import write

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.gateway.agreement import call, compared, quiet, script, settle_home, stop_refill
from tests.gateway.conftest import Town, opened_town
from tests.gateway.house import running


def run(town: Town, calls: int, seed: int) -> tuple[dict[str, object], list[str]]:
    """Make the calls, and compare who counted what."""
    settle_home(town)
    script(town, seed)
    chance, ways = random.Random(seed), Counter[str]()
    start = time.perf_counter()
    with running(town.home) as live:
        stop_refill(live)
        for number in range(calls):
            ways[call(live, chance, number)] += 1
        quiet(live)
        sums, wrong = compared(live)
        kinds = Counter(each.kind for each in live.entries())
    found: dict[str, object] = {
        "calls": calls,
        "seed": seed,
        "ways": dict(sorted(ways.items())),
        "entries": dict(sorted(kinds.items())),
        **sums,
        "differences": wrong,
        "seconds": round(time.perf_counter() - start, 1),
    }
    return found, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.environ.update(OPENAI_TEST_KEY="sk-openai-upstream", ANTHROPIC_TEST_KEY="sk-ant-upstream")
    with TemporaryDirectory() as folder, opened_town(Path(folder)) as town:
        found, wrong = run(town, given.calls, given.seed)
    print(found, write("agreement", found))
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
