"""A ledger read at one moment, beside writers that go on."""

from __future__ import annotations

from collections.abc import Iterator

from pointsman.kernel.entry import Entry
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import LedgerReader

LOWEST = -(2**63)
"""Before any entry, also before those that pretend to stand before the first."""

HIGHEST = 2**62
"""Behind any entry."""


class FrozenReader(LedgerReader):
    """A reader that keeps seeing the moment of its first look, while writers go on."""

    def __init__(self, home: Home) -> None:
        super().__init__(home.database)
        try:
            self._connection.freeze()
            self._numbers = super().chains()
        except BaseException:
            self.close()
            raise

    def chains(self) -> dict[str, int]:
        """Return every chain's number by its name, as first seen."""
        return self._numbers

    def all_entries(self, number: int) -> Iterator[Entry]:
        """Return a chain's entries in order, also those that pretend to stand before the first."""
        return self.chain_entries(number, LOWEST)
