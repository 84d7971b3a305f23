"""A simulated disk under SQLite: what was not synced may be lost, kept or torn by a power cut.

The disk records every write, truncation, sync, creation and deletion of a workload, and gives back
what a power cut before any of them could have left.
"""

# ruff: noqa: N802 - SQLite's interface fixes the names of a file system's methods.

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import apsw

SECTOR = 512

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
