"""Files that only their owner may read, written so that a crash leaves the old or the new one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600


def make_folder(path: Path) -> None:
    """Make a folder that only its owner may enter."""
    path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def sync_folder(path: Path) -> None:
    """Make a folder's list of names durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new(path: Path, data: bytes) -> bool:
    """Write a file that must not exist yet; False when somebody else was first."""
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
    """Replace a file by its new content in one step."""
    _written_beside(path, data).replace(path)
    sync_folder(path.parent)


def write_at(path: Path, data: bytes, at: int, *, durable: bool) -> None:
    """Write data at a position, cutting what stands behind it."""
    is_new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
    try:
        os.ftruncate(descriptor, at)
        written = os.pwrite(descriptor, data, at)
        if written != len(data):
            raise OSError(f"only {written} of {len(data)} bytes were written to {path}")
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if is_new:
        sync_folder(path.parent)


def _written_beside(path: Path, data: bytes) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return Path(name)
