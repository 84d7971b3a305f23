"""A home folder as the store of a home: a SQLite file for each of its parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from pointsman.storage.sqlite.ledger import SqliteLedger, WritePlace
from pointsman.storage.sqlite.place import SqlitePlace
from pointsman.storage.writer.checkpoints import CheckpointFolders
from pointsman.storage.writer.lease import Lease, first_free_lease


class SqliteFolder(Struct, frozen=True):
    """A folder with one file for each store."""

    path: Path

    def place(self, name: str) -> SqlitePlace:
        """Return the file of a store."""
        return SqlitePlace(self.path / f"{name}.db")

    def prepare(self) -> str:
        """Do nothing: each file is made when it is first written."""
        return ""

    def examine(self) -> Iterator[tuple[str, str]]:
        """Tell nothing: the files and their disk are looked at one by one."""
        yield from ()

    def ledger(self, writer: str) -> SqliteLedger:
        """Take the chain `writer`, or `writer-2`, `writer-3`, … when others hold those before."""
        place = WritePlace(self.place("ledger"), self.path / "checkpoints")
        return SqliteLedger(place, first_free_lease(self.path / "leases", writer))

    def lease(self, name: str, *, waits: bool = False) -> Lease:
        """Take the sole right to something; while another has it, wait or raise `ChainHeld`."""
        return Lease(self.path / "leases", name, waits=waits)

    def checkpoints(self) -> CheckpointFolders:
        """Return the checkpoints of the ledger's chains."""
        return CheckpointFolders(self.path / "checkpoints")
