"""The policy chain against the naive model of it, on 200,000 random turns, over both cores.

Writes `evidence/differential.json`; fails when one turn comes out differently, or when something
that must sometimes happen never did.
"""

from __future__ import annotations

import sys
from pathlib import Path

from campaigns.against_model import Comparison, run

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.property.test_chain_against_model import SOMETIMES, TURNS_A_POLICY, compared

if __name__ == "__main__":
    run(
        Comparison(
            "differential", "turns", "policies", TURNS_A_POLICY, frozenset(SOMETIMES), compared
        ),
        __doc__,
    )
