"""The state of a store, read without changing it: tables, pending migrations, its ledger."""

from __future__ import annotations

from contextlib import closing

from msgspec import Struct

from pointsman.errors import LedgerError
from pointsman.kernel.instant import Instant
from pointsman.storage.copied_tables import places
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import SCHEMA_VERSION
from pointsman.storage.sqlite.folder import SqliteFolder
from pointsman.storage.stores.entries import LedgerReader


class StoreState(Struct, frozen=True):
    """The state of a store; `trouble` is why it could not be read."""

    kind: str
    where: str
    trouble: str = ""
    schema_version: str = ""
    pending: tuple[str, ...] = ()
    ledger: str = ""
    is_own: bool = True
    sizes: dict[str, int] = {}
    settings: tuple[tuple[str, str], ...] = ()
    connections: int = 0
    most_connections: int = 0
    has_vectors: bool = False
    copy_began_at: Instant | None = None
    copy_finished_at: Instant | None = None

    @property
    def is_usable(self) -> bool:
        """Tell whether this program can write here now."""
        needed = [each for each in self.pending if each.endswith(".pre")]
        return not self.trouble and self.is_own and not needed


def store_state(home: Home) -> StoreState:
    """Read the state of the store of a home."""
    if isinstance(home.store, SqliteFolder):
        return _files_state(home)
    # Imported here: a server's driver is an extra.
    from pointsman.operations.store.server import server_state  # noqa: PLC0415 - see above

    return server_state(home)


def _files_state(home: Home) -> StoreState:
    try:
        return StoreState(
            kind="sqlite",
            where=str(home.path),
            schema_version=str(SCHEMA_VERSION),
            ledger=ledger_of(home),
            is_own=ledger_of(home) in {"", home.identity.ledger},
            sizes=sizes_of(home),
        )
    except LedgerError as error:
        return StoreState("sqlite", str(home.path), trouble=str(error))


def ledger_of(home: Home) -> str:
    """Return the id of the ledger that a store holds; empty where it holds none."""
    if not home.database.exists() or not home.database.size():
        return ""
    with home.database.told_errors(), closing(LedgerReader(home.database)) as reader:
        return reader.ledger()


def sizes_of(home: Home) -> dict[str, int]:
    """Count the bytes of each part of a store."""
    names = ("ledger", "content", *places(), "spend")
    return {name: home.place(name).size() for name in names}
