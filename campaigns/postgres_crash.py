"""Kill PostgreSQL and its writers 200 times: `python -m campaigns.postgres_crash [rounds]`.

Writes `evidence/postgres_crash.json`; fails when anything acknowledged was lost, stands twice, or a
chain does not verify.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import psycopg
from campaigns.evidence import sum_tallies
from tests.durability.postgres_crash_worker import THREADS, WRITERS, PostgresKiller, Tally

EVIDENCE = Path(__file__).parents[1] / "evidence" / "postgres_crash.json"
SERVERS = 4


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    begun = time.monotonic()
    tallies = [_kill_and_check(seed, rounds // SERVERS) for seed in range(SERVERS)]
    evidence = {
        "what": "entries acknowledged while PostgreSQL and its writers were killed, and their fate",
        "driver": psycopg.__version__,
        "writers": WRITERS,
        "threads_per_writer": THREADS,
        "servers": SERVERS,
        "seeds": list(range(SERVERS)),
        "rounds": rounds // SERVERS * SERVERS,
        **_total(tallies),
        "seconds": round(time.monotonic() - begun),
    }
    EVIDENCE.write_text(json.dumps(evidence, indent=2) + "\n")
    print(json.dumps(evidence, indent=2))
    return 0 if _is_clean(evidence) else 1


def _kill_and_check(seed: int, rounds: int) -> Tally:
    with tempfile.TemporaryDirectory() as folder, PostgresKiller(Path(folder), seed) as killer:
        for _ in range(rounds):
            killer.round()
        killer.check_all()
        return killer.tally


def _total(tallies: list[Tally]) -> dict[str, object]:
    return {
        **sum_tallies(tallies),
        "slowest_return_s": round(max(each.slowest_return_s for each in tallies), 3),
    }


def _is_clean(evidence: dict[str, object]) -> bool:
    return not any(evidence[name] for name in ("lost", "twice", "broken", "failed"))


if __name__ == "__main__":
    sys.exit(main())
