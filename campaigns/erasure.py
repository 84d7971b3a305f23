"""Erased texts leave no byte in any file: thousands of them, of all sizes, among others that stay.

Texts are kept, erased and kept again in random order, so that pages are split, freed and used anew.
Writes `evidence/erasure.json`; fails where an erased text is found, or one that stays is not.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from campaigns.evidence import write

sys.path.insert(0, str(Path(__file__).parents[1]))

from pointsman.storage.stores.content import ContentStore

SIZES = (1, 2, 5, 20, 70, 200, 2_000)
KEY = bytes(32)


def run_round(seed: int, count: int) -> tuple[int, int, int]:
    """Keep and erase texts; return how many were erased, were found again, and were lost."""
    random_ = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "content.db"
        store = ContentStore(path, KEY, "full", str)
        kept: dict[str, str] = {}
        erased: list[str] = []
        for number in range(count):
            name = f"canary-{seed}-{number}-{random_.getrandbits(64):016x}"
            seal, done = store.keep(name * random_.choice(SIZES))
            kept[seal.digest] = name
            if number % 100 == 99:
                assert done is not None
                done.result()
                going = random_.sample(sorted(kept), random_.randrange(1, 60))
                assert store.erase(going) == len(going)
                erased += [kept.pop(each) for each in going]
        store.close()
        data = b"".join(each.read_bytes() for each in Path(folder).iterdir())
    found = sum(each.encode() in data for each in erased)
    lost = sum(each.encode() not in data for each in kept.values())
    return len(erased), found, lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--texts", type=int, default=1_000)
    given = parser.parse_args()
    start = time.perf_counter()
    tallies = [run_round(seed, given.texts) for seed in range(given.rounds)]
    erased, found, lost = (sum(each) for each in zip(*tallies, strict=True))
    result: dict[str, object] = {
        "rounds": given.rounds,
        "texts_kept": given.rounds * given.texts,
        "texts_erased": erased,
        "erased_but_found": found,
        "kept_but_lost": lost,
        "seconds": round(time.perf_counter() - start, 1),
    }
    write("erasure", result)
    print(result)
    sys.exit(1 if found or lost else 0)


if __name__ == "__main__":
    main()
