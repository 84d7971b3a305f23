"""Cut the power 100,000 times: `python -m campaigns.power_loss [states]`.

Writes `evidence/power_loss.json`; fails when anything acknowledged or signed was lost.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import apsw
from tests.durability.power_loss import MODES, Cut, Recording, Tally, recorded, sampled, tallied
from tests.durability.simulated_disk import SECTOR, SimulatedVFS

EVIDENCE = Path(__file__).parents[1] / "evidence" / "power_loss.json"
PROCESSES = 2
SEEDS = 32
SELF_CHECK_STATES = 5_000


def main() -> int:
    states = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    full, normal = _recording("FULL"), _recording("NORMAL")
    begun = time.monotonic()
    result = _spread(full, sampled(full, states, seeds=SEEDS))
    took = time.monotonic() - begun
    check = _spread(normal, sampled(normal, SELF_CHECK_STATES, seeds=2))
    evidence = {
        "what": "states after a power cut in which anything acknowledged or signed was gone",
        "sqlite": apsw.sqlite_lib_version(),
        "operations": len(full.history),
        "entries": len(full.acknowledged),
        "modes": list(MODES),
        "seeds": SEEDS,
        "sector_bytes": SECTOR,
        "synchronous_full": _tally_value(result),
        "states_per_second": round(states / took),
        "self_check_synchronous_normal": _tally_value(check),
    }
    EVIDENCE.write_text(json.dumps(evidence, indent=2) + "\n")
    print(json.dumps(evidence, indent=2))
    return 0 if result.is_clean and check.lost else 1


def _recording(sync: str) -> Recording:
    with tempfile.TemporaryDirectory() as folder:
        return recorded(SimulatedVFS(), Path(folder), sync=sync)


def _spread(recording: Recording, plan: list[Cut]) -> Tally:
    share = -(-len(plan) // PROCESSES)
    parts = [(recording, plan[at : at + share]) for at in range(0, len(plan), share)]
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        tallies = pool.map(_part, parts)
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


def _part(part: tuple[Recording, list[Cut]]) -> Tally:
    return tallied(SimulatedVFS(), *part)


def _tally_value(tally: Tally) -> dict[str, object]:
    told = asdict(tally)
    del told["seen"]
    return {**told, "examples": tally.examples[:3], "distinct": tally.distinct}


if __name__ == "__main__":
    sys.exit(main())
