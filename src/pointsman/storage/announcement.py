"""The address of the gateway that serves a home, for other processes of the same home."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pointsman.errors import ChainHeld
from pointsman.storage.files import replace_file
from pointsman.storage.writer.lease import Lease

_NAME = "gateway"


@contextmanager
def announced_gateway(home: Path, address: str) -> Iterator[None]:
    """Tell other processes where this home is served, for as long as it is.

    The lock ends with its process, so that no address outlives its gateway. A second gateway of
    the home, or one on a medium that takes no writes, is not announced.
    """
    lease: Lease | None = None
    with suppress(ChainHeld, OSError):
        lease = Lease(home / "serving", _NAME)
        replace_file(home / "serving" / "address", address.encode())
    try:
        yield
    finally:
        if lease is not None:
            lease.release()


def gateway_address(home: Path) -> str:
    """Return where this home is served; empty where it is not."""
    folder = home / "serving"
    try:
        Lease(folder, _NAME).release()
    except ChainHeld:
        with suppress(OSError):
            return (folder / "address").read_text()
    except OSError:
        pass
    return ""
