"""The gateway of this tree against an earlier revision's, in one run: rates and CPU a request.

Both run at once, each with a fake upstream of its own, and are loaded in turn, case by case, in
alternating order; the ratios of neighbours are compared, so noise of the machine falls on both.
Both run on the installed dependencies of this tree, and both ledgers are checked after each round.
Prints; writes only what `--out` names.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from figures import round_figures
from gateway_load import ROOT, TICKS, NotPossible, count_answers, fake_upstream
from gateway_systems import Pointsman, Running, tree

from gateway import CASES, conditions

Figures = dict[str, Any]
PARTS = ("per_s", "cpu_us", "p50_us")


class Version(Pointsman):
    """Pointsman from the sources of one revision."""

    def __init__(self, name: str, source: Path) -> None:
        self.name = name
        self.source = source

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.source)}


def checked_out(revision: str) -> tuple[str, Path]:
    """Write the sources of a revision under build; return its short name and their folder."""
    git = ["git", "-C", str(ROOT)]
    wanted = [*git, "rev-parse", "--short", f"{revision}^{{commit}}"]
    name = subprocess.run(wanted, stdout=subprocess.PIPE, check=False, text=True).stdout.strip()
    if not name:
        raise NotPossible(f"`{revision}` is no revision of this repository")
    folder = ROOT / "build" / "bench-versions" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = subprocess.run([*git, "archive", name, "src"], stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return name, folder / "src"


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and its children so far."""
    total = 0
    for each in tree(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


class Side:
    """A version that runs, with its upstream."""

    def __init__(self, version: Version, running: Running, upstream: int) -> None:
        self.version = version
        self.running = running
        self.upstream = upstream

    def load(self, case: str, warm_up_s: float, seconds: float) -> Figures:
        """Load it in one way; return its rate, its latency and its CPU time a request."""
        count, mode = CASES[case]
        answers, spent = count_answers(self.upstream), cpu_s(self.running.pid)
        seen = self.running.target.run_load(count, mode, warm_up_s=warm_up_s, seconds=seconds)
        if seen["errors"] or not seen["requests"]:
            raise NotPossible(f"{self.version.name}: errors at {case} ({seen['last_error']})")
        answers = count_answers(self.upstream) - answers
        spent = cpu_s(self.running.pid) - spent
        found = {"per_s": seen["per_s"], "p50_us": seen["latency"]["p50_us"]}
        return {**found, "cpu_us": spent / answers * 1e6}


def run_rounds(
    versions: tuple[Version, Version], given: argparse.Namespace
) -> dict[str, list[list[Figures]]]:
    """Load both in turn; return for each case the pairs of figures, in the order of versions."""
    pairs: dict[str, list[list[Figures]]] = {case: [] for case in given.cases}
    for number in range(given.rounds):
        with ExitStack() as stack:
            sides = []
            with ExitStack() as alive:
                for version in versions:
                    upstream = stack.enter_context(fake_upstream())
                    folder = stack.enter_context(version.folder())
                    running = alive.enter_context(version.running(upstream, folder))
                    sides.append(Side(version, running, upstream))
                for case in given.cases:
                    for _ in range(given.turns):
                        pairs[case].append(load_pair(sides, case, len(pairs[case]), given))
            for side in sides:
                side.version.check_promises(side.running, count_answers(side.upstream))
        shown = "  ".join(
            f"{case} {' '.join(f'{ratio:.2f}' for ratio in ratios(each, 'per_s')[-given.turns :])}"
            for case, each in pairs.items()
        )
        print(f"round {number + 1}, req/s new/base: {shown}", flush=True)
    return pairs


def load_pair(sides: list[Side], case: str, turn: int, given: argparse.Namespace) -> list[Figures]:
    """Load both, the other one first at every second turn; return base, new."""
    order = sides if turn % 2 == 0 else sides[::-1]
    found = [side.load(case, given.warm_up, given.seconds) for side in order]
    return found if turn % 2 == 0 else found[::-1]


def ratios(pairs: list[list[Figures]], part: str) -> list[float]:
    """Return new/base of each pair."""
    return [new[part] / base[part] for base, new in pairs]


def summary(pairs: dict[str, list[list[Figures]]]) -> Figures:
    """Return for each case the medians of both, and the ratios' median, least and most."""
    found: Figures = {}
    for case, each in pairs.items():
        found[case] = {}
        for part in PARTS:
            told = sorted(ratios(each, part))
            quarter = len(told) // 4
            found[case][part] = {
                "base": statistics.median(base[part] for base, _ in each),
                "new": statistics.median(new[part] for _, new in each),
                "ratio": statistics.median(told),
                "middle_half": [told[quarter], told[-1 - quarter]],
                "range": [told[0], told[-1]],
            }
    return found


def table(found: Figures) -> str:
    lines = [f"{'case':10} {'':7} {'base':>8} {'new':>8} {'ratio':>6}  middle half    range"]
    for case, parts in found.items():
        for part, told in parts.items():
            (low, high), (least, most) = told["middle_half"], told["range"]
            lines.append(
                f"{case:10} {part:7} {told['base']:8,.0f} {told['new']:8,.0f} {told['ratio']:6.3f}"
                f"  {low:.3f}-{high:.3f}    {least:.3f}-{most:.3f}"
            )
    return "\n".join(lines)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="the revision to compare with")
    parser.add_argument("--new", help="a revision instead of this tree")
    parser.add_argument("--rounds", type=int, default=3, help="new starts of both")
    parser.add_argument("--turns", type=int, default=4, help="pairs of loads a case and round")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--warm-up", type=float, default=0.5)
    parser.add_argument("--cases", nargs="*", default=[*CASES], choices=[*CASES])
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    return parser.parse_args()


def main() -> None:
    given = read_arguments()
    base = Version(*checked_out(given.base))
    new = Version(*checked_out(given.new)) if given.new else Version("tree", ROOT / "src")
    told = conditions(given)
    pairs = run_rounds((base, new), given)
    told["load_average_after"] = os.getloadavg()[0]
    found = round_figures(
        {"conditions": told, "base": base.name, "new": new.name, "cases": summary(pairs)}
    )
    print(f"\nbase {base.name}, new {new.name}, {given.rounds} x {given.turns} pairs of"
          f" {given.seconds:g} s\n\n{table(found['cases'])}")  # fmt: skip
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except NotPossible as error:
        sys.exit(f"bench-versions: {error}")
