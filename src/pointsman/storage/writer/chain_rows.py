"""What the ledger's writer needs of a database: the rows of one chain, and nothing of SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from pointsman.kernel.entry import Chain, Draft, Entry
from pointsman.storage.writer.checkpoints import CheckpointFolder


class Fence(Struct, frozen=True):
    """The lease that a write checks in its own transaction: no other process took it since."""

    name: str
    token: int


class KeptText(Struct, frozen=True):
    """A text as the home keeps it: under its digest, in one form."""

    digest: str
    kept: str
    text: bytes


class EntryGroup(Struct, frozen=True):
    """Entries that stand at the end of the chain, and the signature over where it ends then."""

    began: float
    entries: Sequence[Entry]
    drafts: Sequence[Draft]
    stamp: bytes
    texts: Sequence[KeptText] = ()
    """Texts that are durable with them, where the database keeps both."""


class ChainRows(Protocol):
    """The rows of one chain. Their writer is the only one, or finds out at once."""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """The driver's errors that mean a failure, beside the ledger's own errors."""
        ...

    @property
    def damages(self) -> tuple[type[Exception], ...]:
        """Those of the failures that say the database is damaged."""
        ...

    @property
    def is_remote(self) -> bool:
        """Tell whether the database is a server's: texts may come with their entries then."""
        ...

    @property
    def checkpoints(self) -> CheckpointFolder:
        """The signed checkpoints of the chain."""
        ...

    @property
    def is_lost(self) -> bool:
        """Tell, without asking it, whether the database is known to have gone since `open`."""
        ...

    def open(self) -> None:
        """Open the database anew, tie it to the chain's ledger and number the chain."""
        ...

    def size(self) -> int:
        """Return the number that the next entry would have."""
        ...

    def entries(self, first: int) -> Iterator[Entry]:
        """Return the entries from one on, in order."""
        ...

    def hashes(self, first: int) -> str | None:
        """Return the hashes from one on in hexadecimal capitals; nothing when there are none."""
        ...

    def stamp(self) -> bytes:
        """Return the signed end of the chain."""
        ...

    def append(
        self, group: EntryGroup, announce: Callable[[], None], fence: Fence | None = None
    ) -> None:
        """Make entries, what belongs to them and the end of the chain durable, or none of it.

        Calls `announce` once it needs nothing of the interpreter until that is done. Raises
        `LeaseLost` where another has taken the lease that the fence is of.
        """
        ...

    def is_in_doubt(self, error: Exception) -> bool:
        """Tell whether the appended entries may be durable although `append` raised this."""
        ...

    def move(self) -> Chain | None:
        """Take another chain that is free, where the lease on this one can be lost."""
        ...

    def restamp(self, before: bytes, after: bytes) -> None:
        """Renew the stamp on the chain's end, unless a commit has renewed it meanwhile."""
        ...

    def secure(self) -> None:
        """Store anew whatever may rest on the failure before the last `open`."""
        ...

    def tend(self) -> None:
        """Do the maintenance that the database needs, while no caller waits."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...

    def let_go(self) -> None:
        """Close after a failure; nothing more is written through the connection."""
        ...


class LedgerPlace(Protocol):
    """Where a ledger's parts are."""

    def rows(self, chain: Chain) -> ChainRows:
        """Return the rows of a chain, not opened yet."""
        ...


class HeldLease(Protocol):
    """Sole right to do something in a home, which ends with its holder."""

    def fence(self) -> Fence | None:
        """Return what a write must find that rests on the right; None where it cannot be lost.

        Raises `LeaseLost` where it was lost and another has it, or had it since.
        """
        ...

    def release(self) -> None:
        """Release the lease."""
        ...


class LeasedLedger(Protocol):
    """A ledger, and sole right to write one of its chains."""

    def release(self) -> None:
        """Release the lease."""
        ...

    @property
    def chain(self) -> str:
        """The chain's name."""
        ...

    @property
    def place(self) -> LedgerPlace:
        """Where to write it."""
        ...
