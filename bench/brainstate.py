"""How long a tick takes: a typical one, one that promotes, an empty one, and how it grows.

Times depend on the machine; the ratios to an empty tick of the same run do not. Processor time is
measured beside wall time, because the cores are shared. Writes bench/results/brainstate.json.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from decide import RESULTS, _rounded, times

from pointsman.brainstate.events import (
    NOTHING,
    Insertion,
    NewGoal,
    Referenced,
    TickInputs,
    TokensUsed,
)
from pointsman.brainstate.hints import routing_hints
from pointsman.brainstate.reading import StartingAttention, create_state
from pointsman.brainstate.state import BRAINSTATE_FORM, BrainState, ResourceBudget
from pointsman.brainstate.tick import insert_items, tick_state
from pointsman.brainstate.view import state_view
from pointsman.kernel.number import billionths

PROMISED_US = 40
COUNT = 10_000
ROUNDS = 25


def item(number: int) -> Insertion:
    return Insertion("fact", f'"what step {number} of the job found out about its question"', 50)


def state(items: int = 8, goals: int = 2) -> BrainState:
    """Return a state in the middle of a job."""
    wanted = [NewGoal(f"g{n}", "answer", priority=billionths("0.7")) for n in range(goals)]
    first, _ = create_state("seed-1", wanted, StartingAttention(), ResourceBudget(8192, 3), {})
    return insert_items(first, [item(n) for n in range(items)])


def typical() -> TickInputs:
    """A vote, a new item, tokens spent."""
    return TickInputs(council_approval=True, wm=(item(10_000),), events=(TokensUsed(120),))


def promoting(before: BrainState) -> TickInputs:
    """The same, and an item used for the second time."""
    used = Referenced(before.wm[3].wm_id)
    return TickInputs(council_approval=True, wm=(item(10_000),), events=(used, TokensUsed(120)))


def processor_us(call: Callable[[], object]) -> float:
    """Return the least processor time of one call over many rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(400):
            call()
        best = min(best, (time.process_time() - start) / 400)
    return best * 1e6


def measure_call(call: Callable[[], object]) -> dict[str, float]:
    return {**times(call, COUNT), "processor_us": processor_us(call)}


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    before = state()
    usual, promotes = typical(), promoting(before)
    ways: dict[str, Callable[[], object]] = {
        "empty": lambda: tick_state(before, NOTHING),
        "typical": lambda: tick_state(before, usual),
        "promoting": lambda: tick_state(before, promotes),
        "hints": lambda: routing_hints(before),
        "snapshot_id": lambda: BRAINSTATE_FORM.id(before),
        "shown": lambda: state_view(before),
    }
    found = {name: measure_call(call) for name, call in ways.items()}
    growth = {}
    for count in (1, 4, 16, 64, 256):
        larger = state(count)
        inputs = typical()
        growth[str(count)] = processor_us(
            lambda larger=larger, inputs=inputs: tick_state(larger, inputs)
        )
    result = {
        "conditions": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "items": len(before.wm),
            "goals": len(before.goals),
            "promised_us": PROMISED_US,
            "note": "shared, noisy cores; processor time is the least of many rounds",
        },
        "ways": found,
        "times_empty": {
            name: each["processor_us"] / found["empty"]["processor_us"]
            for name, each in found.items()
        },
        "processor_us_by_items": growth,
    }
    (RESULTS / "brainstate.json").write_text(json.dumps(_rounded(result), indent=2) + "\n")
    print(json.dumps(_rounded(result), indent=2))


if __name__ == "__main__":
    main()
