"""An owner with all keys rewrites history in 100 ways; write down who noticed.

`python -m campaigns.witness` takes a minute. Two witnesses serve on this machine; each rewritten
home is verified without them, then with their word, and submitted to them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from campaigns.evidence import write

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "tamper"))

from rewriting import hundred_ways, try_way, witnessed_house  # noqa: E402 - needs the path above

from pointsman.audit.verify import verify_ledger  # noqa: E402
from pointsman.audit.witnessed import terms_of  # noqa: E402


def main() -> int:
    """Try every way, and fail where one was missed."""
    began = time.monotonic()
    ways, found, missed = hundred_ways(), Counter[str](), []
    refused = silent = 0
    with tempfile.TemporaryDirectory() as folder, witnessed_house(Path(folder) / "a") as house:
        honest = verify_ledger(house.home, terms=terms_of(house.settings))
        for number, way in enumerate(ways):
            path = Path(folder) / f"forged-{number}"
            verdict = try_way(house, path, way, keeps_cosignatures=number % 2 == 0)
            codes = [each for each in verdict.found if each.startswith("ledger.witness_")]
            found.update(codes[:1])
            refused, silent = refused + verdict.is_refused, silent + verdict.is_silent_without
            if not codes or not verdict.is_refused:
                missed.append(f"{number}: {verdict.way}")
    value: dict[str, object] = {
        "ways": len(ways),
        "kinds": dict(Counter(name for name, _ in ways)),
        "found_by_witnesses": sum(found.values()),
        "faults": dict(sorted(found.items())),
        "refused_by_every_witness": refused,
        "nothing_spoke_against_the_owner_without_witnesses": silent,
        "honest_home_is_intact": honest.is_intact,
        "missed": missed,
        "seconds": round(time.monotonic() - began, 1),
    }
    write("witness", value)
    print(json.dumps(value))
    return 1 if missed or not honest.is_intact or silent != len(ways) else 0


if __name__ == "__main__":
    sys.exit(main())
