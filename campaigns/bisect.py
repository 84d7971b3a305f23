"""Fifty causes planted in the life of a home, among changes that matter not: each must be found.

Writes `evidence/bisect.json`; fails when one cause is missed, another is blamed, or a search takes
more decisions than the halving and the parts of the state allow.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaigns.evidence import write
from tests.unit.test_backtest import MODELS
from tests.unit.test_bisection import COMMITS, RULE, Life

from pointsman.turns.facts import BudgetLeft

PLANTED = 50
_FACTS: dict[str, dict[str, Any]] = {
    "health": {"availability": {"acme:big": "unavailable"}},
    "keys": {"configured": ("acme:cheap",)},
    "permission": {"allowed_models": ("acme:cheap", "acme:odd")},
    "budgets": {"budgets": (BudgetLeft("team", 70),)},
    "choice by hand": {"sticky_model": "acme:cheap"},
}
_SMALL = "capabilities: {max_context_tokens: 4}"
_FILES: dict[str, dict[str, str]] = {
    "rules": {"routing": RULE},
    "global_default": {"routing": "schema_version: 1\nglobal_default: [acme:cheap, acme:big]\n"},
    "models": {"models": MODELS.replace("acme:big: {", f"acme:big: {{{_SMALL}, ")},
}


def noise(draw: random.Random) -> dict[str, Any]:
    """Draw facts that matter to no policy here."""
    return {
        "local_minutes": draw.randrange(1440),
        "cost_today_microusd": draw.randrange(10**6),
        "availability": {"acme:odd": draw.choice(["healthy", "degraded", "unavailable"])},
    }


def plant(seed: int, folder: Path) -> tuple[str, bool, int, int]:
    """Live a life with one cause in it; return its name, whether it is found, turns and steps."""
    draw = random.Random(seed)
    life = Life(folder / "home")
    name = draw.choice([*_FACTS, *_FILES])
    try:
        for _ in range(draw.randrange(1, 4)):
            life.live(draw.randrange(4, 20), tokens=5, max_output_tokens=20, **noise(draw))
        life.change(COMMITS + f"tiers: {{deep: acme:{draw.choice(['big', 'cheap'])}}}\n")
        before = life.live(draw.randrange(2, 20), tokens=5, max_output_tokens=20, **noise(draw))
        facts = _FACTS.get(name, {})
        if name in _FILES:
            life.change(**_FILES[name])
        for _ in range(draw.randrange(1, 4)):
            told = {"tokens": 5, "max_output_tokens": 20, **noise(draw)}
            if name == "health":
                told["availability"] = {**told["availability"], **facts["availability"]}
            life.live(draw.randrange(2, 20), **told | {k: v for k, v in facts.items()
                                                       if k != "availability"})  # fmt: skip
        found = life.bisect()
        parts = [cause.part for cause in found.causes]
        fields = [field for cause in found.causes for field in cause.fields]
        right = fields == [name] if name in _FILES else parts == [name]
        is_found = right and found.last_before in before
        limit = found.turns.bit_length() + 2 * 2**5
        return name, is_found and found.steps <= limit, found.turns, found.steps
    finally:
        life.pointsman.close()


def main() -> None:
    """Plant so many causes, and write how many were found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planted", type=int, default=PLANTED)
    planted = parser.parse_args().planted
    kinds, missed, steps, turns = Counter[str](), [], [], []
    for seed in range(planted):
        with tempfile.TemporaryDirectory() as folder:
            name, is_found, count, made = plant(seed, Path(folder))
        kinds[name] += 1
        steps.append(made)
        turns.append(count)
        if not is_found:
            missed.append([seed, name])
    found = planted - len(missed)
    write(
        "bisect",
        {
            "planted": planted,
            "found": found,
            "missed": missed,
            "kinds": dict(sorted(kinds.items())),
            "most_turns": max(turns),
            "most_steps": max(steps),
        },
    )
    print(f"{found} of {planted} planted causes found")
    sys.exit(0 if found == planted else 1)


if __name__ == "__main__":
    main()
