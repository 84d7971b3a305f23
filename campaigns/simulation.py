"""Live many lives: `python -m campaigns.simulation [--seeds 1-1000]`.

Writes `evidence/simulation.json`. A failing life is made short and put under
`tests/simulation/found`, where the tests live it again for ever.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from campaigns.evidence import write

ROOT = Path(__file__).parents[1]
FOUND = ROOT / "tests" / "simulation" / "found"
PROCESSES = 2
NEEDED = (
    "turn", "went on after a tool", "outage", "cut network", "edit", "broken policy", "kill",
    "power", "restart", "full disk", "failing sync", "slow disk", "clock", "erase 200", "cancelled",
    "status 200", "status 402", "status 502",
)  # fmt: skip
"""What must have happened: a campaign in which some of it never did shows too little."""


def live(first: int, last: int, length: int) -> list[dict[str, Any]]:
    """Live lives in a process of their own, and return what they told."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = ["--seeds", f"{first}-{last}", "--length", str(length), "--shrink"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *words],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    return [json.loads(line) for line in lines if line.startswith('{"')]


def keep(short: dict[str, Any]) -> str:
    """Keep a life that was made short."""
    FOUND.mkdir(exist_ok=True)
    target = FOUND / f"life_{short['seed']}.json"
    target.write_text(json.dumps(short, indent=1) + "\n")
    return str(target.relative_to(ROOT))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1-1000")
    parser.add_argument("--length", type=int, default=60, help="actions in a life")
    asked = parser.parse_args()
    first, _, last = asked.seeds.partition("-")
    low, high = int(first), int(last or first)
    step = max(1, min(50, (high - low + 1) // PROCESSES))
    parts = [(at, min(at + step - 1, high), asked.length) for at in range(low, high + 1, step)]
    began = time.monotonic()
    with ThreadPoolExecutor(PROCESSES) as pool:
        told = [each for part in pool.map(lambda p: live(*p), parts) for each in part]
    seconds = time.monotonic() - began
    lives = [each for each in told if "digest" in each or "findings" in each]
    shorts = [each for each in told if "actions" in each]
    counts: Counter[str] = Counter()
    for each in lives:
        counts.update(each.get("counts", {}))
    failing = [each["seed"] for each in lives if each["findings"]]
    never = [name for name in NEEDED if not counts[name]]
    kept = [keep(each) for each in shorts]
    found: dict[str, object] = {
        "what": "lives of the whole product in simulated time, and promises that were broken",
        "lives": len(lives),
        "seeds": asked.seeds,
        "turns": sum(each.get("turns", 0) for each in lives),
        "simulated_hours": round(sum(each.get("virtual_s", 0) for each in lives) / 3600, 1),
        "thread_switches": sum(each.get("switches", 0) for each in lives),
        "failing": failing,
        "findings": [each["findings"] for each in lives if each["findings"]][:20],
        "never_occurred": never,
        "occurred": dict(sorted(counts.items())),
        "seconds": round(seconds, 1),
        "kept": kept,
    }
    print(write("simulation", found), f"{len(lives)} lives, {len(failing)} failing, never: {never}")
    return 1 if failing or never or len(lives) != high - low + 1 else 0


if __name__ == "__main__":
    sys.exit(main())
