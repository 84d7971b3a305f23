"""Marked secrets and texts in every place that takes one: `python -m campaigns.canaries [every]`.

Three gateways, one for each mode of keeping text, meet every fault of a provider, every refusal of
ours and calls that go well; then all answers, the log and every file of the home are looked at.
Writes `evidence/canaries.json`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from campaigns.evidence import write
from tests.gateway.canaries import IN_THE_RECORD, KINDS, RETAINS, Tally, attack, cells


def main(every: int) -> int:
    found: dict[str, object] = {
        "what": "marked secrets and texts: places that hold one and must not",
        "kinds": [*KINDS],
        "exempt": IN_THE_RECORD,
    }
    faults: list[str] = []
    for retain in RETAINS:
        tally = Tally()
        with tempfile.TemporaryDirectory() as folder:
            seen = attack(Path(folder), retain, cells(every), tally)
        faults += tally.faults
        found[retain] = {
            "faults_of_providers": tally.cells,
            "answers": sum(tally.answers.values()),
            "statuses": {str(status): n for status, n in sorted(tally.answers.items())},
            "files_looked_through": tally.files,
            "log_bytes": tally.log_bytes,
            "kept_where_text_may_be": sorted(kind for kind, is_there in seen.items() if is_there),
            "found": len(tally.faults),
        }
        print(retain, sum(tally.answers.values()), "answers,", len(tally.faults), "found")
    write("canaries", {**found, "found": faults[:50]})
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
