"""How a process that another started for its own work ends when that one does."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def follow(parent: int) -> None:
    """Live no longer than the parent, even when that is killed; elsewhere than on Linux, try to."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before it could be followed.
        os._exit(0)
