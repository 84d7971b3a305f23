"""Canonical bytes against rfc8785 on many generated values, by a generator of our own.

Every character class that changes order or escaping is drawn often: controls, quotes, surrogate
pairs, the private range above them, combining marks.
"""

from __future__ import annotations

import argparse
import random
import time

import rfc8785
from campaigns.evidence import write

from pointsman.kernel.canonical import MAX_INT, canonical_json
from pointsman.kernel.document import Json

CLASSES = [
    (0x00, 0x1F),
    (0x20, 0x7E),
    (0x7F, 0xFF),
    (0x300, 0x36F),
    (0xE000, 0xFFFF),
    (0x10000, 0x10FFFF),
]
CORNERS = [0, 1, -1, MAX_INT, -MAX_INT, 10**15, 2**32]


def text(draw: random.Random, most: int) -> str:
    chars = []
    for _ in range(draw.randrange(most)):
        low, high = draw.choice(CLASSES)
        chars.append(chr(draw.randint(low, high)))
    made = "".join(chars)
    return made if made[:2] not in {"d:", "s:"} else "x" + made


def value(draw: random.Random, depth: int) -> Json:
    kind = draw.randrange(8 if depth else 5)
    if kind == 0:
        return draw.choice([None, True, False])
    if kind == 1:
        return draw.choice(CORNERS)
    if kind == 2:
        return draw.randint(-MAX_INT, MAX_INT)
    if kind in {3, 4}:
        return text(draw, 12)
    if kind == 5:
        return [value(draw, depth - 1) for _ in range(draw.randrange(6))]
    return {text(draw, 6): value(draw, depth - 1) for _ in range(draw.randrange(7))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=20261115)
    given = parser.parse_args()
    draw = random.Random(given.seed)
    start = time.perf_counter()
    different = resorted = 0
    for _ in range(given.values):
        made = value(draw, 4)
        ours = canonical_json(made)
        different += ours != rfc8785.dumps(made)
        resorted += b"\xf0" in ours or b"\xf4" in ours
    found = {
        "values": given.values,
        "seed": given.seed,
        "different": different,
        "with_characters_past_the_basic_plane": resorted,
        "seconds": round(time.perf_counter() - start, 1),
    }
    print(found, write("canonical", found))
    raise SystemExit(1 if different else 0)


if __name__ == "__main__":
    main()
