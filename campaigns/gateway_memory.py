"""The gateway's memory over many requests: `python -m campaigns.gateway_memory [requests]`.

Plain calls and streams by turns, each a session of its own. Writes `evidence/gateway_memory.json`
with the memory after each step; fails when the last quarter stands higher than the second by more
than what is told, or when an answer lacks its decision.
"""

from __future__ import annotations

import sys
import time
from itertools import cycle
from pathlib import Path
from statistics import median

from campaigns.evidence import write

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

from gateway_load import Mode, count_answers, fake_upstream
from gateway_systems import Pointsman, Running

CONNECTIONS = 16
STEP_S = 5.0
MOST_GROWTH_MIB = 8.0
MODES: tuple[Mode, ...] = ("plain", "stream")


def measure_memory(running: Running, upstream: int, requests: int) -> list[tuple[int, float]]:
    """Load it until so many were answered; give the memory after each step."""
    series = []
    for mode in cycle(MODES):
        done = count_answers(upstream)
        series.append((done, round(running.rss_mib(), 1)))
        if done >= requests:
            return series
        found = running.target.run_load(CONNECTIONS, mode, warm_up_s=0, seconds=STEP_S)
        if found["errors"]:
            raise RuntimeError(f"{found['errors']} calls failed: {found}")
    return series


def growth(series: list[tuple[int, float]]) -> float:
    """How much higher the last quarter stands than the second."""
    last = series[-1][0]
    early = [mib for done, mib in series if last * 0.25 <= done < last * 0.5]
    late = [mib for done, mib in series if done >= last * 0.75]
    return round(median(late) - median(early), 1)


def main() -> int:
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    begun = time.monotonic()
    ours = Pointsman()
    with fake_upstream() as upstream, ours.folder() as folder:
        with ours.running(upstream, folder) as running:
            series = measure_memory(running, upstream, requests)
        kept = ours.checked(running, series[-1][0])
    found = {
        "what": "resident memory of the gateway, in MiB, after so many answers",
        "requests": series[-1][0],
        "connections": CONNECTIONS,
        "growth_mib": growth(series),
        "most_growth_mib": MOST_GROWTH_MIB,
        "highest_mib": max(mib for _, mib in series),
        "series": series,
        **kept,
        "seconds": round(time.monotonic() - begun),
    }
    print({name: value for name, value in found.items() if name != "series"})
    write("gateway_memory", found)
    return 0 if found["growth_mib"] <= MOST_GROWTH_MIB else 1


if __name__ == "__main__":
    sys.exit(main())
