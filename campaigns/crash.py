"""Kill writers with SIGKILL 1,000 times: `python -m campaigns.crash [kills]`.

Writes `evidence/crash.json`; fails when anything acknowledged was lost or a start took too long.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import apsw
from campaigns.evidence import sum_tallies
from tests.durability.crash_worker import WRITERS, Killer, Tally

EVIDENCE = Path(__file__).parents[1] / "evidence" / "crash.json"
HOMES = 10
RESTART_S = 2.0


def main() -> int:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    begun = time.monotonic()
    tallies = [_kill_and_check(seed, kills // HOMES) for seed in range(HOMES)]
    evidence = {
        "what": "entries acknowledged by writers that were killed, and what became of them",
        "sqlite": apsw.sqlite_lib_version(),
        "threads_per_writer": WRITERS,
        "homes": HOMES,
        "seeds": list(range(HOMES)),
        **_total(tallies),
        "seconds": round(time.monotonic() - begun),
    }
    EVIDENCE.write_text(json.dumps(evidence, indent=2) + "\n")
    print(json.dumps(evidence, indent=2))
    return 0 if _is_clean(evidence) else 1


def _kill_and_check(seed: int, kills: int) -> Tally:
    with tempfile.TemporaryDirectory() as folder, Killer(Path(folder) / "home", seed) as killer:
        for _ in range(kills):
            killer.kill_one()
        killer.check_all()
        return killer.tally


def _total(tallies: list[Tally]) -> dict[str, object]:
    return {
        **sum_tallies(tallies),
        "slowest_start_s": round(max(tally.slowest_start_s for tally in tallies), 3),
    }


def _is_clean(evidence: dict[str, object]) -> bool:
    is_whole = not (evidence["lost"] or evidence["broken"] or evidence["failed_starts"])
    return is_whole and float(str(evidence["slowest_start_s"])) < RESTART_S


if __name__ == "__main__":
    sys.exit(main())
