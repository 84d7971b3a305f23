"""Every route under 25 kinds of caller: `python -m campaigns.attack [rounds]`.

Writes `evidence/attack.json`. Fails where a caller does more than its key says, or is told anything
of another tenant: by an answer, or by the difference between what is hidden and what is not there.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from campaigns.evidence import write
from tests.gateway.attack import Tally, attack, callers, victim
from tests.gateway.conftest import opened_town
from tests.gateway.house import running

from pointsman.gateway.route_table import ROUTES


def main(rounds: int) -> int:
    os.environ.update(OPENAI_TEST_KEY="sk-openai-upstream", ANTHROPIC_TEST_KEY="sk-ant-upstream")
    tally, kinds = Tally(), 0
    for _ in range(rounds):
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            town = stack.enter_context(opened_town(Path(folder)))
            live = stack.enter_context(running(town.home))
            hurt, who = victim(live), callers(live)
            kinds = len(who)
            attack(live, who, hurt, tally)
    found: dict[str, object] = {
        "rounds": rounds,
        "routes": len(ROUTES),
        "callers": kinds,
        "calls": tally.tried,
        "answers_of_another_tenant_looked_through": tally.of_others,
        "statuses": {str(status): n for status, n in sorted(tally.statuses.items())},
        "broken": len(tally.faults),
        "faults": tally.faults[:50],
    }
    write("attack", found)
    print(f"{tally.tried} calls, {len(tally.faults)} faults")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
