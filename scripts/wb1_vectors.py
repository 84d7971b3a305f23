"""Write docs/reference/wb1-vectors.json: run once, when the method was made.

The file is the contract. It is kept, not written anew: a method that gives other answers is another
method.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from pointsman.kernel.wb1 import METHOD, Salted, ends, pick_weight, unit_bytes

TARGET = Path(__file__).resolve().parent.parent / "docs/reference/wb1-vectors.json"
UNITS = ["", "a", "user-1", "1", 1, 0, -1, 2**53 - 1, -(2**53) + 1, True, False, "true", "ünïcode",
         "日本", "\U0001f642", "nul\0inside", "s:a", "i:1", "x" * 300]  # fmt: skip
SALTS = ["", "decision-ab-prompt-variant", "exp-1", "exp-2", "ab", "größe"]
WEIGHTS = [[70, 20, 10], [1], [0, 1], [1, 0, 1], [0, 0, 5], [2**31 - 1], [2**30, 2**30 - 1],
           [333, 333, 334], [1, 1, 1, 1, 1, 1, 1], [5, 0, 0, 95]]  # fmt: skip
REFUSED = [None, 1.5, -0.25, [], ["a"], {}, {"a": 1}]


def vector(salt: str, unit: str | int, weights: list[int]) -> dict[str, object]:
    placed = unit_bytes(unit)
    assert placed is not None
    bounds = ends(weights)
    slot = Salted(salt).slot(placed, bounds[-1])
    return {"salt": salt, "unit": unit, "weights": weights, "slot": slot,
            "case": pick_weight(slot, bounds)}  # fmt: skip


def main() -> None:
    if TARGET.exists():
        sys.exit(f"{TARGET.name} exists; the vectors of a method never change")
    draw = random.Random(20261115)
    every = [(salt, unit) for salt in SALTS for unit in UNITS]
    found = [vector(salt, unit, draw.choice(WEIGHTS)) for salt, unit in every]
    found += [
        vector(draw.choice(SALTS), f"id-{draw.randrange(10**6)}", draw.choice(WEIGHTS))
        for _ in range(400)
    ]
    lines = ",\n".join(json.dumps(each, ensure_ascii=True) for each in found)
    refused = json.dumps(REFUSED)
    TARGET.write_text(
        f'{{"method": "{METHOD}",\n"refused": {refused},\n"vectors": [\n{lines}\n]}}\n'
    )


if __name__ == "__main__":
    main()
