"""Our HTTP gateway against its peers in one run: requests/s, latency, streams, memory, start.

One fast fake upstream and one load generator, both in C; one process a gateway, in rounds of
alternating order; medians. Ours keeps every promise while it is measured, and that is checked.
Times depend on the machine; the ratios do not. Writes bench/results/gateway.json, a plot, and
docs/reference/speed.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib as mpl
from figures import round_figures
from gateway_load import (
    ROOT,
    Mode,
    NotPossible,
    Target,
    count_answers,
    fake_upstream,
    machine_busy_s,
)
from gateway_page import OURS, page, table, under
from gateway_systems import CHAT, PEERS, Pointsman, System, last_words, scratch

RESULTS = Path(__file__).parent / "results"
PAGE = ROOT / "docs" / "reference" / "speed.md"
QUIET = 1.5

CASES: dict[str, tuple[int, Mode]] = {
    "plain_1": (1, "plain"),
    "plain_16": (16, "plain"),
    "plain_64": (64, "plain"),
    "stream_1": (1, "stream"),
    "stream_16": (16, "stream"),
    "acked_16": (16, "acked"),
}
DIRECT = "direct"

Figures = dict[str, Any]


def cases(target: Target, warm_up_s: float, seconds: float) -> Figures:
    """Load one target in every way, once it has done everything for the first time."""
    for mode in ("plain", "stream"):
        target.run_load(4, mode, warm_up_s=0, seconds=2 * warm_up_s)
    found = {}
    for name, (count, mode) in CASES.items():
        seen = target.run_load(count, mode, warm_up_s=warm_up_s, seconds=seconds)
        if not seen["requests"]:
            raise NotPossible(f"no good answer at {name} ({seen['last_error']})")
        found[name] = seen
    return found


def one_round(system: System | None, upstream: int, warm_up_s: float, seconds: float) -> Figures:
    """Start a system, load it, stop it, check it; without one, load the upstream itself."""
    if system is None:
        return {"cases": cases(Target(upstream, CHAT, "bench"), warm_up_s, seconds)}
    with system.folder() as folder:
        before = count_answers(upstream)
        try:
            with system.running(upstream, folder) as running:
                idle = running.rss_mib()
                found = cases(running.target, warm_up_s, seconds)
                loaded = running.rss_mib()
        except NotPossible as error:
            raise NotPossible(f"{error}: {last_words(folder)}") from error
        checked = system.check_promises(running, count_answers(upstream) - before)
    return {
        "cases": found,
        "start_s": running.ready_s,
        "idle_mib": idle,
        "loaded_mib": loaded,
        "checked": checked,
    }


def run_rounds(
    systems: list[System], upstream: int, given: argparse.Namespace, skipped: dict[str, str]
) -> dict[str, list[Figures]]:
    """Run every round, each in the opposite order of the last."""
    rounds: dict[str, list[Figures]] = {DIRECT: [], **{each.name: [] for each in systems}}
    order: list[System | None] = [None, *systems]
    for number in range(given.rounds):
        for system in order if number % 2 == 0 else reversed(order):
            name = DIRECT if system is None else system.name
            if name in skipped:
                continue
            try:
                found = one_round(system, upstream, given.warm_up, given.seconds)
            except NotPossible as error:
                if name == OURS:
                    raise
                skipped[name] = str(error)
                print(f"round {number + 1} {name:14} skipped: {error}", flush=True)
                continue
            rounds[name].append(found)
            shown = "  ".join(
                f"{case} {each['per_s']:,.0f}" for case, each in found["cases"].items()
            )
            print(f"round {number + 1} {name:14} req/s: {shown}", flush=True)
    return {name: found for name, found in rounds.items() if name not in skipped}


def median(values: list[float]) -> float:
    return statistics.median(values)


def summary(rounds: list[Figures], direct: list[Figures]) -> Figures:
    """Return the medians of a system, and its additions to the upstream alone in the same round."""
    found: Figures = {"cases": {name: case_summary(name, rounds, direct) for name in CASES}}
    for name in ("start_s", "idle_mib", "loaded_mib"):
        if name in rounds[0]:
            found[name] = median([each[name] for each in rounds])
    if rounds[0].get("checked"):
        found["checked"] = [each["checked"] for each in rounds]
    return found


def case_summary(case: str, rounds: list[Figures], direct: list[Figures]) -> Figures:
    def all_of(read: Callable[[Figures], float], given: list[Figures]) -> list[float]:
        return [read(each["cases"][case]) for each in given]

    found: Figures = {
        "per_s": median(all_of(lambda each: each["per_s"], rounds)),
        "per_s_of_rounds": all_of(lambda each: each["per_s"], rounds),
        "errors": sum(all_of(lambda each: each["errors"], rounds)),
    }
    for kind in ("latency", "first_byte"):
        for part in ("p50_us", "p90_us", "p99_us"):
            values = all_of(lambda each, k=kind, p=part: each[k][p], rounds)
            least = all_of(lambda each, k=kind, p=part: each[k][p], direct)
            name = part if kind == "latency" else f"first_byte_{part}"
            found[name] = median(values)
            found[f"added_{name}"] = median(
                [value - alone for value, alone in zip(values, least, strict=True)]
            )
    return found


def times(systems: Figures) -> Figures:
    """Return how many times each peer's requests/s ours are."""
    ours = systems[OURS]["cases"]
    return {
        name: {
            case: ours[case]["per_s"] / each["cases"][case]["per_s"]
            for case in CASES
            if each["cases"][case]["per_s"]
        }
        for name, each in systems.items()
        if name not in {OURS, DIRECT}
    }


def sync_ms(folder: Path) -> float:
    """Return how long this disk takes to make 4 KB durable."""
    target, found = folder / "sync", []
    with target.open("wb", buffering=0) as file:
        for _ in range(50):
            file.write(b"x" * 4096)
            start = time.perf_counter_ns()
            os.fdatasync(file.fileno())
            found.append((time.perf_counter_ns() - start) / 1e6)
    target.unlink()
    return median(found)


class Others:
    """What of the machine everybody else takes while the bench runs."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self._busy, self._own = machine_busy_s(), own_s()

    def share(self) -> float:
        """Return their share of all cores, once all that was started here has been waited for."""
        elapsed = time.perf_counter() - self._begun
        theirs = machine_busy_s() - self._busy - (own_s() - self._own)
        return max(0.0, theirs / (elapsed * (os.cpu_count() or 1)))


def own_s() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def command_output(*command: str) -> str:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    except FileNotFoundError:
        return "none"
    return done.stdout.decode().splitlines()[0]


def conditions(given: argparse.Namespace) -> Figures:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "node": command_output("node", "--version"),
        "gcc": command_output("gcc", "-dumpfullversion"),
        "load_average_before": os.getloadavg()[0],
        "sync_ms": sync_ms(scratch()),
        "rounds": given.rounds,
        "seconds": given.seconds,
        "warm_up_s": given.warm_up,
        "note": "shared, noisy cores; load, upstream and gateway share them; trust the ratios",
    }


def prepare_systems(names: list[str]) -> tuple[list[System], dict[str, str], dict[str, str]]:
    """Install the peers; gives those that can run, their versions, and why others cannot."""
    found: list[System] = []
    versions: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for system in (Pointsman(), *PEERS):
        if names and system.name not in {*names, OURS}:
            continue
        try:
            versions[system.name] = system.prepare()
            found.append(system)
        except NotPossible as error:
            skipped[system.name] = str(error)
            print(f"{system.name} is skipped: {error}", flush=True)
    return found, versions, skipped


def plot(found: Figures, target: Path) -> None:
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "pointsman"
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend was chosen

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True)
    systems = {name: each for name, each in found["systems"].items() if name != DIRECT}
    names = sorted(systems, key=lambda name: systems[name]["cases"]["plain_16"]["per_s"])
    colours = ["tab:orange" if name == OURS else "tab:blue" for name in names]
    for axis, case, figure_of, label in (
        (axes[0], "plain_16", "per_s", "requests/s at 16 connections"),
        (axes[1], "stream_16", "per_s", "streams/s at 16 connections"),
        (axes[2], "plain_1", "added_p50_us", "added p50 at 1 connection, µs"),
    ):
        values = [systems[name]["cases"][case][figure_of] for name in names]
        axis.barh(names, [max(value, 1) for value in values], color=colours)
        axis.set(xscale="log", xlabel=label)
        axis.grid(visible=True, axis="x", alpha=0.3)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--warm-up", type=float, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="these peers, beside ours")
    parser.add_argument("--trial", action="store_true", help="one short round; writes nothing")
    given = parser.parse_args()
    if given.trial:
        given.rounds, given.seconds, given.warm_up = 1, 1.0, 0.3
    return given


def main() -> None:
    given = read_arguments()
    systems, versions, skipped = prepare_systems(given.only)
    told = conditions(given)
    if told["load_average_before"] > QUIET:
        busy = told["load_average_before"]
        print(f"the machine is busy (load average {busy:.2f}): the figures will be poor")
    others = Others()
    with fake_upstream() as upstream:
        rounds = run_rounds(systems, upstream, given, skipped)
    told["load_average_after"] = os.getloadavg()[0]
    told["others_share_of_cpu"] = others.share()
    found: Figures = {"conditions": told, "systems": {}, "skipped": skipped}
    for name, each in rounds.items():
        version = {"version": versions[name]} if name in versions else {}
        found["systems"][name] = {**version, **summary(each, rounds[DIRECT])}
    found["times"] = times(found["systems"])
    whole = round_figures(found)
    print(f"\n{table(whole)}\n\n{under(whole)}")
    if given.trial or given.only:
        print("a trial: nothing was written")
        return
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "gateway.json").write_text(json.dumps(whole, indent=2) + "\n")
    plot(whole, RESULTS / "gateway.svg")
    PAGE.write_text(page(whole), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except NotPossible as error:
        sys.exit(f"bench-gateway: {error}")
