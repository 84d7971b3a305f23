"""Answers to claims about small policies drawn at random against trying every turn, 100,000 times.

Writes `evidence/proofs.json`; fails when one answer, or one smallest example, comes out
differently, or when something that must sometimes happen never did.
"""

from __future__ import annotations

import sys
from pathlib import Path

from campaigns.against_model import Comparison, run

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.property.test_proofs_against_trial import POLICIES_A_SEED, SOMETIMES, compared

if __name__ == "__main__":
    run(
        Comparison(
            "proofs", "policies", "seeds", POLICIES_A_SEED, frozenset(SOMETIMES), compared, 100_000
        ),
        __doc__,
    )
