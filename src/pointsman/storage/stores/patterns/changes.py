"""What others changed in the pattern store since it was looked at last."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from pointsman.storage.connection import Connection
from pointsman.storage.sqlite.database import named_blocks, sql_text

SQL = named_blocks(sql_text("patterns_queries.sql"))


class Changed(Struct, frozen=True):
    """The fingerprints that are new or counted on, and those that are gone."""

    names: Sequence[str]
    gone: Sequence[str] = ()

    @property
    def listed(self) -> str:
        """The names as a JSON list."""
        return msgspec.json.encode(self.names).decode()

    @classmethod
    def since(cls, connection: Connection, version: int) -> Changed | None:
        """Return what changed after a version; None where the store does not know that.

        SQLite tells only that another process wrote. Where many processes write all the time, the
        store numbers what it does: reading all of it at every turn would not do.
        """
        if version < connection.execute(SQL["numbered_from"]).get:
            return None
        rows = connection.execute(SQL["changed_since"], (version,)).fetchall()
        return cls([name for name, is_gone in rows if not is_gone], [n for n, gone in rows if gone])
