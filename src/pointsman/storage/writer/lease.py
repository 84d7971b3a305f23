"""A lease: a lock that the operating system drops when its holder dies, and never before."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from pointsman.errors import ChainHeld
from pointsman.storage.files import FILE_MODE, make_folder

MOST_WRITERS = 64


class Lease:
    """Sole right to write one chain of a home, or to do something else there.

    Each opens the file anew: the lock belongs to the open file, so that two threads of a process
    keep each other out as two processes do.
    """

    def __init__(self, folder: Path, chain: str, *, waits: bool = False) -> None:
        make_folder(folder)
        self.chain = chain
        self._descriptor = os.open(folder / f"{chain}.lock", os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError as error:
            os.close(self._descriptor)
            raise ChainHeld(f"another process writes the chain `{chain}`") from error

    def fence(self) -> None:
        """Return None: the lease cannot be lost while its process lives."""

    def release(self) -> None:
        """Release the lease."""
        # Unlocked, not only closed: a forked child may have the same open file still.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


def first_free_lease(folder: Path, writer: str) -> Lease:
    """Lease `writer`, or `writer-2`, `writer-3`, … when others hold those before it."""
    for number in range(1, MOST_WRITERS + 1):
        try:
            return Lease(folder, writer if number == 1 else f"{writer}-{number}")
        except ChainHeld:
            continue
    raise ChainHeld(f"{MOST_WRITERS} processes write as `{writer}` already")
