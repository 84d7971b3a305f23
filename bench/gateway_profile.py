"""Where a gateway under load spends its time, thread by thread: figures, CPU, top functions.

Runs Pointsman alone against the fake upstream and samples it with py-spy, in an environment of its
own. Prints; writes nothing but what `--out` names. For whoever makes it faster; promises nothing.
"""

from __future__ import annotations

import argparse
import os
import pstats
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from gateway_load import ROOT, TICKS, Mode, fake_upstream, machine_busy_s
from gateway_systems import Pointsman, Running

VENV = ROOT / ".venv-bench-profile"
PY_SPY = VENV / "bin" / "py-spy"
PINNED = "py-spy==0.4.3"
FRAME = re.compile(r"^(?P<name>.+) \((?P<file>[^()]+)\)$")


def ensure_py_spy() -> None:
    if PY_SPY.exists():
        return
    subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", PINNED], check=True)


def cpu_of_threads(pid: int) -> dict[int, float]:
    """Return the CPU seconds of each thread so far."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        found[int(task.name)] = (int(fields[11]) + int(fields[12])) / TICKS
    return found


def names_of_threads(pid: int) -> dict[int, str]:
    told = subprocess.run(
        [str(PY_SPY), "dump", "--pid", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return {
        int(number): name for number, name in re.findall(r'Thread (\d+) \([^)]*\): "([^"]+)"', told)
    }


def sample_stacks(running: Running, seconds: float, *options: str) -> Counter[str]:
    """Sample it; gives how often each stack was seen."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "raw"
        subprocess.run(
            [
                *(str(PY_SPY), "record", "--pid", str(running.pid), "--format", "raw"),
                *("--rate", "200", "--duration", str(int(seconds)), "--threads"),
                *("--output", str(target), *options),
            ],
            capture_output=True,
            check=True,
        )
        found: Counter[str] = Counter()
        for line in target.read_text().splitlines():
            stack, _, count = line.rpartition(" ")
            found[stack] += int(count)
        return found


def function_of(frame: str) -> str:
    """Name a frame without its line, so that a function is one entry."""
    name = re.sub(r":\d+\)$", ")", frame)
    return name.replace(".venv/lib/python3.11/site-packages/", "")


def tops(stacks: Counter[str], most: int) -> list[str]:
    """Tell of each thread which functions take its time: by themselves, and with their callees."""
    own: dict[str, Counter[str]] = defaultdict(Counter)
    whole: dict[str, Counter[str]] = defaultdict(Counter)
    for stack, count in stacks.items():
        frames = [function_of(each) for each in stack.split(";")]
        thread = frames[0]
        own[thread][frames[-1]] += count
        for each in set(frames[1:]):
            whole[thread][each] += count
    everything = sum(stacks.values()) or 1
    lines = []
    for thread in sorted(own, key=lambda each: -sum(own[each].values())):
        total = sum(own[thread].values())
        lines += ["", f"{thread}: {total / everything:.1%} of all samples"]
        for title, found in (("with what it calls", whole[thread]), ("by itself", own[thread])):
            lines.append(f"  {title}")
            lines += [
                f"    {count / total:6.1%}  {name}" for name, count in found.most_common(most)
            ]
    return lines


def under_load(running: Running, mode: Mode, *, seconds: float, options: tuple[str, ...]):
    """Sample while 16 connections keep it busy; gives the stacks and each thread's CPU."""
    target = running.target
    load = threading.Thread(
        target=lambda: target.run_load(16, mode, warm_up_s=0.5, seconds=seconds + 3)
    )
    load.start()
    before = cpu_of_threads(running.pid)
    stacks = sample_stacks(running, seconds, *options)
    after = cpu_of_threads(running.pid)
    names = names_of_threads(running.pid)
    load.join()
    spent = {
        names.get(number, str(number)): after[number] - before.get(number, 0) for number in after
    }
    return stacks, spent


WAYS: tuple[tuple[int, Mode], ...] = ((1, "plain"), (16, "plain"), (64, "plain"), (16, "stream"))


def figures(running: Running, seconds: float) -> list[str]:
    """Measure it unsampled, and tell what each thread's CPU takes a request."""
    lines = []
    names = names_of_threads(running.pid)
    for connections, mode in WAYS:
        before, busy_before = cpu_of_threads(running.pid), machine_busy_s()
        found: dict[str, Any] = running.target.run_load(
            connections, mode, warm_up_s=0.5, seconds=seconds
        )
        after, busy = cpu_of_threads(running.pid), machine_busy_s() - busy_before
        latency, sent = found["latency"], found["sent"] or 1
        lines.append(
            f"{mode:6} at {connections:2}: {found['per_s']:8,.0f} req/s"
            f"  p50 {latency['p50_us']:8,.0f}  p90 {latency['p90_us']:8,.0f}"
            f"  p99 {latency['p99_us']:8,.0f} us  errors {found['errors']} {found['last_error']}"
        )
        spent = {
            names.get(number, str(number)): (after[number] - before.get(number, 0)) / sent * 1e6
            for number in after
        }
        told = ", ".join(f"{name} {took:,.0f}" for name, took in spent.items() if took > 1)
        lines.append(
            f"    CPU us a request: {told}; machine busy {busy:.1f} of"
            f" {(seconds + 0.5) * (os.cpu_count() or 1):.1f} CPU s"
        )
    return lines


UNDER_CPROFILE = """
import cProfile, sys
from pointsman.cli.main import main
profiler = cProfile.Profile()
target = sys.argv.pop(1)
try:
    profiler.runcall(main, standalone_mode=False)
finally:
    profiler.dump_stats(target)
"""


class Traced(Pointsman):
    """Ours with every call of the event loop's thread counted; slow, and only for counting."""

    def command(self, folder: Path, port: int, upstream: int) -> list[str]:
        program, *rest = super().command(folder, port, upstream)
        (folder / "traced.py").write_text(UNDER_CPROFILE)
        python = str(Path(program).parent / "python")
        return [python, str(folder / "traced.py"), str(folder / "calls"), *rest]


def calls(upstream: int, seconds: float, most: int) -> list[str]:
    """Count the calls of Python functions a request, and their times as cProfile sees them."""
    system = Traced()
    with system.folder() as folder, system.running(upstream, folder) as running:
        found = running.target.run_load(16, "plain", warm_up_s=0.1, seconds=seconds)
        os.kill(running.pid, signal.SIGINT)
        target = running.folder / "calls"
        for _ in range(100):
            if target.exists() and target.stat().st_size:
                break
            time.sleep(0.1)
        time.sleep(0.5)
        stats = pstats.Stats(str(target))
    requests = found["sent"] or 1
    rows = sorted(stats.stats.items(), key=lambda each: -each[1][2])  # type: ignore[attr-defined]
    lines = ["", "=" * 90, "CALLS A REQUEST, event loop's thread, plain at 16 (cProfile slows it)"]
    lines.append(
        f"{sum(row[1] for _, row in rows) / requests:,.0f} calls a request; us: own, whole"
    )
    for (file, line, name), (_, count, own, whole, _) in rows[: most * 2]:
        place = "/".join(file.split("/")[-3:])
        lines.append(
            f"  {own / requests * 1e6:7.1f} {whole / requests * 1e6:8.1f}"
            f" {count / requests:7.2f} calls  {name} {place}:{line}"
        )
    return lines


def profile(seconds: float, most: int) -> list[str]:
    ensure_py_spy()
    with fake_upstream() as port:
        return [*looked_at(port, seconds, most), *calls(port, seconds, most)]


def looked_at(port: int, seconds: float, most: int) -> list[str]:
    system = Pointsman()
    with system.folder() as folder, system.running(port, folder) as running:
        lines = [f"load average before: {os.getloadavg()[0]:.2f}"]
        lines.append(f"ready after {running.ready_s:.2f} s, {running.rss_mib():.0f} MiB")
        lines += figures(running, seconds)
        lines.append(f"{running.rss_mib():.0f} MiB after that")
        looks: tuple[tuple[str, Mode, tuple[str, ...]], ...] = (
            ("PLAIN AT 16, on the CPU or waiting for it (py-spy --native)", "plain", ("--native",)),
            ("PLAIN AT 16, only who holds the GIL (py-spy --gil)", "plain", ("--gil",)),
            ("STREAM AT 16, only who holds the GIL", "stream", ("--gil",)),
        )
        for title, mode, options in looks:
            stacks, spent = under_load(running, mode, seconds=seconds, options=options)
            lines += ["", "=" * 90, title, "CPU seconds a thread while sampled:"]
            lines += [
                f"  {took:6.2f}  {name}"
                for name, took in sorted(spent.items(), key=lambda each: -each[1])
                if took > 0.02
            ]
            lines += tops(stacks, most)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--top", type=int, default=30)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    text = "\n".join(profile(given.seconds, given.top)) + "\n"
    if given.out:
        given.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
