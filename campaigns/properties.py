"""The properties of the policy chain, 10,000 examples each, over both cores.

Writes `evidence/properties.json`; fails when one of them does not hold.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from pathlib import Path

from campaigns.evidence import write
from hypothesis import HealthCheck, given, settings

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.property import test_chain_properties as chain

PROCESSES = 2


def holds(name: str, examples: int) -> tuple[str, str]:
    """Run one property on many examples; the message is empty where it holds."""
    test = getattr(chain, name)
    many = settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    try:
        many(given(*chain.STRATEGIES[name])(test.hypothesis.inner_test))()
    except Exception as error:  # noqa: BLE001 - whatever breaks a property is what is looked for
        notes = getattr(error, "__notes__", [])
        return name, "\n".join([f"{type(error).__name__}: {error}", *notes])
    return name, ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=10_000)
    asked = parser.parse_args()
    start = time.perf_counter()
    with multiprocessing.Pool(PROCESSES) as pool:
        wanted = [(name, asked.examples) for name in chain.STRATEGIES]
        said = dict(pool.starmap(holds, wanted, chunksize=1))
    broken = {name: text for name, text in said.items() if text}
    found = {
        "examples_each": asked.examples,
        "properties": sorted(said),
        "broken": broken,
        "seconds": round(time.perf_counter() - start, 1),
    }
    print(found, write("properties", found))
    raise SystemExit(1 if broken else 0)


if __name__ == "__main__":
    main()
