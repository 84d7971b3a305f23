"""Many turns in one session: `python -m campaigns.chat [turns] [turns of the app]`.

First the conversation alone, then the terminal app, where every turn is typed and drawn too. A
scripted provider answers in a process of its own. Writes `evidence/chat.json` and
`evidence/chat.svg` with the memory and the processor time of each turn. Fails when the last turns
do more than early ones, or when more stays in memory than what was said. The time of a turn
holds everything, also what sending a longer history must cost.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import pstats
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

import apsw
import msgspec
from campaigns.evidence import FOLDER, write
from campaigns.scripted_process import serve_script
from tests.acceptance.parlour import Bench, a_parlour, models
from tests.tui.booth import a_booth

from pointsman.conversations.conversations import Conversation
from pointsman.conversations.services import Kit
from pointsman.sessions.update import TurnOver
from pointsman.storage.sqlite.database import be_frugal

Say = Callable[[str], Awaitable[str]]
"""Takes a turn, and says how it ended where it did not end well."""

STEP = 20
EARLY = (200, 400)
LATE = 200
MOST_GROWTH_MIB = 8.0
"""Beyond what was said itself: caches that fill up to their bounds, a heap that is not packed."""
MOST_SLOWER = 1.15
ANSWER = "A **point** moves a train from one track to another.\n\n- blades\n- crossing\n"


class Step(msgspec.Struct, array_like=True):
    """The turns so far, memory, processor time of a turn, what was said, pages of databases.

    `calls` are those of Python functions in one turn: they tell the work of a turn also where
    others keep the processor busy.
    """

    turns: int
    rss_mib: float
    processor_ms: float
    history_mib: float
    pages_mib: float
    calls: int


def rss_mib() -> float:
    """The memory this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 2**20, 2)


async def series(conversation: Conversation, turns: int, say: Say) -> list[Step]:
    """Take turns; give after each step how things stand."""
    found: list[Step] = []
    said = 0
    for begun in range(0, turns, STEP):
        count, started = min(STEP, turns - begun), time.process_time()
        for number in range(begun, begun + count - 1):
            await _say_turn(number, say)
        spent = (time.process_time() - started) * 1000 / max(1, count - 1)
        calls = await _calls_of(_say_turn(begun + count - 1, say))
        added = conversation.history[2 * begun :]
        said += sum(len(msgspec.json.encode(each)) for each in added)
        gc.collect()
        pages = apsw.memory_used() / 2**20
        found.append(
            Step(
                begun + count,
                rss_mib(),
                *(round(each, 2) for each in (spent, said / 2**20, pages)),
                calls,
            )
        )
        print(*msgspec.to_builtins(found[-1]), flush=True)
    return found


async def _say_turn(number: int, say: Say) -> None:
    ended = await say(f"{number}: what does part {number * 7919 % 10007} do?")
    if ended:
        raise RuntimeError(f"turn {number} ended as {ended}")


async def _calls_of(turn: Awaitable[None]) -> int:
    profile = cProfile.Profile()
    profile.enable()
    try:
        await turn
    finally:
        profile.disable()
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined, no-any-return] # it has it


def result(found: list[Step]) -> dict[str, Any]:
    """Compare the last turns with early ones."""
    last = found[-1].turns
    early = [each for each in found if EARLY[0] < each.turns <= EARLY[1]] or found[:1]
    late = [each for each in found if each.turns > last - LATE]
    processor = [round(median(each.processor_ms for each in part), 2) for part in (early, late)]
    calls = [median(each.calls for each in part) for part in (early, late)]
    before, after = calls
    grown = found[-1].rss_mib - early[-1].rss_mib
    said = found[-1].history_mib - early[-1].history_mib
    return {
        "turns": last,
        "processor_ms": processor,
        "calls": calls,
        "times": round(after / before, 3),
        "grown_mib": round(grown, 2),
        "said_mib": round(said, 2),
        "holds": after <= before * MOST_SLOWER and grown - said <= MOST_GROWTH_MIB,
    }


def draw(parts: dict[str, list[Step]], path: Path) -> None:
    """Plot the curves."""
    import matplotlib as mpl  # noqa: PLC0415 - only the picture needs it

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(8, 5))
    for name, found in parts.items():
        turns = [each.turns for each in found]
        above.plot(turns, [each.rss_mib for each in found], label=name)
        below.plot(turns, [each.processor_ms for each in found], label=name)
    longest = max(parts.values(), key=len)
    said = [each.history_mib for each in longest]
    above.plot([each.turns for each in longest], said, label="what was said")
    above.legend(loc="center right")
    above.set(ylabel="memory, MiB", title="One session", ylim=(0, None))
    below.legend(loc="center right")
    below.set(ylabel="processor, ms a turn", xlabel="turns", ylim=(0, None))
    figure.tight_layout()
    figure.savefig(path)


async def conversation_alone(turns: int) -> list[Step]:
    """Talk for so many turns without a screen."""
    with tempfile.TemporaryDirectory() as folder, serve_script(turns, ANSWER) as address:
        async with a_parlour(Path(folder) / "h", models=models(address, address)) as parlour:
            conversation = await parlour.conversations.start(kit=Kit(Bench()))

            async def say(text: str) -> str:
                last = [each async for each in conversation.send(text)][-1]
                is_done = isinstance(last, TurnOver) and last.status == "completed"
                return "" if is_done else str(last)

            return await series(conversation, turns, say)


async def app(turns: int) -> list[Step]:
    """Talk for so many turns in the terminal app."""
    with tempfile.TemporaryDirectory() as folder, serve_script(turns, ANSWER) as address:
        files = {"models": models(address, address)}
        async with a_booth(Path(folder) / "h", files=files) as booth:

            async def say(text: str) -> str:
                return (await booth.says(text)).route_line.state

            return await series(booth.conversation, turns, say)


def write_findings(parts: dict[str, list[Step]], seconds: int) -> bool:
    """Write the findings; return whether the bounds hold."""
    told = {
        name: {**result(found), "series": msgspec.to_builtins(found)}
        for name, found in parts.items()
    }
    holds = all(each["holds"] for each in told.values())
    draw(parts, FOLDER / "chat.svg")
    what = (
        "one session: turns, resident MiB, processor ms a turn, MiB of what was said,"
        " MiB of database pages, calls of functions in a turn"
    )
    write("chat", {"what": what, "holds": holds, "seconds": seconds, **told})
    for name, each in told.items():
        print(name, *(f"{key}: {value}" for key, value in each.items() if key != "series"))
    return holds


def main() -> int:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    drawn = int(sys.argv[2]) if len(sys.argv) > 2 else turns
    begun = time.monotonic()
    be_frugal()
    parts = {"conversation": asyncio.run(conversation_alone(turns))}
    if drawn:
        parts["app"] = asyncio.run(app(drawn))
    return 0 if write_findings(parts, round(time.monotonic() - begun)) else 1


if __name__ == "__main__":
    sys.exit(main())
