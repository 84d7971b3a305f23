"""Which files this process holds open: a leak is one that stays, whatever others open meanwhile."""

import gc
import os
import time
from contextlib import suppress
from pathlib import Path

_LISTED = Path("/proc/self/fd")


def open_files() -> set[tuple[str, str]]:
    """Name what is open; one number taken by another file is another name."""
    gc.collect()  # what earlier tests left to the collector is nobody's leak
    found = set()
    for each in _LISTED.iterdir() if _LISTED.exists() else ():
        with suppress(OSError):  # the listing's own
            found.add((each.name, os.readlink(each)))  # noqa: PTH115 - a socket is no path
    return found


def opened_since(before: set[tuple[str, str]], *, seconds: float = 5.0) -> set[tuple[str, str]]:
    """Give what was opened and stays open; another thread's file of a moment does not stay."""
    until = time.monotonic() + seconds
    while (left := open_files() - before) and time.monotonic() < until:
        time.sleep(0.01)
    return left
