"""Writers that are killed without warning, and the parent that kills them and counts.

A nursery process imports the product once and forks a writer for every start, so that a start costs
what the ledger costs. A writer says `ack` only after it holds the receipt.
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import apsw

from pointsman.kernel.checkpoint import Checkpoint
from pointsman.kernel.entry import Chain, Draft, Entry, Head
from pointsman.kernel.instant import Instant
from pointsman.kernel.verification import Pass
from pointsman.storage.home import Home, open_home
from pointsman.storage.sqlite.ledger import WritePlace
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.checkpoints import CheckpointFolder
from pointsman.storage.writer.lease import Lease
from pointsman.storage.writer.ledger import LedgerWriter

CHAIN = "cli"
WRITERS = 8
ROOT = Path(__file__).parents[2]
OPENING = Draft("ledger.opened", "opening", "", Instant(1), b"{}")


def ledger_of(home: Home, name: str) -> LedgerWriter:
    """Open a home's ledger for writing one chain; the caller holds the lease."""
    place = WritePlace(home.database, home.checkpoints)
    return LedgerWriter(place, Chain(home.identity.ledger, name), home.signing_key(), OPENING)


def say(*words: object) -> None:
    """Write one line in one piece: lines this short are never torn in a pipe."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def write_until_killed(path: Path) -> None:
    """Append from several threads, saying what was acknowledged."""
    begun = time.monotonic()
    home = open_home(path)
    lease = Lease(home.leases, CHAIN)
    writer = ledger_of(home, lease.chain)
    say("open", time.monotonic() - begun)
    threads = [
        threading.Thread(target=_append_for_ever, args=(writer, number))
        for number in range(WRITERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _append_for_ever(writer: LedgerWriter, number: int) -> None:
    count = 0
    while True:
        name = f"{os.getpid()}-{number}-{count}"
        attachments = (name.encode() * 20,) if count % 4 == 0 else ()
        draft = Draft("decision", name, "", Instant(count), name.encode() * 5, attachments)
        entry = writer.append(draft).result().entry
        say("ack", entry.seq, entry.id, entry.hash.hex())
        count += 1


def nursery(path: Path) -> None:
    """Fork a writer for every line that is read, and say when it is dead."""
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _run_child(path)
        say("pid", pid)
        os.waitpid(pid, 0)
        say("dead")


def _run_child(path: Path) -> None:
    try:
        write_until_killed(path)
    except BaseException as error:  # noqa: BLE001 - a child's outermost edge: the parent is told
        say("failed", repr(error))
    finally:
        os._exit(1)


class Acknowledged(NamedTuple):
    """What a writer said about one entry."""

    seq: int
    id: str
    hash: str


@dataclass
class Tally:
    """What was found after all kills."""

    kills: int = 0
    acknowledged: int = 0
    lost: int = 0
    broken: list[str] = field(default_factory=list)
    failed_starts: list[str] = field(default_factory=list)
    starts: int = 0
    slowest_start_s: float = 0.0
    entries: int = 0


class Killer:
    """Starts writers in one home, kills them and checks what they left."""

    def __init__(self, path: Path, seed: int) -> None:
        self.tally = Tally()
        self._path = path
        self._chance = random.Random(seed)
        self._acknowledged: list[Acknowledged] = []
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(path)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        self._buffer = b""
        self._signed: Checkpoint | None = None

    def __enter__(self) -> Killer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._nursery.stdin
        assert self._nursery.stdout
        self._nursery.stdin.close()
        self._nursery.wait()
        self._nursery.stdout.close()

    def kill_one(self) -> None:
        """Start a writer, kill it after a while, and check."""
        before = len(self._acknowledged)
        assert self._nursery.stdin
        self._nursery.stdin.write(b"start\n")
        pid = None
        while pid is None:
            pid = self._heard(None)
        self._listen_for(self._delay())
        os.kill(pid, signal.SIGKILL)
        while self._heard(None) != -1:
            pass
        self.tally.kills += 1
        self._check(self._acknowledged[before:], self._start())

    def check_all(self) -> None:
        """Check everything ever acknowledged, and the whole chain."""
        self._check(self._acknowledged, None)

    def _delay(self) -> float:
        # Every third dies early: while it makes the home, opens, verifies or signs the tail.
        chance = self._chance
        return chance.uniform(0, 0.03) if chance.random() < 1 / 3 else chance.uniform(0.005, 0.3)

    def _listen_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._heard(left)

    def _heard(self, timeout: float | None) -> int | None:
        """Take one line in; give a writer's pid when it was born and -1 when it is dead."""
        line = self._line(timeout)
        word, *rest = line.split(" ")
        if word == "ack":
            self._acknowledged.append(Acknowledged(int(rest[0]), rest[1], rest[2]))
        elif word == "open":
            self.tally.starts += 1
            self.tally.slowest_start_s = max(self.tally.slowest_start_s, float(rest[0]))
        elif word == "failed":
            self.tally.failed_starts.append(line)
        return int(rest[0]) if word == "pid" else -1 if word == "dead" else None

    def _line(self, timeout: float | None) -> str:
        assert self._nursery.stdout
        while b"\n" not in self._buffer:
            if not select.select([self._nursery.stdout], [], [], timeout)[0]:
                return ""
            data = self._nursery.stdout.read(65536)
            if not data:
                raise EOFError("the nursery died")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def _start(self) -> tuple[Head, Checkpoint] | None:
        signed = self._signed
        return (Head(signed.size, signed.head, signed.at), signed) if signed else None

    def _check(self, said: list[Acknowledged], start: tuple[Head, Checkpoint] | None) -> None:
        tally = self.tally
        tally.acknowledged = len(self._acknowledged)
        if not (self._path / "identity.json").exists():
            tally.lost += len(said)
            return
        home = open_home(self._path)
        folder = CheckpointFolder(home.checkpoints, Chain(home.identity.ledger, CHAIN))
        checkpoints = folder.all(home.keys)
        entries = _stored(home, start[0].size if start else 0)
        known = {entry.seq: entry for entry in entries}
        tally.lost += sum(
            each.seq not in known or known[each.seq].hash.hex() != each.hash for each in said
        )
        begin = (start[0], start[1].frontier) if start else None
        report = Pass(folder.chain, checkpoints, start=begin).run(entries)
        tally.entries = report.entries
        if report.fault is not None:
            tally.broken.append(str(report.fault))
        self._signed = checkpoints[-1] if checkpoints else None


def _stored(home: Home, first: int) -> list[Entry]:
    if not home.database.exists():
        return []
    reader = LedgerReader(home.database)
    try:
        number = reader.chains().get(CHAIN)
        return [] if number is None else list(reader.chain_entries(number, first))
    except (apsw.SQLError, apsw.ReadOnlyError):
        return []  # killed before the tables were made, or while the file was made a database
    finally:
        reader.close()


if __name__ == "__main__":
    nursery(Path(sys.argv[1]))
