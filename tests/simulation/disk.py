"""The disk of a simulated life: SQLite's real files, and what a power cut would leave of them.

Writes are recorded until they are synced. A cut gives back what of the unsynced it keeps, tears or
loses; `tests.durability.simulated_disk` says how.
"""

# ruff: noqa: N802 - SQLite's interface fixes the names of a file system's methods.

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
from tests.durability.simulated_disk import Disk, Mode, Operation, SimulatedFile
from tests.simulation.threads import SCHEDULER


class LivingDisk(Disk):
    """All files of a home that SQLite writes, by their paths."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._chance = random.Random(f"disk {seed}")
        self.is_full = False
        self.syncs_fail = False
        self.troubled = ""
        """Which file takes no writes or syncs; empty for all."""
        self.slowest_s = 0.0
        self.syncs = 0

    def do(self, operation: Operation) -> None:
        """Note what was done to a file; a whole history is not kept."""
        self.redo(operation)

    def concerns(self, path: str) -> bool:
        """Tell whether the trouble of the disk is about a file."""
        return bool(path) and self.troubled in path

    def rest(self) -> None:
        """Take the time that a sync takes; others run meanwhile."""
        self.syncs += 1
        if self.slowest_s:
            SCHEDULER.current.wait(self._chance.uniform(0, self.slowest_s))

    def holds_durably(self, text: bytes, names: tuple[str, ...]) -> bool:
        """Tell whether a text would be found in one of these files after a power cut."""
        return any(
            text in (self.files[name].durable or b"") for name in names if name in self.files
        )

    def cut_power(self, mode: Mode) -> dict[str, bytes | None]:
        """Return what each file holds after a power cut, and go on from there."""
        left = {name: file.after_cut(mode, self._chance) for name, file in self.files.items()}
        self._begin_with(left)
        return left

    def _begin_with(self, contents: dict[str, bytes | None]) -> None:
        self.files = {}
        for name, data in contents.items():
            if data is not None:
                self.files[name] = file = SimulatedFile()
                file.durable = data


def close_as_sqlite(connection: Any, force: bool = False) -> None:
    """Close a connection; where its last write-back fails, SQLite says nothing, and apsw would."""
    with suppress(apsw.FullError, apsw.IOError, apsw.BusyError):
        apsw.Connection.close(connection, force)


class SimVFS(apsw.VFS):
    """SQLite's own file system, looked at on the way."""

    def __init__(self, disk: LivingDisk) -> None:
        self.disk = disk
        super().__init__("simulated", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> Any:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        is_kept = bool(path) and not flags[0] & (
            apsw.SQLITE_OPEN_DELETEONCLOSE | apsw.SQLITE_OPEN_TEMP_DB
        )
        existed = is_kept and Path(str(path)).exists()
        opened = _SimFile(self.disk, name, flags, str(path) if is_kept else "")
        if is_kept and not existed and Path(str(path)).exists():
            self.disk.do(Operation("create", str(path)))
        elif existed and str(path) not in self.disk.files:
            self.disk.files[str(path)] = known = SimulatedFile()
            known.durable = Path(str(path)).read_bytes()
        return opened

    def xDelete(self, path: str, sync_folder: bool) -> None:
        super().xDelete(path, False)
        self.disk.do(Operation("delete", path))
        if sync_folder:
            self.disk.do(Operation("sync", path))

    def xSleep(self, microseconds: int) -> int:
        # A connection that waits for another's lock lets that one run.
        SCHEDULER.current.wait(microseconds / 1e6)
        return microseconds

    def xRandomness(self, count: int) -> bytes:
        return b"\x2a" * count


class _SimFile(apsw.VFSFile):
    """One open file."""

    def __init__(self, disk: LivingDisk, name: Any, flags: list[int], path: str) -> None:
        self._disk = disk
        self._path = path
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self._disk.is_full and self._disk.concerns(self._path):
            raise apsw.FullError("the simulated disk is full")
        super().xWrite(data, offset)
        if self._path:
            self._disk.do(Operation("write", self._path, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        if self._path:
            self._disk.do(Operation("truncate", self._path, size))

    def xSync(self, flags: int) -> None:
        if self._path:
            self._disk.rest()
            if self._disk.syncs_fail and self._disk.concerns(self._path):
                raise apsw.IOError("the simulated disk failed to sync")
            self._disk.do(Operation("sync", self._path))
