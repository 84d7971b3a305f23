"""Live streams through the gateway: `python bench/streams.py [TREE …]`.

So many streams of 60 events a second at once, each event with the time it was written at, and a new
caller every 50 ms beside them. Told are how many streams came whole, how much later an event came
than it was written, how long the first one took, and the gateway's CPU an event. Each TREE is
another source tree of the product, measured by turns with this one: the ratios are what counts.
Writes bench/results/streams.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway_load import ROOT, TICKS, compile_program, machine_busy_s
from gateway_systems import Pointsman, tree

RESULTS = Path(__file__).parent / "results" / "streams.json"
BODY = (
    '{"model":"up:bench","stream":true,"messages":'
    '[{"role":"user","content":"Tell %s number %d something long."}]}'
)


class Tree(Pointsman):
    """The product of one source tree."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.root / "src")}


def cpu_s(pid: int) -> float:
    """The CPU seconds of a process and its children."""
    total = 0
    for each in tree(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def measure(system: Tree, streams: int, rate: int, seconds: int) -> dict[str, Any]:
    """Run so many streams through one gateway."""
    command = [compile_program("paced"), system.path, BODY, str(streams), str(rate), str(seconds)]
    with (
        system.folder() as folder,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as paced,
    ):
        assert paced.stdin is not None
        assert paced.stdout is not None
        upstream = int(paced.stdout.readline())
        with system.running(upstream, folder) as running:
            before, busy = cpu_s(running.pid), machine_busy_s()
            paced.stdin.write(f"{running.target.port} -\n")
            paced.stdin.flush()
            found = json.loads(paced.stdout.readline())
            spent = cpu_s(running.pid) - before
            found["cpu_us_an_event"] = round(spent / max(found["delay"]["count"], 1) * 1e6, 2)
            found["machine_busy_s"] = round(machine_busy_s() - busy, 2)
            found["rss_mib"] = round(running.rss_mib(), 1)
        found["answers"] = found["complete"] + found["probes_complete"]
        found |= system.check_promises(running, found["answers"])
    return found


def middle(rounds: list[dict[str, Any]], *path: str) -> float:
    """Return the median of a figure over the rounds."""
    values = []
    for each in rounds:
        value: Any = each
        for name in path:
            value = value.get(name, 0)
        values.append(value)
    return statistics.median(values)


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "complete": [each["complete"] for each in rounds],
        "cpu_us_an_event": middle(rounds, "cpu_us_an_event"),
        "delay_p50_us": middle(rounds, "delay", "p50_us"),
        "delay_p99_us": middle(rounds, "delay", "p99_us"),
        "first_byte_p99_us": middle(rounds, "first_byte", "p99_us"),
        "new_callers": middle(rounds, "new_callers", "count"),
        "new_callers_p99_us": middle(rounds, "new_callers", "p99_us"),
        "rss_mib": middle(rounds, "rss_mib"),
        "machine_busy_s": middle(rounds, "machine_busy_s"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path)
    parser.add_argument("--streams", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--rate", type=int, default=60)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    systems = [Tree(ROOT), *(Tree(each.resolve()) for each in given.trees)]
    names = ["this", *(f"other {number}" for number in range(1, len(systems)))]
    found: dict[str, Any] = {}
    for streams in given.streams:
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for _ in range(given.rounds):
            for name, system in zip(names, systems, strict=True):
                seen = measure(system, streams, given.rate, given.seconds)
                rounds[name].append(seen)
                print(streams, name, seen, flush=True)
        found[str(streams)] = {name: summary(each) for name, each in rounds.items()}
    value = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "note": "machine shared: read the ratios",
        "events_a_second": given.rate,
        "seconds": given.seconds,
        "rounds": given.rounds,
        "streams": found,
    }
    RESULTS.write_text(json.dumps(value, indent=1) + "\n")
    print(json.dumps(value, indent=1))


if __name__ == "__main__":
    main()
