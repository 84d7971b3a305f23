"""Where a store lives: a SQLite file of the home, or a schema of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from pointsman.storage.connection import Connection
from pointsman.storage.writer.chain_rows import HeldLease, LeasedLedger
from pointsman.storage.writer.checkpoints import Checkpoints


class StorePlace(Protocol):
    """Where one store lives. As text it can be shown: it never holds a password."""

    @property
    def name(self) -> str:
        """What the store is called where it lives."""
        ...

    def exists(self) -> bool:
        """Tell whether anything was ever written here."""
        ...

    def size(self) -> int:
        """Count the bytes that are taken here; 0 where nothing was ever written."""
        ...

    def writing(self, schema: str, *, sync: str = "FULL", is_lean: bool = False) -> Connection:
        """Open for writing; `schema` is the file that makes the tables where there are none.

        `is_lean` where no caller waits for the writes: it takes little memory.
        """
        ...

    def lasting(self, schema: str, *, sync: str = "FULL", is_lean: bool = False) -> Connection:
        """Open for writing for as long as a process runs: a lost connection is opened anew."""
        ...

    def reading(self) -> Connection:
        """Open what exists; nothing can be written through the connection."""
        ...

    def told_errors(self) -> AbstractContextManager[None]:
        """Turn what the database raises into an error that says what to do."""
        ...


class Store(Protocol):
    """Everything a home keeps in databases: the places of one folder, or of one server."""

    def place(self, name: str) -> StorePlace:
        """Return the place of a store by its name, like `ledger` or `spend`."""
        ...

    def prepare(self) -> str:
        """Make sure that it can be written; give its name where it is not the home folder."""
        ...

    def examine(self) -> Iterator[tuple[str, str]]:
        """Return remarks on the database, each with a next step where there is one."""
        ...

    def ledger(self, writer: str) -> LeasedLedger:
        """Take the chain `writer`, or `writer-2`, `writer-3`, … when others hold those before."""
        ...

    def lease(self, name: str, *, waits: bool = False) -> HeldLease:
        """Take the sole right to something; while another has it, wait or raise `ChainHeld`."""
        ...

    def checkpoints(self) -> Checkpoints:
        """Return the checkpoints of the ledger's chains."""
        ...


Where = StorePlace | Path
"""A place, or the path of a SQLite file."""
