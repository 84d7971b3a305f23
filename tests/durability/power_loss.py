"""Power cuts under a ledger: a workload recorded on a simulated disk, and what a cut may leave.

Each is opened again: what was acknowledged or signed must be there, and the writer must go on.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import apsw
from tests.durability.simulated_disk import Disk, Mode, Operation, SimulatedVFS

from pointsman.errors import LedgerError
from pointsman.kernel.checkpoint import Checkpoint, read_checkpoint, split_checkpoints
from pointsman.kernel.entry import Chain, Draft, Entry
from pointsman.kernel.instant import Instant
from pointsman.kernel.signing import SigningKey
from pointsman.kernel.verification import FaultCode, Pass
from pointsman.storage.sqlite.database import SQL
from pointsman.storage.sqlite.ledger import WritePlace
from pointsman.storage.writer.ledger import LedgerWriter

DATABASE = "/disk/ledger.db"
MODES = ("lost", "kept", "sectors", "torn")
FAULTS = ("lost", "unreadable", "broken", "ahead", "unattached")

KEY = SigningKey(bytes(range(32)))
CHAIN = Chain("0123456789abcdef" * 2, "cli")


class Acknowledged(NamedTuple):
    """How many operations there had been when an entry was acknowledged."""

    after: int
    entry: Entry


@dataclass
class Recording:
    """A workload's whole history: the disk's operations, the acknowledgements, the notes."""

    history: list[Operation]
    notes_seen: list[int]
    notes: bytes
    acknowledged: list[Acknowledged] = field(default_factory=list)

    def __post_init__(self) -> None:
        texts, rest = split_checkpoints(self.notes.decode())
        assert not rest
        self._checkpoints = [read_checkpoint(CHAIN, text, [KEY]) for text in texts]
        self._ends = list(accumulate(len(text.encode()) + 1 for text in texts))
        self._after = [each.after for each in self.acknowledged]

    def durable_at(self, index: int) -> Acknowledged | None:
        """Give the last entry that was acknowledged before an operation."""
        count = bisect_right(self._after, index)
        return self.acknowledged[count - 1] if count else None

    def notes_at(self, index: int) -> bytes:
        """Give the notes as they were just before an operation."""
        return self.notes if index >= len(self.notes_seen) else self.notes[: self.notes_seen[index]]

    def checkpoints_at(self, index: int) -> list[Checkpoint]:
        """Give the checkpoints that were written before an operation."""
        return self._checkpoints[: bisect_right(self._ends, len(self.notes_at(index)))]


def drafts(first: int, count: int) -> list[Draft]:
    """Give drafts of differing sizes, every third with something attached."""
    return [
        Draft(
            "decision", f"entry-{number}", f"turn-{number % 7}", Instant(number),
            bytes([number % 251]) * (40 + number * 37 % 300),
            (bytes([number % 256]) * (200 + number * 631 % 3000),) if number % 3 == 0 else (),
        )
        for number in range(first, first + count)
    ]  # fmt: skip


OPENING = Draft("ledger.opened", "opening", "", Instant(1), b"{}")


def recorded(vfs: SimulatedVFS, folder: Path, *, sync: str = "FULL", rounds: int = 2) -> Recording:
    """Run a real writer on the disk: groups, attachments, log resets, notes, clean closes."""
    vfs.disk = disk = Disk()
    disk.notes = folder / "checkpoints" / CHAIN.name / "notes"
    acknowledged: list[Acknowledged] = []
    number = 1
    for _ in range(rounds):
        writer = opened_writer(vfs, folder / "checkpoints", sync=sync)
        for size in (1, 2, 1, 5, 1, 17, 3, 1, 8, 1, 30, 2, 40, 1, 60, 4, 1, 1, 9, 50, 1, 6):
            futures = [writer.append(draft) for draft in drafts(number, size)]
            for future in futures:
                future.add_done_callback(
                    lambda done: acknowledged.append(
                        Acknowledged(len(disk.history), done.result().entry)
                    )
                )
            for future in futures:
                future.result()
            number += size
        writer.close()
    return Recording(disk.history, disk.notes_seen, disk.notes.read_bytes(), acknowledged)


def opened_writer(vfs: SimulatedVFS, checkpoints: Path, *, sync: str = "FULL") -> LedgerWriter:
    """Open a ledger on the simulated disk, its checkpoints on the real one."""
    # A small log, so that it is written back and begun anew many times.
    place = WritePlace(
        Path(DATABASE), checkpoints, vfs=vfs.name, sync=sync, exclusive=True, log_pages=40
    )
    return LedgerWriter(place, CHAIN, KEY, OPENING)


@dataclass
class Tally:
    """What was found in all states after power cuts."""

    states: int = 0
    with_acknowledged: int = 0
    lost: int = 0
    unreadable: int = 0
    broken: int = 0
    ahead: int = 0
    unattached: int = 0
    examples: list[str] = field(default_factory=list)
    seen: set[bytes] = field(default_factory=set, repr=False)

    @property
    def distinct(self) -> int:
        return len(self.seen)

    @property
    def is_clean(self) -> bool:
        return not any(getattr(self, name) for name in FAULTS)

    def add(self, other: Tally) -> None:
        for name in ("states", "with_acknowledged", *FAULTS):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.examples += other.examples
        self.seen |= other.seen

    def note(self, what: str, state: object) -> None:
        setattr(self, what, getattr(self, what) + 1)
        if len(self.examples) < 20:
            self.examples.append(f"{what}: {state}")


class Cut(NamedTuple):
    """One power cut: before which operation, what survives of the unsynced, which seed."""

    index: int
    mode: Mode
    seed: int


def cuts(count: int, seeds: int) -> Iterator[Cut]:
    """Give every cut of a history; modes without chance need no seeds."""
    for index in range(count + 1):
        for mode in MODES:
            for seed in range(seeds if mode in ("sectors", "torn") else 1):
                yield Cut(index, mode, seed)


def sampled(recording: Recording, count: int, *, seeds: int) -> list[Cut]:
    """Give that many cuts, spread over the whole history, in order."""
    every = list(cuts(len(recording.history), seeds))
    return [every[number * len(every) // count] for number in range(count)]


def tallied(vfs: SimulatedVFS, recording: Recording, plan: Iterable[Cut]) -> Tally:
    """Check what each cut leaves."""
    tally = Tally()
    for cut, contents in disks_after(recording, plan):
        check(vfs, recording, cut, contents, tally)
    return tally


def disks_after(
    recording: Recording, plan: Iterable[Cut]
) -> Iterator[tuple[Cut, dict[str, bytes]]]:
    """Give the files that each cut leaves; the cuts come in the order of their index."""
    disk, done = Disk(), 0
    for cut in plan:
        for operation in recording.history[done : cut.index]:
            disk.redo(operation)
        done = cut.index
        yield cut, disk.after_cut(cut.mode, cut)


def check(
    vfs: SimulatedVFS, recording: Recording, cut: Cut, contents: dict[str, bytes], tally: Tally
) -> None:
    """Open what a cut left and compare it with what had been acknowledged and signed."""
    tally.states += 1
    tally.seen.add(_digest(contents))
    vfs.disk = Disk(contents)
    try:
        entries, bodies = _stored(vfs)
    except apsw.Error as error:
        tally.note("unreadable", (cut, repr(error)))
        return
    report = Pass(CHAIN, recording.checkpoints_at(cut.index)).run(entries)
    if report.fault is not None:
        ahead = report.fault.code is FaultCode.TRUNCATED
        tally.note("ahead" if ahead else "broken", (cut, report.fault))
    _check_acknowledged(recording.durable_at(cut.index), entries, cut, tally)
    if any(bodies.get(entry.seq, b"") != entry.attached for entry in entries):
        tally.note("unattached", cut)


def _check_acknowledged(
    last: Acknowledged | None, entries: list[Entry], cut: Cut, tally: Tally
) -> None:
    if last is None:
        return
    tally.with_acknowledged += 1
    # The chain verifies, so the last acknowledged entry vouches for those before it.
    seq = last.entry.seq
    if seq >= len(entries) or entries[seq] != last.entry:
        tally.note("lost", (cut, seq, len(entries)))


def _stored(vfs: SimulatedVFS) -> tuple[list[Entry], dict[int, bytes]]:
    connection = apsw.Connection(DATABASE, vfs=vfs.name)
    try:
        connection.pragma("locking_mode", "exclusive")
        if not connection.table_exists(None, "entries"):
            return [], {}
        number = connection.execute(SQL["find_chain"], (CHAIN.name,)).get or 0
        entries = [Entry(*row) for row in connection.execute(SQL["chain_entries"], (number, 0))]
        bodies: dict[int, bytes] = {}
        for seq, _, _, body in connection.execute(SQL["chain_attachments"], (number,)):
            bodies[seq] = bodies.get(seq, b"") + hashlib.sha256(body or b"").digest()
        return entries, bodies
    finally:
        connection.close()


def _digest(contents: dict[str, bytes]) -> bytes:
    parts = (hashlib.sha256(name.encode() + data).digest() for name, data in contents.items())
    return hashlib.sha256(b"".join(parts)).digest()


def goes_on(vfs: SimulatedVFS, contents: dict[str, bytes], notes: bytes, folder: Path) -> str:
    """Start a real writer on what a cut left, append, close; say what went wrong, or nothing."""
    vfs.disk = Disk(contents)
    put_notes(folder, notes)
    try:
        writer = opened_writer(vfs, folder)
        writer.append(Draft("decision", "after", "", Instant(1), b"{}")).result()
        writer.close()
    except (LedgerError, apsw.Error, OSError) as error:
        return repr(error)
    return ""


def put_notes(folder: Path, notes: bytes) -> None:
    """Make a checkpoint folder hold these notes, and leaves a power cut has lost."""
    place = folder / CHAIN.name
    for name in ("notes", "leaves"):
        (place / name).unlink(missing_ok=True)
    if notes:
        place.mkdir(parents=True, exist_ok=True)
        (place / "notes").write_bytes(notes)
    elif place.exists():
        place.rmdir()
