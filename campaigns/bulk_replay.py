"""A million recorded decisions on PostgreSQL, replayed by two workers, byte for byte.

At 10,000, 100,000 and 1,000,000 decisions: what recording and replaying cost a decision, and how
the database grew. Writes `evidence/bulk_replay.json` and a plot; fails when a decision comes out
differently, when the ledger is not whole, or when a decision costs more the more there are.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from campaigns.evidence import FOLDER, write

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.models.many_turns import record_turns, write_policy
from tests.servers import PostgresServer

from pointsman.app import Pointsman
from pointsman.bulk.jobs import BulkJobs, has_queue
from pointsman.bulk.reruns import ReplayGiven
from pointsman.bulk.verifying import VerifyGiven
from pointsman.storage.stores.bulk import BulkJob

WORKERS = 2
MOST_GROWTH = 1.25
"""A decision may cost so much more among all of them than among the fewest."""
TICKS = os.sysconf("SC_CLK_TCK")
DURABLE = ("fsync=on", "full_page_writes=on", "autovacuum=on", "shared_buffers=128MB")

Seconds = Callable[[], float]
Found = dict[str, object]


def server_seconds(server: PostgresServer | None) -> float:
    """Return the processor time of a server and of all its sessions, those that ended too."""
    if server is None or server._process is None:
        return 0.0
    main, total = server._process.pid, 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(path.parent.name) == main:
            total += sum(map(int, fields[11:15]))
        elif int(fields[1]) == main:
            total += sum(map(int, fields[11:13]))
    return total / TICKS


def own_seconds() -> float:
    """Return the processor time of this process and of those it ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


class Cost:
    """What some work took: in here, in the server, and by the clock on the wall."""

    def __init__(self, server: PostgresServer | None) -> None:
        self._server = server
        self._before = self._now()

    def _now(self) -> tuple[float, float, float]:
        return own_seconds(), server_seconds(self._server), time.monotonic()

    def of(self, count: int) -> Found:
        """Divide the cost since the start by a count."""
        own, there, wall = (
            after - before for after, before in zip(self._now(), self._before, strict=True)
        )
        return {
            "cpu_us_a_decision": round(own / count * 1e6, 1),
            "server_cpu_us_a_decision": round(there / count * 1e6, 1),
            "wall_s": round(wall, 1),
            "decisions_a_second_of_cpu": round(count / (own + there)),
        }


def do_job(pointsman: Pointsman, jobs: BulkJobs, name: str) -> BulkJob:
    """Have a job done as its store does it: by workers of the queue, or by a pool."""
    if not has_queue(pointsman.home):
        return jobs.run(name, WORKERS)
    from pointsman.bulk.queue import BulkQueue  # noqa: PLC0415 - needs PostgreSQL's driver

    queue = BulkQueue(pointsman.home, jobs)
    queue.hand_out(name)
    asyncio.run(queue.work(WORKERS, wait=False))
    return jobs.store.job(name)


def at(pointsman: Pointsman, count: int, before: int, server: PostgresServer | None) -> Found:
    """Record decisions up to a count, replay all there are, and tell what both took."""
    cost = Cost(server)
    for _ in record_turns(pointsman, before, count):
        pass
    recording = cost.of(count - before)
    with closing(BulkJobs(pointsman.home, pointsman.clock, pointsman.ids)) as jobs:
        cost = Cost(server)
        replayed = do_job(pointsman, jobs, jobs.begin("replay", ReplayGiven()).id)
        replaying = cost.of(count)
    found = pointsman.home.database.size(), pointsman.home.content.size()
    return {
        "decisions": count,
        "recording": recording,
        "replaying": {**replaying, "ranges": replayed.ranges, "told": replayed.told},
        "is_identical": bool(replayed.is_clean)
        and replayed.told.startswith(f"{count} of {count} "),
        "ledger_bytes": found[0],
        "content_bytes": found[1],
        "bytes_a_decision": round(sum(found) / count),
    }


def verify_ledger(pointsman: Pointsman, server: PostgresServer | None, count: int) -> Found:
    """Verify the whole ledger with workers."""
    with closing(BulkJobs(pointsman.home, pointsman.clock, pointsman.ids)) as jobs:
        cost = Cost(server)
        found = do_job(pointsman, jobs, jobs.begin("verify", VerifyGiven()).id)
    return {"is_intact": bool(found.is_clean), "told": found.told, **cost.of(count)}


def run_campaign(home: Path, url: str, counts: list[int], server: PostgresServer | None) -> Found:
    """Run the whole campaign in a home."""
    write_policy(home)
    steps: list[Found] = []
    for before, count in zip([0, *counts], counts, strict=False):
        with _open_home(home, url) as pointsman:
            steps.append(at(pointsman, count, before, server))
            print(steps[-1], flush=True)
    with _open_home(home, url) as pointsman:
        whole = verify_ledger(pointsman, server, counts[-1])
    return {"workers": WORKERS, "steps": steps, "verify": whole}


@contextmanager
def _open_home(home: Path, url: str) -> Iterator[Pointsman]:
    before = os.environ.get("POINTSMAN_STORE")
    os.environ["POINTSMAN_STORE"] = url
    try:
        with Pointsman(home, writer="campaign") as pointsman:
            yield pointsman
    finally:
        del os.environ["POINTSMAN_STORE"]
        if before is not None:
            os.environ["POINTSMAN_STORE"] = before


def growth(steps: list[Found], what: str) -> float:
    """Return how much more a further decision costs between the last steps than between the first.

    Differences, so that what starting the workers takes counts for nothing.
    """
    counts = [int(str(each["decisions"])) for each in steps]
    spent = [_cost(each, what) * count for each, count in zip(steps, counts, strict=True)]
    if len(steps) < 3:
        return 1.0
    if what == "recording":
        return round(_cost(steps[-1], what) / _cost(steps[0], what), 3)
    further = [
        (spent[place] - spent[place - 1]) / (counts[place] - counts[place - 1])
        for place in (1, len(steps) - 1)
    ]
    return round(further[1] / further[0], 3)


def _cost(step: Found, what: str) -> float:
    costs = step[what]
    assert isinstance(costs, dict)
    return float(costs["cpu_us_a_decision"]) + float(costs["server_cpu_us_a_decision"])


def picture(found: Found, target: Path) -> None:
    """Draw what a decision costs, and how the database grows."""
    import matplotlib as mpl  # noqa: PLC0415 - only the picture needs it

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "pointsman"
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice above

    steps = found["steps"]
    counts = [each["decisions"] for each in steps]  # type: ignore[union-attr,attr-defined]
    figure, (cost, size) = plt.subplots(1, 2, figsize=(10, 4))
    for what in ("recording", "replaying"):
        for which, style in (("cpu_us_a_decision", "o-"), ("server_cpu_us_a_decision", "s--")):
            label = f"{what}, {'here' if which[0] == 'c' else 'in PostgreSQL'}"
            cost.plot(counts, [each[what][which] for each in steps], style, label=label)  # type: ignore[union-attr,attr-defined]
    cost.set(
        xscale="log", xlabel="decisions", ylabel="processor time a decision, µs", ylim=(0, None)
    )
    cost.legend()
    sizes = [(each["ledger_bytes"] + each["content_bytes"]) / 1e6 for each in steps]  # type: ignore[union-attr,attr-defined]
    size.plot(counts, sizes, "o-")
    size.set(xscale="log", yscale="log", xlabel="decisions", ylabel="database, MB")
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument("--sqlite", action="store_true", help="on SQLite and the pool instead")
    given = parser.parse_args()
    counts = [each for each in (10_000, 100_000, 1_000_000) if each < given.decisions]
    counts.append(given.decisions)
    server = None if given.sqlite else PostgresServer(*DURABLE)
    folder = Path(tempfile.mkdtemp(prefix="pointsman-bulk-"))
    try:
        url = "sqlite:" if server is None else server.fresh()
        found = run_campaign(folder / "home", url, counts, server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if server is not None:
            server.close()
    steps: list[Found] = found["steps"]  # type: ignore[assignment]
    found = {
        "store": "sqlite" if given.sqlite else "postgresql",
        **found,
        "replaying_growth": growth(steps, "replaying"),
        "recording_growth": growth(steps, "recording"),
        "most_growth": MOST_GROWTH,
    }
    name = "bulk_replay_sqlite" if given.sqlite else "bulk_replay"
    print(write(name, found))
    picture(found, FOLDER / f"{name}.svg")
    whole = found["verify"]
    is_well = all(each["is_identical"] for each in steps) and whole["is_intact"]  # type: ignore[index]
    sys.exit(0 if is_well and found["replaying_growth"] <= MOST_GROWTH else 1)  # type: ignore[operator]


if __name__ == "__main__":
    main()
