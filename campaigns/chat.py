"""Many turns in one session of the terminal app: `python -m campaigns.chat [turns]`.

Every turn is typed, answered by a scripted provider on a real port, recorded and drawn. Writes
`evidence/chat.json` and `evidence/chat.svg` with the memory and the processor time of each turn;
fails when the last quarter stands higher than the second by more than what is told.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from campaigns.evidence import FOLDER, write
from tests.tui.booth import Booth, a_booth

STEP = 20
MOST_GROWTH_MIB = 24.0
MOST_SLOWER = 1.5
ANSWER = "A **point** moves a train from one track to another.\n\n- blades\n- crossing\n"


def rss_mib() -> float:
    """The memory this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 2**20, 1)


async def series(booth: Booth, turns: int) -> list[tuple[int, float, float]]:
    """Take turns; give after each step the memory and the processor time of a turn, in ms."""
    found = []
    for begun in range(0, turns, STEP):
        count, started = min(STEP, turns - begun), time.process_time()
        for number in range(begun, begun + count):
            view = await booth.says(f"{number}: what does part {number * 7919 % 10007} do?")
            if view.route_line.state:
                raise RuntimeError(f"turn {number} ended as {view.route_line}")
        spent = (time.process_time() - started) * 1000 / count
        # What the scripted provider remembers of its callers is not the app's.
        booth.anthropic.requests.clear()
        gc.collect()
        found.append((begun + count, rss_mib(), round(spent, 1)))
        print(*found[-1], flush=True)
    return found


def growth(found: list[tuple[int, float, float]], column: int) -> tuple[float, float]:
    """The median of the second quarter, and of the last."""
    last = found[-1][0]
    early = [each[column] for each in found if last * 0.25 <= each[0] < last * 0.5]
    late = [each[column] for each in found if each[0] >= last * 0.75]
    return median(early), median(late)


def draw(found: list[tuple[int, float, float]], path: Path) -> None:
    """Plot both curves."""
    import matplotlib as mpl  # noqa: PLC0415 - only the picture needs it

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(8, 5))
    turns = [each[0] for each in found]
    above.plot(turns, [each[1] for each in found])
    above.set(ylabel="memory, MiB", title="One session of the terminal app", ylim=(0, None))
    below.plot(turns, [each[2] for each in found])
    below.set(ylabel="processor, ms a turn", xlabel="turns", ylim=(0, None))
    figure.tight_layout()
    figure.savefig(path)


async def measured(turns: int) -> list[tuple[int, float, float]]:
    from pointsman.testing import says  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        async with a_booth(Path(folder) / "h", *[says(ANSWER)] * turns) as booth:
            return await series(booth, turns)


def main() -> int:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    begun = time.monotonic()
    found = asyncio.run(measured(turns))
    memory, work = growth(found, 1), growth(found, 2)
    holds = memory[1] - memory[0] <= MOST_GROWTH_MIB and work[1] <= work[0] * MOST_SLOWER
    draw(found, FOLDER / "chat.svg")
    write(
        "chat",
        {
            "what": "one session of the terminal app: turns, resident MiB, processor ms a turn",
            "turns": turns,
            "memory_mib": memory,
            "processor_ms": work,
            "holds": holds,
            "seconds": round(time.monotonic() - begun),
            "series": found,
        },
    )
    print(f"memory {memory[0]} -> {memory[1]} MiB, processor {work[0]} -> {work[1]} ms a turn")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
