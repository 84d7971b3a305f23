"""A gateway on files, on PostgreSQL and beside Redis, and three: `python bench/stores.py [TREE …]`.

Requests at so many connections, each kind of store by turns in one run: the ratios are what counts.
PostgreSQL comes from the wheel of the tests, with `fsync` and `synchronous_commit` on. Each TREE is
another source tree of the product. After each round every answer's decision must be in the ledger,
and the ledger intact. Writes bench/results/stores.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agents_traffic import Case, cycle_file
from gateway_load import ROOT, body_file, fake_upstream, load_result, machine_busy_s
from gateway_systems import Pointsman, Running

sys.path.insert(0, str(ROOT))
from tests.servers import PostgresServer, RedisServer

MEMORY = "/dev/shm"
RESULTS = Path(__file__).parent / "results" / "stores.json"
SYNCED = ("fsync=on", "full_page_writes=on", "max_wal_size=1GB", "shared_buffers=128MB")
"""The later word counts: the tests switch durability off, which would measure nothing."""

KINDS = ("files", "postgresql", "postgresql and redis", "3 replicas", "3 replicas and redis")


class Gateway(Pointsman):
    """The product of one source tree on one kind of store."""

    is_in_memory = False
    """Whether homes lie in memory, where a sync takes no time."""

    def __init__(self, root: Path, kind: str, store: str = "", redis: str = "") -> None:
        self.root = root
        self.kind = kind
        self.store = store
        self.redis = redis

    def environment(self) -> dict[str, str]:
        found = {"PYTHONPATH": str(self.root / "src")}
        if self.store:
            found["POINTSMAN_STORE"] = self.store
        if self.redis:
            found["POINTSMAN_REDIS"] = self.redis
        return found

    def command(self, folder: Path, port: int, upstream: int) -> list[str]:
        first = folder.parent / "first"
        if first.exists() and folder.name != "first":
            home = folder / "home"
            subprocess.run(["cp", "-r", str(first / "home"), str(home)], check=True)
            for each in ("checkpoints", "leases"):
                subprocess.run(["rm", "-rf", str(home / each)], check=True)
            return [str(self.program), "serve", "--home", str(home), "--port", str(port)]
        command = super().command(folder, port, upstream)
        return [*command, "--workers", "1"]

    @contextmanager
    def folder(self) -> Iterator[Path]:
        if not self.is_in_memory:
            with super().folder() as found:
                yield found
            return
        with tempfile.TemporaryDirectory(prefix="run-stores-", dir=MEMORY) as found:
            yield Path(found)

    @contextmanager
    def replicas(self, count: int, upstream: int, folder: Path) -> Iterator[list[Running]]:
        """Start so many, one after the other: those that follow share what the first one made."""
        with ExitStack() as stack:
            found = []
            for number in range(count):
                place = folder / ("first" if number == 0 else f"next-{number}")
                place.mkdir()
                found.append(stack.enter_context(self.running(upstream, place)))
            yield found

    def check_ledger(self, running: Running, served: int, kind: str) -> dict[str, object]:
        if not self.store:
            return super().check_ledger(running, served, kind)
        import psycopg  # noqa: PLC0415 - not where there is none

        with psycopg.connect(self.store) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pointsman_ledger.entries WHERE kind = %s", (kind,)
            ).fetchone()
        entries = 0 if row is None else int(row[0])
        home = running.folder / "home"
        told = subprocess.run(
            [str(self.program), "verify", "--home", str(home), "--json"],
            env=os.environ | self.environment(),
            stdout=subprocess.PIPE,
            check=False,
        )
        is_intact = json.loads(told.stdout)["is_intact"]
        if entries < served or not is_intact:
            raise RuntimeError(f"{served} answers, {entries} entries of {kind}, {told.stdout!r}")
        return {"answers": served, "decisions": entries, "is_intact": True}


def measure(
    system: Gateway, count: int, shape: str, connections: int, seconds: float
) -> dict[str, Any]:
    """Load one kind of store, and look at what it kept."""
    if shape == "small":
        body = body_file(system.model, is_stream=False)
    else:
        body = cycle_file(system.model, Case(shape, connections))
    with fake_upstream() as upstream, system.folder() as folder:
        with system.replicas(count, upstream, folder) as running:
            before, busy = sum(each.cpu_s() for each in running), machine_busy_s()
            loads = [
                each.target.start_load(body, max(1, connections // count), "plain", 1.0, seconds)
                for each in running
            ]
            seen = [load_result(each) for each in loads]
            spent = sum(each.cpu_s() for each in running) - before
            busy = machine_busy_s() - busy
        good = sum(each["requests"] for each in seen)
        if any(each["errors"] for each in seen):
            raise RuntimeError(f"{system.kind}: {[each['last_error'] for each in seen]}")
        kind = "decision.turn" if shape == "small" else "outcome"
        checked = system.check_ledger(running[0], good, kind)
        return {
            "per_s": round(good / seconds, 1),
            "p50_us": statistics.median(each["latency"]["p50_us"] for each in seen),
            "p99_us": max(each["latency"]["p99_us"] for each in seen),
            "cpu_ms": round(spent / max(1, sum(each["sent"] for each in seen)) * 1000, 3),
            "machine_busy_s": round(busy, 2),
            **checked,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--shape", default="small", choices=("small", "20k", "150k"))
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dry", action="store_true", help="write no results")
    parser.add_argument("--memory", action="store_true", help="homes and database in memory")
    given = parser.parse_args()
    if given.memory:
        tempfile.tempdir = MEMORY
        Gateway.is_in_memory = True
    trees = {"this": ROOT} | {
        f"other {number}": tree.resolve() for number, tree in enumerate(given.trees, 1)
    }
    rounds: dict[str, dict[str, list[dict[str, Any]]]] = {name: {} for name in trees}
    postgres = PostgresServer(*SYNCED)
    redis = RedisServer()
    try:
        for _ in range(given.rounds):
            for name, root in trees.items():
                for kind in given.kinds:
                    store = "" if kind == "files" else postgres.fresh()
                    redis.empty()
                    system = Gateway(root, kind, store, redis.url if "redis" in kind else "")
                    count = 3 if kind.startswith("3") else 1
                    found = measure(system, count, given.shape, given.connections, given.seconds)
                    rounds[name].setdefault(kind, []).append(found)
                    print(name, kind, found, flush=True)
                    if store:
                        postgres.drop(store)
    finally:
        postgres.close()
        redis.close()
    middles = {
        name: {
            kind: {
                figure: statistics.median(each[figure] for each in found)
                for figure in ("per_s", "p50_us", "p99_us", "cpu_ms", "machine_busy_s")
            }
            for kind, found in kinds.items()
        }
        for name, kinds in rounds.items()
    }
    ratios = {
        name: {
            kind: round(found["per_s"] / kinds["files"]["per_s"], 3)
            for kind, found in kinds.items()
            if "files" in kinds
        }
        for name, kinds in middles.items()
    }
    value = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "note": "machine shared: read the ratios",
        "connections": given.connections,
        "seconds": given.seconds,
        "rounds": given.rounds,
        "stores": middles,
        "of_files": ratios,
    }
    print(json.dumps(value, indent=1))
    if not given.dry:
        RESULTS.write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    main()
