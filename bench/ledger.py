"""What the kernel's promises cost: canonical bytes, durable appends, verification, replay.

Everything is a ratio of two measurements in one run, with the conditions beside it; absolute
figures depend on the machine. Writes bench/results/ledger.json and a plot.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import platform
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import apsw
import matplotlib as mpl
import rfc8785
from figures import round_figures

from pointsman.audit.replay import replay_all
from pointsman.kernel.canonical import Form, canonical_json
from pointsman.kernel.entry import Chain, Draft, Entry
from pointsman.kernel.instant import Instant
from pointsman.kernel.signing import SigningKey
from pointsman.kernel.verification import Pass
from pointsman.storage.sqlite.ledger import WritePlace
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.checkpoints import CheckpointFolder
from pointsman.storage.writer.ledger import LedgerWriter, Receipt
from pointsman.testing import a_home, a_policy, some_facts
from pointsman.turns.decide import TRACE_FORM, decide

Clock = Callable[[], float]

RESULTS = Path(__file__).parent / "results"
KEY = SigningKey(b"k" * 32)
CHAIN = Chain("ab" * 16, "bench")
OPENING = Draft("chain.opened", "x", "", Instant(1), b"{}")
SLOW_DISK_MS = 4.0


def best(
    work: Callable[[], object], count: int, rounds: int = 5, clock: Clock = time.perf_counter
) -> float:
    """Return the seconds one call takes, in the best of several rounds."""
    times = []
    for _ in range(rounds):
        start = clock()
        for _ in range(count):
            work()
        times.append((clock() - start) / count)
    return min(times)


NUMBERS = itertools.count()


def draft(payload: int = 500) -> Draft:
    """Make an entry as they come: ids and instants that grow."""
    number = next(NUMBERS)
    body = b"x" * payload
    return Draft(
        "decision.turn", f"d{number:09d}", f"t{number:09d}", Instant(number), body, (b"f" * 200,)
    )


def canonical() -> dict[str, float]:
    """Our canonical bytes and hash against rfc8785 without a hash, on one decision's trace."""
    _, trace = decide(a_policy(), some_facts())
    plain = json.loads(TRACE_FORM.encode(trace))
    size = len(TRACE_FORM.encode(trace))
    form = Form(type(trace))
    ours = best(lambda: hashlib.sha256(form.encode(trace)).digest(), 5_000)
    checked = best(lambda: hashlib.sha256(canonical_json(plain)).digest(), 1_000)
    theirs = best(lambda: rfc8785.dumps(plain), 200)
    return {
        "bytes": size,
        "record_us": ours * 1e6,
        "user_value_us": checked * 1e6,
        "rfc8785_us": theirs * 1e6,
        "record_times_rfc8785": theirs / ours,
        "user_value_times_rfc8785": theirs / checked,
    }


def sync_ms(folder: Path) -> float:
    """Return the middle time of a synced 4 KiB write, as the disk is now."""
    times = []
    with (folder / "sync").open("wb") as file:
        for _ in range(200):
            file.write(b"x" * 4096)
            file.flush()
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


class SlowFile(apsw.VFSFile):
    """A file whose syncs take as long as on a slower disk."""

    def xSync(self, flags: int) -> None:  # noqa: N802 - apsw's name
        time.sleep(SLOW_DISK_MS / 1000)
        super().xSync(flags)


class SlowDisk(apsw.VFS):
    """The machine's disk with slow syncs."""

    def __init__(self) -> None:
        super().__init__("slow", base="")

    def xOpen(self, name: object, flags: list[int]) -> SlowFile:  # noqa: N802 - apsw's name
        return SlowFile("", name, flags)


def writer(folder: Path, vfs: str | None) -> LedgerWriter:
    return LedgerWriter(
        WritePlace(folder / "ledger.db", folder / "checkpoints", vfs), CHAIN, KEY, OPENING
    )


def alone(ledger: LedgerWriter, count: int) -> float:
    """One caller that waits for each entry: one commit an entry. Entries a second."""
    start = time.perf_counter()
    for _ in range(count):
        ledger.append(draft()).result()
    return count / (time.perf_counter() - start)


def in_flight(ledger: LedgerWriter, writers: int, each: int) -> float:
    """Many callers of an event loop, each handing in its next entry when one is durable."""
    left = threading.Semaphore(0)
    counts = [each] * writers

    def hand_in(who: int) -> None:
        counts[who] -= 1
        ledger.append(draft()).add_done_callback(lambda done: again(who, done))

    def again(who: int, done: Future[Receipt]) -> None:
        done.result()
        if counts[who]:
            hand_in(who)
        else:
            left.release()

    start = time.perf_counter()
    for who in range(writers):
        hand_in(who)
    for _ in range(writers):
        left.acquire()
    return writers * each / (time.perf_counter() - start)


def threads(ledger: LedgerWriter, writers: int, each: int) -> float:
    """Many blocking threads."""

    def work() -> None:
        for _ in range(each):
            ledger.append(draft()).result()

    running = [threading.Thread(target=work) for _ in range(writers)]
    start = time.perf_counter()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return writers * each / (time.perf_counter() - start)


def appends(vfs: str | None, single: int) -> dict[str, float]:
    """Durable appends: one commit an entry against 64 writers at once, alternating, medians."""
    folder = Path(tempfile.mkdtemp(prefix="pointsman-bench-", dir=RESULTS))
    ledger = writer(folder, vfs)
    try:
        rounds = [
            (alone(ledger, single), in_flight(ledger, 64, 100), threads(ledger, 64, 30))
            for _ in range(3)
        ]
    finally:
        ledger.close()
        shutil.rmtree(folder)
    one, flying, blocking = (statistics.median(column) for column in zip(*rounds, strict=True))
    return {
        "one_commit_an_entry_per_s": one,
        "in_flight_64_per_s": flying,
        "threads_64_per_s": blocking,
        "in_flight_times_single": flying / one,
        "threads_times_single": blocking / one,
    }


def verification(entries: int = 40_000) -> dict[str, float]:
    """The pass over a chain on disk, at 500 bytes an entry, with checkpoints, one core."""
    folder = Path(tempfile.mkdtemp(prefix="pointsman-bench-", dir=RESULTS))
    try:
        ledger = writer(folder, None)
        in_flight(ledger, 64, entries // 64)
        ledger.close()
        reader = LedgerReader(folder / "ledger.db")
        kept = CheckpointFolder(folder / "checkpoints", CHAIN)

        def check() -> int:
            report = Pass(CHAIN, kept.all([KEY]), kept.leaves()).run(reader.chain_entries(1))
            assert report.fault is None
            return report.entries

        count = check()
        # A rate "a core" is a rate of processor time: what else runs must not count.
        seconds = best(check, 1, clock=time.process_time)
        reader.close()
        return {"entries": count, "entries_per_s_a_core": count / seconds}
    finally:
        shutil.rmtree(folder)


def replays(decisions: int = 12_000) -> dict[str, float]:
    """Replay of trivial decisions from disk: entry, facts and policy read and checked."""
    folder = Path(tempfile.mkdtemp(prefix="pointsman-bench-", dir=RESULTS))
    try:
        with a_home(folder / "home") as pointsman:
            recorder = pointsman._recording()
            futures = []
            append = recorder.append
            recorder.append = lambda each: futures.append(append(each)) or _Now()  # type: ignore[method-assign]
            for number in range(decisions):
                pointsman.route(some_facts(f"message {number}"))
            for future in futures:
                future.result()
        home = pointsman.home
        assert replay_all(home).identical == decisions
        one = best(lambda: replay_all(home), 1, clock=time.process_time)
        two = best(lambda: replay_all(home, workers=2), 1, rounds=2)
        return {
            "decisions": decisions,
            "per_s_a_core": decisions / one,
            "per_s_two_processes_with_their_start": decisions / two,
        }
    finally:
        shutil.rmtree(folder)


class _Now:
    """Stands for a receipt that the bench does not wait for."""

    def result(self) -> Receipt:
        return Receipt("cli", Entry(0, Instant(0), "", "", "", b"", b"", b"", b""))


def conditions() -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "sync_ms": sync_ms(RESULTS),
        "note": "ratios of measurements in one run; shared, noisy cores",
    }


def plot(results: dict[str, dict[str, float]], target: Path) -> None:
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "pointsman"
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend was chosen

    figure, axis = plt.subplots(figsize=(7, 3.2))
    names = [
        "canonical bytes and hash\nagainst rfc8785",
        "64 writers, this disk\nagainst one commit each",
        f"64 writers, {SLOW_DISK_MS:.0f} ms syncs\nagainst one commit each",
    ]
    values = [
        results["canonical"]["record_times_rfc8785"],
        results["appends"]["in_flight_times_single"],
        results["appends_slow_disk"]["in_flight_times_single"],
    ]
    axis.barh(names[::-1], values[::-1], color="#3b6ea5")
    axis.set_xlabel("times as many a second, in one run")
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    disk = SlowDisk()
    results: dict[str, dict[str, float]] = {
        "canonical": canonical(),
        "appends": appends(None, 300),
        "appends_slow_disk": appends("slow", 60),
        "verification": verification(),
        "replay": replays(),
    }
    written = {"conditions": conditions(), **results}
    (RESULTS / "sync").unlink(missing_ok=True)
    (RESULTS / "ledger.json").write_text(json.dumps(round_figures(written), indent=2) + "\n")
    disk.unregister()
    plot(results, RESULTS / "ledger.svg")
    print(json.dumps(round_figures(written), indent=2))


if __name__ == "__main__":
    main()
