"""Raw HTTP against a gateway: `python -m campaigns.raw_http [rounds]`.

Sends every case of `tests/gateway/raw_http.py`, each with a good request behind it, and writes
`evidence/raw_http.json`; fails when one is read in another way than it must be.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from campaigns.evidence import write

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.gateway.house import running, write_home
from tests.gateway.raw_http import cases, fault

QUIET = {"telemetry": {"logs": "off"}, "server": {"head_timeout_s": 2, "body_timeout_s": 2}}


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    tried, faults, begun = Counter[str](), list[str](), time.monotonic()
    with (
        TemporaryDirectory() as folder,
        running(write_home(Path(folder) / "home", pointsman=QUIET)) as live,
    ):
        for _ in range(rounds):
            for case in cases():
                tried[case.group] += 1
                told = fault(live, case)
                faults += [told] if told else []
        decided = len(live.kinds())
    found = {
        "what": "raw requests, each with a good one behind it: read as they must be, or refused",
        "cases": len(cases()),
        "rounds": rounds,
        "tried": sum(tried.values()),
        "held": sum(tried.values()) - len(faults),
        "decided": decided,
        "groups": dict(tried),
        "faults": faults,
        "seconds": round(time.monotonic() - begun, 1),
    }
    print(found, write("raw_http", found))
    return 1 if faults or decided else 0


if __name__ == "__main__":
    sys.exit(main())
