"""Files that only their owner may read, written so that a crash leaves the old or the new one."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600


def make_folder(path: Path) -> None:
    """Make a folder, with those above it, that only its owner may enter."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=FOLDER_MODE, exist_ok=True)
        sync_folder(each.parent)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def make_file(path: Path) -> None:
    """Make an empty file that only its owner may read, unless there is a file already."""
    # An existing file is not even opened: closing it again would drop SQLite's locks on it.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE))


def sync_folder(path: Path) -> None:
    """Make a folder's list of names durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new(path: Path, data: bytes) -> bool:
    """Write a file that must not exist yet; False when another process was first."""
    temporary = _written_beside(path, data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    sync_folder(path.parent)
    return True


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file by its new content in one step; on failure, leave nothing beside it."""
    temporary = _written_beside(path, data)
    try:
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def read_if_there(path: Path, start: int = 0, most: int = -1) -> bytes:
    """Read a file from a place on; nothing if there is none, an error if it is out of reach."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read(most)
    except FileNotFoundError:
        return b""


def write_at(path: Path, data: bytes, at: int, *, durable: bool) -> None:
    """Write data at a position, cutting what stands behind it; on failure, leave nothing there."""
    descriptor, is_new = _open_file(path)
    try:
        _truncate(descriptor, at, durable=durable)
        try:
            _write_all(descriptor, data, at)
            if durable:
                os.fsync(descriptor)
        except OSError:
            # What a failed sync left may be in memory alone, yet would be read back as written.
            with suppress(OSError):
                os.ftruncate(descriptor, at)
            raise
    finally:
        os.close(descriptor)
    if is_new:
        sync_folder(path.parent)


def _open_file(path: Path) -> tuple[int, bool]:
    """Open a file that may not exist yet, and tell whether it did not."""
    try:
        return os.open(path, os.O_RDWR), False
    except FileNotFoundError:
        return os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE), True


def _truncate(descriptor: int, size: int, *, durable: bool) -> None:
    before = os.fstat(descriptor).st_size
    if before != size:
        os.ftruncate(descriptor, size)
    if durable and before > size:
        # Synced apart, or a power cut could leave a mix of the old bytes and the new.
        os.fsync(descriptor)


def _write_all(descriptor: int, data: bytes, at: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, at)
        rest, at = rest[written:], at + written


def _written_beside(path: Path, data: bytes) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        Path(name).unlink()
        raise
    return Path(name)
