"""Whether another process is still there; one that waits to be reaped is gone."""

import time
from pathlib import Path


def is_running(pid: int) -> bool:
    """Tell whether a process is there and not merely waiting to be reaped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter: it ended while it was read
        return False
    return state != "Z"


def is_soon_gone(pid: int, *, seconds: float = 10.0) -> bool:
    """Wait until a process has taken its signal; False where it stays."""
    until = time.monotonic() + seconds
    while (is_there := is_running(pid)) and time.monotonic() < until:
        time.sleep(0.01)
    return not is_there
