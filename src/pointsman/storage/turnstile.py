"""A turnstile: one at a time, over threads and processes; who dies inside lets the next one in."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pointsman.storage.files import FILE_MODE, make_folder


@contextmanager
def one_at_a_time(folder: Path, name: str) -> Iterator[None]:
    """Wait until nobody else is inside, go in, and leave when the block ends.

    Each entrance opens the file anew: the lock belongs to what was opened, so that two threads of
    one process keep each other out as two processes do.
    """
    make_folder(folder)
    descriptor = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
