"""The router of agents against the naive model of it, on 200,000 random jobs, over both cores.

Writes `evidence/agents.json`; fails when one job comes out differently, or when something that must
sometimes happen never did.
"""

from __future__ import annotations

import sys
from pathlib import Path

from campaigns.against_model import Comparison, run

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.property.test_agents_against_model import JOBS_A_HOUSE, SOMETIMES, compared

if __name__ == "__main__":
    run(
        Comparison("agents", "jobs", "houses", JOBS_A_HOUSE, frozenset(SOMETIMES), compared),
        __doc__,
    )
