"""Kill gateways with SIGKILL at every marked point: `python -m campaigns.gateway_crash [deaths]`.

Writes `evidence/gateway_crash.json`; fails when an answer began whose decision is not on disk.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from campaigns.evidence import write

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.gateway.house import upstream
from tests.gateway.mortal import CLIENTS, POINTS, Reaper, Tally


def main() -> int:
    deaths = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    begun = time.monotonic()
    tallies = {point: _reap_and_check(point, deaths) for point in POINTS}
    evidence = {
        "what": "answers that began before a gateway was killed, and whether they are recorded",
        "deaths_a_point": deaths,
        "clients": CLIENTS,
        "points": {point: asdict(tally) for point, tally in tallies.items()},
        "answered": sum(each.answered for each in tallies.values()),
        "unrecorded": sum(len(each.unrecorded) for each in tallies.values()),
        "seconds": round(time.monotonic() - begun),
    }
    write("gateway_crash", evidence)
    is_clean = all(
        not (each.unrecorded or each.broken or each.survived) for each in tallies.values()
    )
    return 0 if is_clean else 1


def _reap_and_check(point: str, deaths: int) -> Tally:
    with (
        tempfile.TemporaryDirectory() as folder,
        upstream() as provider,
        Reaper(Path(folder) / "home", provider, seed=len(point)) as reaper,
    ):
        for _ in range(deaths):
            reaper.reap(point)
        reaper.check_all()
        return reaper.tally


if __name__ == "__main__":
    sys.exit(main())
