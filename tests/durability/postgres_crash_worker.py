"""Writers on one PostgreSQL, killed as it is without warning, and the parent that counts.

A nursery process imports the product once and forks a writer for every start. A writer says `ack`
only after it holds the receipt, and asks for the next entry also when it was refused.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.servers import PostgresServer

from pointsman.audit.verify import verify_ledger
from pointsman.errors import LedgerError
from pointsman.kernel.entry import Chain, Draft
from pointsman.kernel.instant import Instant
from pointsman.storage.home import Home, open_home
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.ledger import LedgerWriter

WRITERS = 3
THREADS = 4
AGAIN_S = 60.0
REFUSED_PAUSE_S = 0.02
ROOT = Path(__file__).parents[2]
OPENING = Draft("ledger.opened", "opening", "", Instant(1), b"{}")


def say(*words: object) -> None:
    """Write one line in one piece: lines this short are never torn in a pipe."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def write_until_killed(path: Path, url: str) -> None:
    """Append from several threads, saying what was acknowledged and what refused."""
    home = open_home(path, store=url)
    leased, writer = _opened(home)
    say("open", os.getpid(), leased)
    threads = [
        threading.Thread(target=_append_for_ever, args=(writer, number))
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _opened(home: Home) -> tuple[str, LedgerWriter]:
    while True:
        try:
            leased = home.ledger("serve")
            chain = Chain(home.identity.ledger, leased.chain)
            return leased.chain, LedgerWriter(leased.place, chain, home.signing_key(), OPENING)
        except LedgerError as error:
            # The server may be down while a writer starts.
            if error.code != "ledger.unavailable":
                raise
            time.sleep(REFUSED_PAUSE_S)


def _append_for_ever(writer: LedgerWriter, number: int) -> None:
    count = 0
    while True:
        name = f"{os.getpid()}-{number}-{count}"
        count += 1
        attachments = (name.encode() * 20,) if count % 4 == 0 else ()
        draft = Draft("decision", name, "", Instant(count), name.encode() * 5, attachments)
        try:
            receipt = writer.append(draft).result()
        except LedgerError as error:
            say("refused", name, error.code)
            time.sleep(REFUSED_PAUSE_S)
        else:
            entry = receipt.entry
            say("ack", receipt.chain, entry.seq, entry.id, entry.hash.hex())


def nursery(path: Path, url: str) -> None:
    """Fork a writer for every line that is read."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries them
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _run_child(path, url)
        say("pid", pid)


def _run_child(path: Path, url: str) -> None:
    try:
        write_until_killed(path, url)
    except BaseException as error:  # noqa: BLE001 - a child's outermost edge: the parent is told
        say("failed", repr(error))
    finally:
        os._exit(1)


class Acknowledged(NamedTuple):
    """What a writer said about one entry."""

    chain: str
    seq: int
    id: str
    hash: str


@dataclass
class Tally:
    """What was found after all kills."""

    server_kills: int = 0
    writer_kills: int = 0
    acknowledged: int = 0
    refused: int = 0
    lost: int = 0
    twice: int = 0
    chains: int = 0
    entries: int = 0
    broken: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    slowest_return_s: float = 0.0


class PostgresKiller:
    """Kills a server and those who write to it, and checks what is left."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.tally = Tally()
        self._chance = random.Random(seed)
        self._server = PostgresServer("fsync=on", "full_page_writes=on")
        self._url = self._server.fresh()
        self._path = folder / "home"
        self._home = open_home(self._path, store=self._url)
        self._home.store.prepare()
        self._acknowledged: list[Acknowledged] = []
        self._checked = 0
        self._read_up_to: dict[str, int] = {}
        self._stored: dict[tuple[str, int], tuple[str, str]] = {}
        self._writers: list[int] = []
        self._back: set[int] = set()
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(self._path), self._url],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> PostgresKiller:
        for _ in range(WRITERS):
            self._start_writer()
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self._writers:
            _kill(pid)
        assert self._nursery.stdin
        self._nursery.stdin.close()
        self._nursery.wait()
        self._reader.join()
        assert self._nursery.stdout
        self._nursery.stdout.close()
        self._server.close()

    def round(self) -> None:
        """Let them write, kill the server or a writer or both, and wait until all goes on."""
        before = self.tally.acknowledged
        self._until(lambda: self.tally.acknowledged > before)
        time.sleep(self._chance.uniform(0.0, 0.3))
        victim = self._chance.choice(("server", "server", "writer", "both"))
        if victim != "writer":
            self._server.kill()
            self.tally.server_kills += 1
        if victim != "server":
            self._replace_writer()
        if victim != "writer":
            self._server.start()
        begun, self._back = time.monotonic(), set()
        self._until(lambda: self._back.issuperset(self._writers))
        self.tally.slowest_return_s = max(self.tally.slowest_return_s, time.monotonic() - begun)
        self._check_new()

    def check_all(self) -> None:
        """Stop everybody and look at the whole ledger, also at what was there before."""
        for pid in self._writers:
            _kill(pid)
        self._checked, self._read_up_to, self._stored = 0, {}, {}
        self.tally.lost = 0
        self._check_new()
        report = verify_ledger(self._home)
        self.tally.broken += [f"{each.chain}/{each.seq}: {each.message}" for each in report.faults]
        self.tally.chains, self.tally.entries = len(report.chains), report.entries
        names = [name for name, _ in self._stored.values() if name != OPENING.id]
        self.tally.twice = len(names) - len(set(names))

    def _check_new(self) -> None:
        """Make sure that what was acknowledged since the last look is there as it was said."""
        new = self._acknowledged[self._checked :]
        self._checked += len(new)
        with closing(LedgerReader(self._home.database)) as ledger:
            for chain, number in ledger.chains().items():
                for entry in ledger.chain_entries(number, self._read_up_to.get(chain, 0)):
                    self._stored[(chain, entry.seq)] = (entry.id, entry.hash.hex())
                    self._read_up_to[chain] = entry.seq + 1
        self.tally.lost += sum(
            self._stored.get((each.chain, each.seq)) != (each.id, each.hash) for each in new
        )

    def _replace_writer(self) -> None:
        victim = self._chance.choice(self._writers)
        self._writers.remove(victim)
        _kill(victim)
        self.tally.writer_kills += 1
        self._start_writer()

    def _start_writer(self) -> None:
        count = len(self._writers)
        assert self._nursery.stdin
        self._nursery.stdin.write(b"start\n")
        self._nursery.stdin.flush()
        self._until(lambda: len(self._writers) > count)

    def _read(self) -> None:
        assert self._nursery.stdout
        for line in self._nursery.stdout:
            what, *rest = line.decode().split(" ", 4)
            if what == "ack":
                chain, seq, name, digest = rest
                self._acknowledged.append(Acknowledged(chain, int(seq), name, digest.strip()))
                self.tally.acknowledged += 1
                self._back.add(int(name.partition("-")[0]))
            elif what == "refused":
                self.tally.refused += 1
            elif what == "pid":
                self._writers.append(int(rest[0]))
            elif what == "failed":
                self.tally.failed.append(line.decode().strip())

    def _until(self, is_so: object) -> None:
        end = time.monotonic() + AGAIN_S
        assert callable(is_so)
        while not is_so():
            if time.monotonic() > end or self.tally.failed:
                raise AssertionError(f"nothing was written for {AGAIN_S} s: {self.tally}")
            time.sleep(0.005)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.002)


if __name__ == "__main__":
    nursery(Path(sys.argv[1]), sys.argv[2])
