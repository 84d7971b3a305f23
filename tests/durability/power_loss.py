"""A simulated disk under SQLite: what was not synced may be lost, kept or torn by a power cut.

The disk records every write, truncation, sync, creation and deletion of a workload, and gives back
what a power cut before any of them could have left.
"""

# ruff: noqa: N802 - SQLite's interface fixes the names of a file system's methods.

from __future__ import annotations

import hashlib
import random
import uuid
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Literal, NamedTuple

import apsw

from pointsman.errors import LedgerError
from pointsman.kernel.checkpoint import Checkpoint, read_checkpoint, split_checkpoints
from pointsman.kernel.entry import Chain, Draft, Entry
from pointsman.kernel.instant import Instant
from pointsman.kernel.signing import SigningKey
from pointsman.kernel.verification import FaultCode, Pass
from pointsman.storage.ledger import LedgerWriter
from pointsman.storage.sqlite.database import SQL
from pointsman.storage.sqlite.ledger import Place

SECTOR = 512
DATABASE = "/disk/ledger.db"
MODES = ("lost", "kept", "sectors", "torn")
FAULTS = ("lost", "unreadable", "broken", "ahead", "unattached")

KEY = SigningKey(bytes(range(32)))
CHAIN = Chain("0123456789abcdef" * 2, "cli")

Mode = Literal["lost", "kept", "sectors", "torn"]


class Operation(NamedTuple):
    """One thing done to a file: `at` is an offset for writes and a size for truncations."""

    kind: Literal["create", "write", "truncate", "sync", "delete"]
    name: str
    at: int = 0
    data: bytes = b""


class SimulatedFile:
    """One file: what is durable (None when its name is not), and what was done since."""

    def __init__(self) -> None:
        self.durable: bytes | None = None
        self.unsynced: list[Operation] = []

    def sync(self) -> None:
        self.durable = self.now()
        self.unsynced = []

    def sync_name(self) -> None:
        """Make creation and deletion durable, but not what was written."""
        *gone, written = _lives(self.unsynced)
        if gone:
            self.durable = None
        if any(operation.kind == "create" for operation in written):
            self.durable = b""
        self.unsynced = [each for each in written if each.kind != "create"]

    def now(self) -> bytes | None:
        return applied(self.durable, self.unsynced)

    def after_cut(self, mode: Mode, chance: random.Random) -> bytes | None:
        if mode == "kept" or not self.unsynced:
            return self.now()
        if mode == "lost":
            return self.durable
        if mode == "torn":
            return applied(self.durable, _torn(self.unsynced, chance))
        lives = _lives(self.unsynced)
        chosen = chance.randrange(len(lives))
        survived = _some_sectors(lives[chosen], chance)
        if chosen and not any(operation.kind == "create" for operation in survived):
            return None
        return applied(None if chosen else self.durable, survived)


def applied(content: bytes | None, operations: Iterable[Operation]) -> bytes | None:
    """Give a file's content after operations; None when the file is not there."""
    data = None if content is None else bytearray(content)
    for kind, _, at, written in operations:
        if kind == "delete":
            data = None
            continue
        if data is None:
            data = bytearray()
        if kind == "write":
            data.extend(bytes(max(0, at - len(data))))
            data[at : at + len(written)] = written
        elif kind == "truncate":
            del data[at:]
            data.extend(bytes(at - len(data)))
    return None if data is None else bytes(data)


def _lives(operations: list[Operation]) -> list[list[Operation]]:
    """Part what was done at deletions: a file made anew shares nothing with the one before."""
    lives: list[list[Operation]] = [[]]
    for operation in operations:
        if operation.kind == "delete":
            lives.append([])
        else:
            lives[-1].append(operation)
    return lives


def _torn(operations: list[Operation], chance: random.Random) -> list[Operation]:
    """Keep a prefix; the last write of it may have reached the disk in part."""
    count = chance.randint(0, len(operations))
    survived = operations[:count]
    if count < len(operations) and operations[count].kind == "write":
        write = operations[count]
        survived.append(write._replace(data=write.data[: chance.randint(0, len(write.data))]))
    return survived


def _some_sectors(operations: list[Operation], chance: random.Random) -> list[Operation]:
    """Keep each sector of each write, and each other operation, or not: like tossing a coin."""
    pieces = (piece for operation in operations for piece in _sectors(operation))
    return [piece for piece in pieces if chance.getrandbits(1)]


def _sectors(operation: Operation) -> Iterator[Operation]:
    if operation.kind != "write":
        yield operation
        return
    start, end = operation.at, operation.at + len(operation.data)
    while start < end:
        stop = min(end, start - start % SECTOR + SECTOR)
        piece = operation.data[start - operation.at : stop - operation.at]
        yield operation._replace(at=start, data=piece)
        start = stop


class Disk:
    """All files, and everything that was done to them in order."""

    def __init__(self, contents: dict[str, bytes] | None = None) -> None:
        self.files: dict[str, SimulatedFile] = {}
        self.history: list[Operation] = []
        self.notes_seen: list[int] = []
        self.notes: Path | None = None
        for name, content in (contents or {}).items():
            self.files[name] = SimulatedFile()
            self.files[name].durable = content

    def do(self, operation: Operation) -> None:
        """Record an operation and carry it out."""
        self.history.append(operation)
        if self.notes is not None:
            self.notes_seen.append(self.notes.stat().st_size if self.notes.exists() else 0)
        self.redo(operation)

    def redo(self, operation: Operation) -> None:
        """Carry an operation out."""
        file = self.files.setdefault(operation.name, SimulatedFile())
        if operation.kind == "sync":
            # SQLite syncs the folder together with a journal or log that it has just made.
            is_new = any(each.kind == "create" for each in file.unsynced)
            if is_new and operation.name.endswith(("-journal", "-wal")):
                for each in self.files.values():
                    each.sync_name()
            file.sync()
        else:
            file.unsynced.append(operation)

    def after_cut(self, mode: Mode, seed: object) -> dict[str, bytes]:
        """Give what a power cut leaves of every file."""
        chance = random.Random(f"{seed}")
        left = {name: file.after_cut(mode, chance) for name, file in sorted(self.files.items())}
        return {name: content for name, content in left.items() if content is not None}


class _OpenFile(apsw.VFSFile):
    """A file as SQLite sees it: all operations, synced or not."""

    def __init__(self, disk: Disk, name: str, *, is_temporary: bool) -> None:
        # Nothing of a real file is inherited: the base is deliberately not opened.
        self._disk, self._name, self._is_temporary = disk, name, is_temporary
        present = disk.files.get(name)
        content = present.now() if present else None
        if content is None and not is_temporary:
            disk.do(Operation("create", name))
        self._data = bytearray(content or b"")

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self._data[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        data = bytes(data)
        self._data.extend(bytes(max(0, offset - len(self._data))))
        self._data[offset : offset + len(data)] = data
        self._record(Operation("write", self._name, offset, data))

    def xTruncate(self, size: int) -> None:
        del self._data[size:]
        self._record(Operation("truncate", self._name, size))

    def xSync(self, flags: int) -> None:
        self._record(Operation("sync", self._name))

    def xFileSize(self) -> int:
        return len(self._data)

    def xClose(self) -> None:
        pass

    def xLock(self, level: int) -> None:
        pass

    def xUnlock(self, level: int) -> None:
        pass

    def xCheckReservedLock(self) -> bool:
        return False

    def xSectorSize(self) -> int:
        return 4096

    def xDeviceCharacteristics(self) -> int:
        # As on a real disk here: a write never damages bytes beside it.
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    def xFileControl(self, op: int, pointer: int) -> bool:
        return False

    def _record(self, operation: Operation) -> None:
        if not self._is_temporary:
            self._disk.do(operation)


class SimulatedVFS(apsw.VFS):
    """A file system whose disk can be exchanged for one after a power cut."""

    def __init__(self) -> None:
        self.name = f"power-loss-{uuid.uuid4().hex}"
        self.disk = Disk()
        super().__init__(self.name, "")

    def xOpen(self, name: object, flags: list[int]) -> _OpenFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        flags[1] = flags[0]
        if path is None:
            return _OpenFile(self.disk, "", is_temporary=True)
        return _OpenFile(self.disk, str(path), is_temporary=False)

    def xAccess(self, path: str, flags: int) -> bool:
        file = self.disk.files.get(path)
        return file is not None and file.now() is not None

    def xDelete(self, path: str, sync_folder: bool) -> None:
        self.disk.do(Operation("delete", path))
        if sync_folder:
            self.disk.do(Operation("sync", path))

    def xFullPathname(self, name: str) -> str:
        return name


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
    place = Place(
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
